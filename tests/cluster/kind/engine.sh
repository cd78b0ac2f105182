# shellcheck shell=bash
# The container engine: the one that is there, or a dockerd of our own. Sourced after binaries.sh.
ENGINE=$CACHE/engine
OWN_SOCKET=unix://$ENGINE/docker.sock

# a client without an engine behind it is common, so ask the engine
engine_answers() { have docker && docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }

own_engine_runs() { [ -e "$ENGINE/pid" ] && [ "$(cat "/proc/$(cat "$ENGINE/pid")/comm" 2>/dev/null)" = dockerd ]; }

# engine_find: point DOCKER_HOST at a running engine, or fail
engine_find() {
  if own_engine_runs; then
    export DOCKER_HOST=$OWN_SOCKET
  fi
  engine_answers
}

engine_up() {
  if engine_find; then return 0; fi
  [ "$(uname -s)/$(id -u)" = Linux/0 ] || die "no container engine answers, and only root on Linux can start one"
  need_packages dockerd=docker.io docker=docker.io containerd=containerd runc=runc iptables=iptables ip=iproute2
  engine_answers || engine_start
}

engine_start() {
  local flags=() bin
  mkdir -p "$ENGINE"
  if ! has_sys_resource; then
    bin=$(binaries runc-nosysres)
    cp "$bin/runc-nosysres" "$ENGINE/" # the engine may outlive that folder
    flags+=(--add-runtime "nosysres=$ENGINE/runc-nosysres" --default-runtime nosysres)
  fi
  say "starting dockerd"
  rm -f "$ENGINE/pid" "$ENGINE/docker.sock"
  iptables -S FORWARD | head -n1 | awk '{print $3}' >"$ENGINE/forward-policy"
  setsid nohup dockerd --data-root "$ENGINE/root" --exec-root "$ENGINE/exec" -H "$OWN_SOCKET" \
    --pidfile "$ENGINE/pid" "${flags[@]}" </dev/null >"$LOGS/dockerd.log" 2>&1 9>&- &
  export DOCKER_HOST=$OWN_SOCKET
  for _ in $(seq 150); do
    if engine_answers; then return 0; fi
    sleep 0.2
  done
  tail -n 20 "$LOGS/dockerd.log" >&2
  die "dockerd did not come up"
}

# bit 24 of the effective capabilities
has_sys_resource() {
  local mask
  mask=$(awk '/^CapEff/ {print $2}' /proc/self/status)
  (((0x$mask >> 24) & 1))
}

# engine_down: only what engine_start began, and what dockerd leaves behind in the kernel
engine_down() {
  local pid bridges
  own_engine_runs || return 0
  pid=$(cat "$ENGINE/pid")
  bridges=$(docker network ls --filter driver=bridge --format '{{.ID}}' | sed 's/^/br-/')
  kill "$pid"
  for _ in $(seq 120); do [ -d "/proc/$pid" ] || break; sleep 0.5; done
  if [ -d "/proc/$pid" ]; then die "dockerd ($pid) does not stop"; fi
  end_shims
  # dockerd mounts its data folder on itself, and its network namespaces
  awk -v top="$ENGINE/" 'index($2, top) == 1 {print $2}' /proc/mounts | sort -r | xargs -r umount -l
  for bridge in docker0 $bridges; do ip link delete "$bridge" 2>/dev/null || true; done
  for tables in iptables ip6tables; do remove_docker_chains $tables; done
  rmdir /lib/modules 2>/dev/null || true # kind mounts it, so dockerd makes it where it is missing
  iptables -P FORWARD "$(cat "$ENGINE/forward-policy" 2>/dev/null || echo ACCEPT)"
}

# a container whose removal failed keeps its shim, which names our engine's socket; the
# shim ignores SIGTERM, and with the container's first process all of it is gone
end_shims() {
  local process pid
  for process in /proc/[0-9]*; do
    case $(tr '\0' ' ' 2>/dev/null <"$process/cmdline") in
      *containerd-shim*"$ENGINE/exec/containerd"*)
        pid=${process#/proc/}
        # shellcheck disable=SC2046 # a list of ids
        kill -KILL $(ps -o pid= --ppid "$pid") "$pid" 2>/dev/null || true
        ;;
    esac
  done
}

# remove_docker_chains IPTABLES: first the jumps into docker's chains, then the chains
remove_docker_chains() {
  local tables=$1 table chain rule
  for table in nat filter; do
    "$tables" -t $table -S 2>/dev/null | grep -E -- '^-A (PREROUTING|OUTPUT|FORWARD|POSTROUTING) .*(DOCKER|docker0)' |
      while read -r rule; do eval "$tables -t $table -D ${rule#-A }"; done || true
    for action in -F -X; do
      for chain in $("$tables" -t $table -S 2>/dev/null | awk '/^-N DOCKER/ {print $2}'); do
        "$tables" -t $table $action "$chain"
      done
    done
  done
}

# keep_newest_images NAME: older tags than the two newest go, unless something runs from them
keep_newest_images() {
  docker images --format '{{.Repository}}:{{.Tag}}' "$1" | tail -n +3 | xargs -r docker rmi >/dev/null 2>&1 || true
  # unnamed images are the build cache: old ones go as well, but not those of somebody's own engine
  if own_engine_runs; then docker image prune -f --filter until=24h >/dev/null; fi
}

# present_or_pulled IMAGE: is it in the engine, or can it be brought there?
present_or_pulled() {
  docker image inspect "$1" >/dev/null 2>&1 && return 0
  [ -z "${AGENTRUN_TEST_OFFLINE:-}" ] || return 1
  say "pulling $1"
  timeout 900 docker pull -q "$1" >"$LOGS/pull.log" 2>&1
}
