#!/usr/bin/env bash
# Starts the servers to compare with that are installed, each on a free port and with its data in a temporary directory,
# runs `lobgate bench limit` against them, and stops them by their process ids, however it ends. Arguments go to the bench:
#   compat/peers/run.sh --only get-4k,put-4k --rounds 3
# PEERS_DIR       where setup.sh installed them, default target/peers
# PEERS_BINARY    the gateway to measure, default target/release/lobgate
# PEERS_TMP       where the temporary directory is made: a disk like that of the database, or the comparison is not fair
# The exit code is that of the bench: 3 if a bar is missed.
set -euo pipefail
checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
peers=${PEERS_DIR:-$checkout/target/peers}
binary=${PEERS_BINARY:-$checkout/target/release/lobgate}
if [ ! -x "$binary" ]; then echo "$binary is missing: run \`make build\` first" >&2; exit 2; fi
PATH="$peers/bin:$PATH:/usr/sbin"

mkdir -p "${PEERS_TMP:-$checkout/target}"
work=$(mktemp -d "${PEERS_TMP:-$checkout/target}/peers-run.XXXXXX")
chmod 755 "$work" # nginx's workers don't run as root
pids=()
finish() {
    local code=$?
    trap - EXIT
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
    rm -rf "$work"
    exit "$code"
}
trap finish EXIT
trap 'exit 130' INT TERM HUP

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# Waits until something listens on a port, as long as the process lives.
await() {
    local name=$1 pid=$2 port=$3
    for _ in $(seq 200); do
        if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then return 0; fi
        if ! kill -0 "$pid" 2>/dev/null; then break; fi
        sleep 0.1
    done
    echo "$name does not start:" >&2
    tail -5 "$work/$name.log" >&2 || true
    return 1
}

random_hex() { head -c "$1" /dev/urandom | od -An -tx1 | tr -d ' \n'; }

arguments=()

start_s3s_fs() {
    local port secret
    port=$(free_port) secret=$(random_hex 16)
    mkdir "$work/s3s-fs"
    s3s-fs --host 127.0.0.1 --port "$port" --access-key PEERS --secret-key "$secret" "$work/s3s-fs" >"$work/s3s-fs.log" 2>&1 &
    pids+=($!)
    await s3s-fs $! "$port" || return 1
    arguments+=(--peer "s3s-fs=http://127.0.0.1:$port,PEERS,$secret")
}

# A single node that writes as durably as it can: both kinds of fsync are off by default.
start_garage() {
    local rpc s3 access secret node pid
    rpc=$(free_port) s3=$(free_port)
    access="GK$(random_hex 12)" secret=$(random_hex 32)
    export GARAGE_CONFIG_FILE="$work/garage.toml"
    cat >"$GARAGE_CONFIG_FILE" <<TOML
metadata_dir = "$work/garage/meta"
data_dir = "$work/garage/data"
db_engine = "lmdb"
replication_factor = 1
metadata_fsync = true
data_fsync = true
rpc_bind_addr = "127.0.0.1:$rpc"
rpc_public_addr = "127.0.0.1:$rpc"
rpc_secret = "$(random_hex 32)"
[s3_api]
s3_region = "garage"
api_bind_addr = "127.0.0.1:$s3"
root_domain = ".s3.localhost"
TOML
    chmod 600 "$GARAGE_CONFIG_FILE"
    RUST_LOG=garage=warn garage server >"$work/garage.log" 2>&1 &
    pid=$!
    pids+=("$pid")
    await garage "$pid" "$rpc" || return 1
    # Its first answer may take a moment after it listens.
    for _ in $(seq 50); do
        node=$(garage node id -q 2>/dev/null | cut -d @ -f 1) && garage status >/dev/null 2>&1 && break
        sleep 0.2
    done
    {
        garage layout assign -z here -c 100G "$node"
        garage layout apply --version 1
        garage key import --yes -n peers "$access" "$secret"
        garage key allow --create-bucket "$access"
    } >>"$work/garage.log" 2>&1 || { echo "garage can't be set up:" >&2; tail -5 "$work/garage.log" >&2; return 1; }
    await garage "$pid" "$s3" || return 1
    arguments+=(--peer "garage=http://127.0.0.1:$s3,$access,$secret,garage")
}

start_nginx() {
    local port
    port=$(free_port)
    mkdir -p "$work/nginx/files" "$work/nginx/tmp"
    cat >"$work/nginx/nginx.conf" <<CONF
daemon off;
pid $work/nginx/nginx.pid;
error_log $work/nginx.log warn;
worker_processes 2;
$([ "$(id -u)" != 0 ] || echo 'user root;')
events { worker_connections 1024; }
http {
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_timeout 600;
    keepalive_requests 1000000000;
    client_body_temp_path $work/nginx/tmp/body;
    proxy_temp_path $work/nginx/tmp/proxy;
    fastcgi_temp_path $work/nginx/tmp/fastcgi;
    uwsgi_temp_path $work/nginx/tmp/uwsgi;
    scgi_temp_path $work/nginx/tmp/scgi;
    server { listen 127.0.0.1:$port; root $work/nginx/files; }
}
CONF
    nginx -p "$work/nginx" -c "$work/nginx/nginx.conf" >"$work/nginx.log" 2>&1 &
    pids+=($!)
    await nginx $! "$port" || return 1
    arguments+=(--static "nginx=http://127.0.0.1:$port" --static-dir "$work/nginx/files")
}

for name in s3s-fs garage nginx; do
    if command -v "$name" >/dev/null; then
        "start_${name//-/_}" || echo "without $name" >&2
    else
        echo "$name is not installed (compat/peers/setup.sh): its bars will not be measured" >&2
    fi
done

# In the background and waited for, so that a signal reaches this script at once.
"$binary" bench limit "${arguments[@]}" "$@" &
bench=$!
trap 'kill -INT "$bench" 2>/dev/null || true; wait "$bench" || true; exit 130' INT TERM HUP
code=0
wait "$bench" || code=$?
exit "$code"
