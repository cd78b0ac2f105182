#!/usr/bin/env bash
# Start a run, kill its runner in the middle, watch it finish, and check what was recorded.
set -euo pipefail
cd "$(dirname "$0")/../.."
state=${1:-.demo}
agentrun=${AGENTRUN:-agentrun}
rm -rf "$state"
mkdir -p "$state"
export LEDGER="$PWD/$state/ledger.jsonl"

turns() {
  "$agentrun" get run demo --state "$state" -o json 2>/dev/null |
    python3 -c 'import json,sys; print((json.load(sys.stdin).get("status",{}).get("usage") or {}).get("turns",0))' 2>/dev/null || echo 0
}

echo "== the run starts"
"$agentrun" run examples/demo/run.yaml --model-script examples/demo/model.yaml --state "$state" &
run=$!
until [ "$(turns)" -ge 2 ] || ! kill -0 "$run" 2>/dev/null; do :; done
echo "== its runner is killed (SIGKILL), with two turns committed"
"$agentrun" kill demo --state "$state"
wait "$run"

echo "== what was recorded"
"$agentrun" transcript demo --state "$state"
echo "== the record, checked"
"$agentrun" verify demo --state "$state"
echo "== attempts and ledger: every entry is booked once"
"$agentrun" describe demo --state "$state" | sed -n '/^Attempts/,/^Events/p' | sed '/^Events/d'
cat "$LEDGER"
test "$(wc -l < "$LEDGER")" -eq 3
