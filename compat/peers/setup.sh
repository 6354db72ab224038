#!/usr/bin/env bash
# Installs the servers that `lobgate bench limit` is compared with: s3s-fs and Garage by cargo into target/peers (or
# PEERS_DIR), nginx by apt. What is there already is left alone; what can't be installed is said and is no failure, for a
# bar whose peer is missing is not measured.
set -uo pipefail
checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
peers=${PEERS_DIR:-$checkout/target/peers}

found() { [ -x "$peers/bin/$1" ] || command -v "$1" >/dev/null; }

by_cargo() {
    local name=$1
    shift
    if found "$name"; then echo "$name is there"; return; fi
    cargo install --ignore-rust-version --locked --root "$peers" "$@" || echo "$name can't be installed: its bars will not be measured" >&2
}

by_cargo s3s-fs s3s-fs --features binary
by_cargo garage garage
if found nginx || [ -x /usr/sbin/nginx ]; then
    echo "nginx is there"
else
    sudo=
    [ "$(id -u)" = 0 ] || sudo=sudo
    $sudo apt-get install -y --no-install-recommends nginx-light || echo "nginx can't be installed: its bars will not be measured" >&2
fi
