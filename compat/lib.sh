# Sourced by the run.sh of every client: what they rely on, and how they report.
#
# What a script finds in the environment: AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
# AWS_DEFAULT_REGION, COMPAT_WORK (a directory that compat/run.sh removes) and COMPAT_RESULTS (a file that it reads).
# What it calls, in this order, for every version of its client:
#     programs NAME              prints the path of each version of a program
#     begin CLIENT VERSION       sets $bucket (a new name) and $work (an empty directory)
#     check "WHAT" FUNCTION …    runs it in a subshell with `set -e` and reports; the script goes on if it failed
#     skip CLIENT "WHY"          instead of all that, if the client isn't installed
# Fixtures are made once per run: $fixtures/{empty,small,large,tree/,many/,odd/}.

set -euo pipefail
shopt -s inherit_errexit

compat=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
checkout=$(dirname "$compat")

if [ -z "${AWS_ENDPOINT_URL:-}" ] || [ -z "${COMPAT_RESULTS:-}" ]; then
    echo "this script is started by compat/run.sh: compat/run.sh $(basename "$(dirname "$0")")" >&2
    exit 2
fi

# Settings of this machine and of its user must not reach the clients: each is tried as it comes out of the box.
for name in $(compgen -e); do
    case $name in
        AWS_ENDPOINT_URL | AWS_ACCESS_KEY_ID | AWS_SECRET_ACCESS_KEY | AWS_DEFAULT_REGION) ;;
        AWS_* | RCLONE_* | S3_* | GIT_* | GIFTLESS_* | *_CA_BUNDLE | SSL_CERT_* | *_proxy | *_PROXY) unset "$name" ;;
    esac
