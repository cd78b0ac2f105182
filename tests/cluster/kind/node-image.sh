# shellcheck shell=bash
# A node image for kind, made of Debian packages and Go-built Kubernetes, for
# machines that reach no container registry. Sourced after engine.sh.
#
# Its parts: a minimal Debian with systemd and containerd, the kubelet and
# kubeadm, the files in node/, and the control plane's images, already in the
# node's containerd.
NODE_PACKAGES=systemd,systemd-sysv,dbus,containerd,runc,containernetworking-plugins,iproute2,iptables,nftables,conntrack,kmod,procps,util-linux,mount,socat,ethtool,ebtables,ca-certificates,jq
CONTROL_PLANE=(kube-apiserver kube-controller-manager kube-scheduler kube-proxy etcd coredns pause)

# self_built_node_image: print its name, building it when the engine does not have it
self_built_node_image() {
  local bin hash image
  bin=$(binaries "${CONTROL_PLANE[@]}" kubelet kubeadm kubectl crictl)
  hash=$({ fingerprint "$HERE/node" "$HERE/node-image.sh"; basename "$bin"; } | sha256sum | cut -c1-12)
  image=localhost/agentrun-test/node:$KUBE_VERSION-$hash
  if ! docker image inspect "$image" >/dev/null 2>&1; then
    need_packages containerd=containerd
    say "building the node image"
    logged node-image build_node_image "$bin" "$image"
    keep_newest_images "${image%:*}"
  fi
  printf '%s\n' "$image"
}

build_node_image() {
  local bin=$1 image=$2 work rootfs
  work=$(mktemp -d --suffix=.tmp "$CACHE/node-image.XXXXXX")
  rootfs=$work/rootfs
  mkdir "$rootfs"
  tar -C "$rootfs" -xf "$(debian_rootfs "$NODE_SUITE" "$NODE_PACKAGES")"
  control_plane_images "$bin" "$rootfs" "$work"
  install_node_files "$bin" "$rootfs"
  install_units "$rootfs"
  preload "$rootfs" "$work"
  tar -C "$rootfs" --one-file-system -c . | docker import \
    --change 'ENV container=docker PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
    --change 'ENTRYPOINT ["/kind/entrypoint"]' - "$image"
  rm -rf "$work"
}

# the images of kubeadm's static pods, under exactly the names that it asks for
control_plane_images() {
  local bin=$1 rootfs=$2 work=$3 image name names=()
  for image in $("$bin/kubeadm" config images list --kubernetes-version "$KUBE_VERSION"); do
    name=$(basename "${image%:*}")
    scratch_image "$bin/$name" "$work/$name" "$rootfs" "$image"
    names+=("$image")
  done
  docker save -o "$work/images.tar" "${names[@]}"
  docker rmi "${names[@]}"
}

# scratch_image BINARY FOLDER ROOTFS IMAGE: one static binary; kube-proxy also calls nft
scratch_image() {
  local binary=$1 folder=$2 rootfs=$3 image=$4 bin=/usr/local/bin library
  mkdir -p "$folder$bin" "$folder/tmp" "$folder/usr/sbin"
  cp "$binary" "$folder$bin/"
  if [ "$(basename "$binary")" = kube-proxy ]; then
    cp "$rootfs/usr/sbin/nft" "$folder/usr/sbin/"
    for library in $(chroot "$rootfs" ldd /usr/sbin/nft | grep -o '/[^ ]*'); do
      mkdir -p "$folder$(dirname "$library")"
      cp -L "$rootfs$library" "$folder$library"
    done
  fi
  tar -C "$folder" -c . | docker import --change "ENV PATH=$bin:/usr/sbin" \
    --change "ENTRYPOINT [\"$bin/$(basename "$binary")\"]" - "$image"
}

install_node_files() {
  local bin=$1 rootfs=$2
  mkdir -p "$rootfs"/{kind/manifests,opt/cni/bin,etc/cni/net.d,etc/containerd,etc/kubernetes/manifests}
  cp "$bin"/{kubelet,kubectl,kubeadm,crictl} "$rootfs/usr/bin/"
  cp "$rootfs"/usr/lib/cni/* "$rootfs/opt/cni/bin/"
  rm -f "$rootfs"/etc/cni/net.d/*
  printf %s "$KUBE_VERSION" >"$rootfs/kind/version"
  cp "$HERE"/node/default-{cni,storage}.yaml "$rootfs/kind/manifests/"
  install -m 755 "$HERE"/node/{node-cni,node-storage,entrypoint,kubelet-pre} "$rootfs/kind/"
  local pause; pause=$("$bin/kubeadm" config images list --kubernetes-version "$KUBE_VERSION" | grep /pause:)
  sed "s#@PAUSE@#$pause#" "$HERE/node/containerd.toml" >"$rootfs/etc/containerd/config.toml"
  cp "$HERE/node/crictl.yaml" "$rootfs/etc/"
}

# systemd inside a container: our own services, and none that wants hardware or a login
install_units() {
  local units=$1/etc/systemd/system unit
  mkdir -p "$units"/{kubelet.service.d,multi-user.target.wants}
  cp "$HERE"/node/{node-cni,node-storage,containerd,kubelet}.service "$units/"
  cp "$HERE/node/10-kubeadm.conf" "$units/kubelet.service.d/"
  rm -f "$1/lib/systemd/system/containerd.service"
  for unit in containerd kubelet node-cni node-storage; do
    ln -sf "/etc/systemd/system/$unit.service" "$units/multi-user.target.wants/$unit.service"
  done
  ln -sf /lib/systemd/system/multi-user.target "$units/default.target"
  while read -r unit; do ln -sf /dev/null "$units/$unit"; done <"$HERE/node/masked-units"
}

# preload: the images' content into the node's containerd store; unpacked at first use
preload() {
  local rootfs=$1 work=$2 daemon
  mkdir -p "$rootfs/var/lib/containerd"
  cat >"$work/containerd.toml" <<CONFIG
version = 2
root = "$rootfs/var/lib/containerd"
state = "$work/containerd"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = "$work/containerd.sock"
CONFIG
  containerd -c "$work/containerd.toml" 9>&- &
  daemon=$!
  for _ in $(seq 100); do [ ! -S "$work/containerd.sock" ] || break; sleep 0.2; done
  ctr -a "$work/containerd.sock" -n k8s.io images import --no-unpack "$work/images.tar"
  kill "$daemon"
  wait "$daemon" || true
}
