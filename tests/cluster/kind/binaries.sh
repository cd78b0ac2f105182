# shellcheck shell=bash
# Builds programs from the pinned Go modules in go/, each once per recipe. Sourced after lib.sh.
#
# The Go module proxy is often reachable where no container registry is, and
# it serves the whole of Kubernetes.

# package_of NAME: the module folder and the package that a program is built from
package_of() {
  case $1 in
    etcd) echo kubernetes go.etcd.io/etcd/server/v3 ;;
    kube*) echo kubernetes "k8s.io/kubernetes/cmd/$1" ;;
    kind) echo kind sigs.k8s.io/kind ;;
    crictl) echo kind sigs.k8s.io/cri-tools/cmd/crictl ;;
    coredns) echo coredns coredns ;;
    *) echo shims "shims/$1" ;;
  esac
}

binaries_folder() {
  local hash
  hash=$({ fingerprint "$HERE/go"; declare -f build; go version; } | sha256sum | cut -c1-12)
  printf '%s\n' "$CACHE/binaries-$hash"
}

# binaries NAME...: build what is missing, print the folder that holds them.
binaries() {
  local folder name module package missing
  have go || die "no Go tool here: it builds $*"
  folder=$(binaries_folder)
  mkdir -p "$folder"
  keep_newest "$CACHE"/binaries-*
  for module in kind shims coredns kubernetes; do
    missing=()
    for name in "$@"; do
      read -r owner package < <(package_of "$name")
      if [ "$owner" = $module ] && [ ! -x "$folder/$name" ]; then missing+=("$package"); fi
    done
    [ ${#missing[@]} -eq 0 ] || build "$module" "$folder" "${missing[@]}"
  done
  printf '%s\n' "$folder"
}

# build MODULE FOLDER PACKAGE...: into a side folder first, so that a broken build leaves
# nothing half done. All of Kubernetes takes about ten minutes on two cores.
build() {
  local module=$1 folder=$2 version=k8s.io/component-base/version side; shift 2
  local stamp="-s -w -X $version.gitVersion=$KUBE_VERSION -X $version.gitMajor=1"
  stamp+=" -X $version.gitMinor=$(cut -d. -f2 <<<"$KUBE_VERSION") -X $version.gitTreeState=clean"
  say "building ${*##*/}"
  side=$(mktemp -d --suffix=.tmp "$folder/build.XXXXXX")
  logged "go-$module" env -C "$HERE/go/$module" go build -trimpath -ldflags "$stamp" -o "$side/" "$@"
  [ ! -e "$side/server" ] || mv "$side/server" "$side/etcd"
  mv "$side"/* "$folder/"
  rmdir "$side"
}
