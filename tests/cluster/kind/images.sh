# shellcheck shell=bash
# The two images that the project's own ones stand on: its base, and Postgres. Sourced after engine.sh.
#
# Each is the official one where it can be had, otherwise a stand-in made of
# Debian's packages. The Dockerfile is the same with either: its base is a
# build argument.
OFFICIAL_BASE=$(sed -n 's/^ARG BASE_IMAGE=//p' "$TOP/Dockerfile")
OFFICIAL_POSTGRES=postgres:18
BASE_PACKAGES=python3,python3-venv,ca-certificates

base_image() {
  if present_or_pulled "$OFFICIAL_BASE"; then
    printf '%s\n' "$OFFICIAL_BASE"
  else
    stand_in_base
  fi
}

postgres_image() {
  if present_or_pulled "$OFFICIAL_POSTGRES"; then
    printf '%s\n' "$OFFICIAL_POSTGRES"
  else
    stand_in_postgres
  fi
}

# pip inside a build must trust and ask what pip on this machine does
pip_configuration() {
  local key value
  printf '[global]\ncert = /etc/ssl/certs/ca-certificates.crt\n'
  for key in index-url extra-index-url trusted-host; do
    value=$(python3 -m pip config list 2>/dev/null | sed -n "s/^\(global\|user\|site\|:env:\)\.$key='\(.*\)'$/\2/p" | tail -n1)
    [ -z "$value" ] || printf '%s = %s\n' "$key" "$value"
  done
}

stand_in_base() {
  local bundle=/etc/ssl/certs/ca-certificates.crt hash image work tar
  hash=$({ fingerprint "$HERE/images.sh"; pip_configuration; cat $bundle; } | sha256sum | cut -c1-12)
  image=localhost/agentrun-test/python:$BASE_SUITE-$hash
  if ! docker image inspect "$image" >/dev/null 2>&1; then
    tar=$(debian_rootfs "$BASE_SUITE" "$BASE_PACKAGES")
    say "building the stand-in for $OFFICIAL_BASE"
    work=$(mktemp -d --suffix=.tmp "$CACHE/base.XXXXXX")
    tar -C "$work" -xf "$tar"
    cp -L $bundle "$work$bundle"
    pip_configuration >"$work/etc/pip.conf"
    ln -s /usr/bin/python3 "$work/usr/local/bin/python"
    tar -C "$work" -c . | docker import --change 'CMD ["python"]' - "$image" >/dev/null
    rm -rf "$work"
    keep_newest_images "${image%:*}"
  fi
  printf '%s\n' "$image"
}

stand_in_postgres() {
  local base hash image
  base=$(stand_in_base)
  hash=$({ fingerprint "$HERE/postgres"; printf %s "$base"; } | sha256sum | cut -c1-12)
  image=localhost/agentrun-test/postgres:$hash
  if ! docker image inspect "$image" >/dev/null 2>&1; then
    say "building the stand-in for $OFFICIAL_POSTGRES"
    logged postgres-image docker build --network=host --build-arg "BASE_IMAGE=$base" -t "$image" "$HERE/postgres"
    keep_newest_images "${image%:*}"
  fi
  printf '%s\n' "$image"
}
