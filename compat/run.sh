#!/usr/bin/env bash
# Runs the clients named, or all: compat/run.sh [awscli] [rclone] …
# Without AWS_ENDPOINT_URL it starts target/release/lobgate (or COMPAT_BINARY) on a private PostgreSQL of its own, and
# asks `lobgate verify` for its opinion afterwards. peers/ has other servers, no client. The last line is "N passed, M failed, K skipped".
set -euo pipefail
compat=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
checkout=$(dirname "$compat")

names=("$@")
if [ ${#names[@]} = 0 ]; then
    for script in "$compat"/*/run.sh; do names+=("$(basename "$(dirname "$script")")"); done
    mapfile -t names < <(printf '%s\n' "${names[@]}" | grep -vx peers)
fi
for name in "${names[@]}"; do
    if [ "$name" = peers ] || [ ! -f "$compat/$name/run.sh" ]; then
        echo "there is no client $name; there are: $(cd "$compat" && echo */run.sh | sed 's|/run.sh||g; s|peers *||')" >&2
        exit 2
    fi
done

COMPAT_WORK=$(mktemp -d "${TMPDIR:-/tmp}/lobgate-compat.XXXXXX")
chmod 755 "$COMPAT_WORK" # the private PostgreSQL doesn't run as root
export COMPAT_WORK COMPAT_RESULTS="$COMPAT_WORK/results.tsv"
: >"$COMPAT_RESULTS"
gateway=

# Settings meant for another gateway, and those of the tests.
clients=${LOBGATE_TEST_CLIENTS:-}
for name in $(compgen -e LOBGATE_ || true); do unset "$name"; done

finish() {
    local code=$?
    trap - EXIT
    if [ -n "$gateway" ] && kill "$gateway" 2>/dev/null; then wait "$gateway" 2>/dev/null || true; fi
    if [ -n "${COMPAT_KEEP:-}" ]; then echo "kept: $COMPAT_WORK" >&2; else rm -rf "$COMPAT_WORK"; fi
    exit "$code"
}
trap finish EXIT
trap 'exit 130' INT TERM

binary=${COMPAT_BINARY:-$checkout/target/release/lobgate}
data="$COMPAT_WORK/data" log="$COMPAT_WORK/gateway.log"
: >"$log" # the gateway, in the background, may not have opened it when it is first read

start_gateway() {
    if [ ! -x "$binary" ]; then echo "$binary is missing: run \`make build\` first" >&2; exit 2; fi
    export AWS_ACCESS_KEY_ID=LOBGATECOMPAT AWS_SECRET_ACCESS_KEY=lobgate+compat/secret
    LOBGATE_ROOT_ACCESS_KEY=$AWS_ACCESS_KEY_ID LOBGATE_ROOT_SECRET_KEY=$AWS_SECRET_ACCESS_KEY "$binary" serve \
        --listen "${COMPAT_LISTEN:-127.0.0.1:0}" --admin-listen 127.0.0.1:0 --data-dir "$data" >"$log" 2>&1 &
    gateway=$!
    for _ in $(seq 600); do
        AWS_ENDPOINT_URL=$(sed -n 's/^endpoint: *//p' "$log")
        [ -z "$AWS_ENDPOINT_URL" ] || break
        if ! kill -0 "$gateway" 2>/dev/null; then echo "the gateway ended:" >&2; cat "$log" >&2; exit 2; fi
        sleep 0.1
    done
    export AWS_ENDPOINT_URL AWS_DEFAULT_REGION=us-east-1
}

result() { printf 'lobgate\t%s\t%s\t%s\n' "$(env -u LOBGATE_TEST_CLIENTS "$binary" --version | awk '{ print $2 }')" "$1" "$2" >>"$COMPAT_RESULTS"; }

# A gateway that lived through all that has every byte, and has complained about nothing but the clients' mistakes,
# of which s3s::ops keeps a record.
inspect_gateway() {
    echo
    echo "== lobgate"
    if env -u LOBGATE_TEST_CLIENTS "$binary" verify --data-dir "$data" >"$COMPAT_WORK/verify.log" 2>&1; then
        echo "  ok    verify finds no damage"; result ok verify
    else
        echo "  FAIL  verify"; sed 's/^/        | /' "$COMPAT_WORK/verify.log"; result fail verify
    fi
    if grep -E 'panicked at| ERROR ' "$log" | grep -Ev 's3s::ops.* code: [A-HJ-Z]|s3s::ops.* code: Inv' >"$COMPAT_WORK/complaints.log"; then
        echo "  FAIL  its log has errors"; head -20 "$COMPAT_WORK/complaints.log" | sed 's/^/        | /'; result fail log
    else
        echo "  ok    its log has no error"; result ok log
    fi
}

if [ -z "${AWS_ENDPOINT_URL:-}" ]; then start_gateway; fi
if [ -z "${AWS_ACCESS_KEY_ID:-}" ] || [ -z "${AWS_SECRET_ACCESS_KEY:-}" ]; then
    echo "AWS_ENDPOINT_URL is set, AWS_ACCESS_KEY_ID or AWS_SECRET_ACCESS_KEY is not" >&2
    exit 2
fi
export AWS_DEFAULT_REGION=${AWS_DEFAULT_REGION:-us-east-1} LOBGATE_TEST_CLIENTS=$clients
echo "endpoint: $AWS_ENDPOINT_URL"

for name in "${names[@]}"; do
    code=0
    "$compat/$name/run.sh" || code=$?
    if [ "$code" != 0 ]; then
        echo "  FAIL  $name/run.sh ended with exit code $code"
        printf '%s\t-\tfail\tthe script ended with exit code %s\n' "$name" "$code" >>"$COMPAT_RESULTS"
    fi
done
if [ -n "$gateway" ]; then inspect_gateway; fi

mkdir -p "$checkout/target/compat"
cp "$COMPAT_RESULTS" "$checkout/target/compat/results.tsv"
[ -z "$gateway" ] || cp "$log" "$checkout/target/compat/gateway.log"
echo
"$compat/matrix.sh" "$COMPAT_RESULTS" | tee "$checkout/target/compat/matrix.md"

count() { awk -F '\t' -v want="$1" 'index(want, $3) { n++ } END { print n + 0 }' "$COMPAT_RESULTS"; }
failed=$(count fail)
echo
echo "$(count ok,known) passed, $failed failed, $(count skip) skipped"
[ "$failed" = 0 ]
