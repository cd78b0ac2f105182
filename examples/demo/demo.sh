#!/usr/bin/env bash
# Start a run, kill its runner in the middle, watch it finish, and check what was recorded.
set -euo pipefail
cd "$(dirname "$0")/../.."
state=.demo
agentrun=${AGENTRUN:-agentrun}
rm -rf "$state"
mkdir -p "$state"
ledger=$state/ledger.jsonl

turns() { "$agentrun" transcript demo --state "$state" 2>/dev/null | grep -c ' < ' || true; }

echo "== the run starts"
"$agentrun" run examples/demo/run.yaml --model-script examples/demo/model.yaml --state "$state" &
run=$!
until [ "$(turns)" -ge 2 ] || ! kill -0 "$run" 2>/dev/null; do sleep 0.1; done
kill -0 "$run" 2>/dev/null || { wait "$run"; echo "the run ended before it could be killed" >&2; exit 1; }
echo "== its runner is killed (SIGKILL), with two turns committed"
"$agentrun" kill demo --state "$state"
wait "$run"

echo "== what was recorded"
"$agentrun" transcript demo --state "$state"
echo "== the record, checked"
"$agentrun" verify demo --state "$state"
echo "== attempts and ledger: every entry is booked once"
"$agentrun" describe demo --state "$state" | sed -n '/^Attempts/,/^Events/p' | sed '/^Events/d'
cat "$ledger"
test "$(wc -l < "$ledger")" -eq 3