done
export HOME="$COMPAT_WORK/home" XDG_CONFIG_HOME="$COMPAT_WORK/home/.config" LC_ALL=C.UTF-8 PYTHONUTF8=1
mkdir -p "$HOME"
export AWS_EC2_METADATA_DISABLED=true AWS_PAGER=
export AWS_MAX_ATTEMPTS=1 # a repeated request would hide a failure
endpoint_host=${AWS_ENDPOINT_URL#*://}

MIB=1048576
large_mib=${COMPAT_LARGE_MIB:-100}
many=${COMPAT_FILES:-2000}
fixtures="$COMPAT_WORK/fixtures"

# --- programs ---------------------------------------------------------------------------------------------------------

# Where clients are looked for: the directory of LOBGATE_TEST_CLIENTS, .venv of the checkout, PATH.
search_path() { tr : '\n' <<<"${LOBGATE_TEST_CLIENTS:-}:$checkout/.venv/bin:$PATH" | awk 'NF && !seen[$0]++'; }

# Each version of a program, one path per line. COMPAT_VERSIONS=first takes only the one found first.
programs() {
    local directory file seen=' ' print
    while read -r directory; do
        file="$directory/$1"
        [ -f "$file" ] && [ -x "$file" ] || continue
        print=$({ "$file" --version 2>/dev/null || "$file" version 2>/dev/null; } | head -1 | tr ' ' _) || continue
        [ -n "$print" ] && [[ $seen != *" $print "* ]] || continue
        seen+="$print "
        echo "$file"
        [ "${COMPAT_VERSIONS:-all}" != first ] || break
    done < <(search_path)
}

# Each Python that can import the module, one path per version of the module.
pythons_with() {
    local directory file seen=' ' version
    while read -r directory; do
        file="$directory/python3"
        [ -x "$file" ] || continue
        version=$("$file" -c "import $1, importlib.metadata as m; print(m.version('$1'))" 2>/dev/null) || continue
        [[ $seen != *" $version "* ]] || continue
        seen+="$version "
        echo "$file"
        [ "${COMPAT_VERSIONS:-all}" != first ] || break
    done < <(search_path)
}

# --- reports ----------------------------------------------------------------------------------------------------------

client= version= bucket= work=

begin() {
    client=$1 version=$2
    bucket="compat-$1-$(od -An -N5 -tx1 /dev/urandom | tr -d ' ')"
    work="$COMPAT_WORK/$1-${2//[^A-Za-z0-9.]/-}"
    rm -rf "$work"
    mkdir -p "$work"
    buckets+=("$bucket")
    echo
    echo "== $client $version"
}

report() { printf '%s\t%s\t%s\t%s\n' "$client" "$version" "$1" "$2" >>"$COMPAT_RESULTS"; }

# The reason why this check is known to fail, or nothing: lines "version pattern<TAB>check<TAB>reason".
known_difference() {
    local pattern what reason file="$compat/expected/$client.tsv"
    [ -f "$file" ] || return 0
    while IFS=$'\t' read -r pattern what reason; do
        # shellcheck disable=SC2053 # it is a pattern
        if [[ $version == $pattern && $what == "$1" ]]; then echo "$reason"; fi
    done < <(grep -v '^#' "$file")
}

check() {
    local what=$1 log="$work/log" started=$SECONDS code reason
    shift
    reason=$(known_difference "$what")
    set +e
    (set -euo pipefail; cd "$work"; "$@") >"$log" 2>&1 </dev/null
    code=$?
    set -e
    if [ "$code" = 77 ]; then
        printf '  skip  %s: %s\n' "$what" "$(tail -1 "$log")"
        report skip "$what"
    elif [ "$code" = 0 ] && [ -z "$reason" ]; then
        printf '  ok    %s (%s s)\n' "$what" $((SECONDS - started))
        report ok "$what"
    elif [ "$code" = 0 ]; then
        printf '  FAIL  %s: it passed, yet expected/%s.tsv says: %s\n' "$what" "$client" "$reason"
        report fail "$what"
    elif [ -n "$reason" ]; then
        printf '  known %s: %s\n' "$what" "$reason"
        report known "$what"
    else
        printf '  FAIL  %s (exit code %s)\n' "$what" "$code"
        tail -n "${COMPAT_LOG_LINES:-25}" "$log" | cut -c1-2000 | sed 's/^/        | /'
        report fail "$what"
    fi
}

skip() {
    client=$1 version=-
    echo
    echo "== $1: skipped, $2"
    report skip "$2"
}

# Inside a check: this client can't do that.
skip_check() { echo "$*"; exit 77; }

# --- cleaning up ------------------------------------------------------------------------------------------------------

buckets=() children=()

clean_up() {
    local code=$? one
    trap - EXIT
    for one in "${children[@]}"; do kill "$one" 2>/dev/null || true; done
    for one in "${buckets[@]}"; do witness drop "$one" || true; done
    exit "$code"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# --- assertions -------------------------------------------------------------------------------------------------------

# Requests of our own, signed with nothing but Python's library: what is really in the bucket.
witness() { python3 "$compat/witness.py" "$@"; }

same() { cmp -- "$1" "$2"; }
same_tree() { diff -r --brief -- "$1" "$2"; }
equal() { [ "$1" = "$2" ] || { printf 'expected: %s\nfound:    %s\n' "$2" "$1"; return 1; }; }
contains() { [[ $1 == *"$2"* ]] || { printf 'not found: %s\nin: %s\n' "$2" "$1"; return 1; }; }

# The command fails, and what it writes matches the pattern.
fails_with() {
    local pattern=$1 output code
    shift
    if output=$("$@" 2>&1); then echo "it should have failed: $*"; echo "$output"; return 1; fi
    grep -Eq -- "$pattern" <<<"$output" || { echo "no $pattern in what it wrote: $*"; echo "$output"; return 1; }
}

# Bytes FIRST to LAST of a file.
slice() { tail -c "+$(($2 + 1))" -- "$1" | head -c $(($3 - $2 + 1)) || true; }

# The keys below a prefix of the bucket are the names of the files in a directory.
keys_are() { diff <(cd "$2" && find . -type f | sed 's|^\./||' | LC_ALL=C sort) <(witness keys "$bucket" "$1/" | sed "s|^$1/||" | LC_ALL=C sort); }

no_uploads_left() { equal "$(witness uploads "$bucket")" ""; }

# --- fixtures ---------------------------------------------------------------------------------------------------------

random() { head -c "$1" /dev/urandom; }

make_fixtures() {
    local sizes=(0 1 2047 2048 2049 4096 65535 65536 65537 300000 1048576 5242880 8388608 13631489) i name
    mkdir -p "$fixtures.new"/{tree/deep/er,many,odd}
    cd "$fixtures.new"
    : >empty
    random 4096 >small
    random $((large_mib * MIB)) >large
    for i in "${!sizes[@]}"; do random "${sizes[$i]}" >"tree/deep/er/size-${sizes[$i]}"; done
    cp small tree/top
    for i in 0 1 2 3; do # no two of the same size, from 100 bytes to some KiB
        mkdir -p "many/part $i"
        random $((many / 4 * 1500)) | split -b 1500 -a 5 -d - "many/part $i/file-"
    done
    : >many/empty
    while IFS= read -r name; do
        mkdir -p "odd/$(dirname -- "$name")"
        random $((64 + ${#name})) >"odd/$name"
    done <"$compat/odd-names.txt"
    : >'odd/empty file'
    cd "$COMPAT_WORK"
    mv "$fixtures.new" "$fixtures"
}

[ -d "$fixtures" ] || make_fixtures
