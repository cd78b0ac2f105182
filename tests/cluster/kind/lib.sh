# shellcheck shell=bash
# shellcheck disable=SC2034 # its variables are used by the scripts that source it
# What the scripts of this folder share. Sourced, never run.
#
# Results go to stdout, everything else to stderr. All state is under $CACHE,
# outside the checkout, so that a fresh clone finds what an older one built.
set -euo pipefail
shopt -s inherit_errexit

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
TOP=$(cd "$HERE/../../.." && pwd)
CACHE=${AGENTRUN_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/agentrun-test-cluster}
STATE=$CACHE/state
[ -z "${AGENTRUN_TEST_KUBECONTEXT:-}" ] || STATE=$CACHE/context # our own cluster's stays as it is
LOGS=$CACHE/logs
CLUSTER=agentrun-test
KUBECONFIG_FILE=$STATE/kubeconfig
KUBE_VERSION=$(sed -n 's#^\tk8s.io/kubernetes \(v[0-9.]*\).*#\1#p' "$HERE/go/kubernetes/go.mod")
OFFICIAL_NODE_IMAGE=kindest/node:v1.37.0@sha256:a1ed56cfb0e7b93589bdf97c8cd566405a265939e3620fc4f5de89adff580ae5 # kind v0.33.0's own
NODE_SUITE=bookworm # node image
BASE_SUITE=trixie   # stand-in for the Dockerfile's base: the release that python:3.13-slim is made from
export CGO_ENABLED=0
mkdir -p "$STATE" "$LOGS"

say() { printf '%s %s\n' "$(date +%T)" "$*" >&2; }
die() { say "$*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# logged NAME COMMAND...: keep noisy output in a file; show its end only when it failed.
logged() {
  local log=$LOGS/$1.log status; shift
  # not as a condition: that would switch errexit off in a function called here
  set +e
  (set -e; "$@") >"$log" 2>&1
  status=$?
  set -e
  [ $status -ne 0 ] || return 0
  tail -n 40 "$log" >&2
  die "failed: $* (whole log: $log)"
}

# fingerprint FILE_OR_FOLDER...: a short hash over names and contents.
fingerprint() {
  local path
  for path in "$@"; do
    find "$path" -type f -print0 | sort -z | while IFS= read -r -d '' file; do
      printf '%s\n' "${file#"$TOP"/}"; cat "$file"
    done
  done | sha256sum | cut -c1-12
}

# one at a time: parallel test runs share one engine, one cache and one cluster
lock() {
  exec 9>"$CACHE/lock"
  flock 9
  rm -rf "$CACHE"/*.tmp "$CACHE"/binaries-*/*.tmp # what an interrupted run left
}

# keep_newest PATH...: all but the two newest go, so that a cache does not grow for ever
keep_newest() {
  # shellcheck disable=SC2012 # names that we chose
  ls -td "$@" 2>/dev/null | tail -n +3 | xargs -r rm -rf
}

# need_packages COMMAND=PACKAGE...: install the Debian packages of the commands that are missing.
need_packages() {
  local pair missing=()
  for pair in "$@"; do have "${pair%%=*}" || missing+=("${pair#*=}"); done
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" != 0 ] || ! have apt-get; then die "please install: ${missing[*]}"; fi
  say "installing ${missing[*]}"
  logged apt-update apt-get update -q
  logged apt-install env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
}

# the archive that this machine's own apt uses
# shellcheck disable=SC2016 # apt's own placeholder
debian_mirror() {
  apt-get indextargets --format '$(REPO_URI)' | grep -E '/debian/?$' | sort -u | sed -n 1p
}

# debian_rootfs SUITE PACKAGE,PACKAGE...: path of a tar with that minimal system.
debian_rootfs() {
  local suite=$1 packages=$2 tar folder
  tar=$CACHE/debian-$suite-$({ printf %s "$packages"; declare -f debian_rootfs; } | sha256sum | cut -c1-12).tar
  if [ ! -e "$tar" ]; then
    need_packages debootstrap=debootstrap
    say "debootstrap $suite (about a minute)"
    folder=$(mktemp -d --suffix=.tmp "$CACHE/debootstrap.XXXXXX")
    logged "debootstrap-$suite" debootstrap --variant=minbase --include="$packages" "$suite" "$folder" "$(debian_mirror)"
    rm -rf "$folder"/var/cache/apt/* "$folder"/var/lib/apt/lists/* "$folder/etc/hostname" "$folder"/var/log/*.log
    tar -C "$folder" --one-file-system -cf "$folder.tar.tmp" .
    mv "$folder.tar.tmp" "$tar"
    rm -rf "$folder"
    keep_newest "$CACHE/debian-$suite"-*.tar
  fi
  printf '%s\n' "$tar"
}
