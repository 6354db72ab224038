#!/usr/bin/env bash
# git-lfs through giftless, a git-lfs server that keeps its objects in the endpoint: proxied through the server
# (boto3's transfer manager) and presigned (git-lfs itself talks to the endpoint, checksums signed along).
. "$(dirname "$0")/../lib.sh"

# Sizes in KiB: 20 files of 0.1 to 60 MiB.
sizes=(100 150 200 300 400 500 700 1000 1500 2000 3000 4000 5000 6000 8000 10000 16384 24000 40000 61440)

git_here() { git -C repository "$@"; }
oids() { git -C "$1" lfs ls-files --long | awk '{ print $1 }' | sort; }

# giftless with a transfer factory, on a free port: sets $server.
start_server() {
    cat >"$work/giftless.yaml" <<END
AUTH_PROVIDERS: ["giftless.auth.allow_anon:read_write"]
LEGACY_ENDPOINTS: false
TRANSFER_ADAPTERS:
  basic:
    factory: giftless.transfer.$1:factory
    options:
      storage_class: giftless.storage.amazon_s3:AmazonS3Storage
      storage_options: { bucket_name: $bucket, path_prefix: lfs, endpoint: "$AWS_ENDPOINT_URL" }
      action_lifetime: 900
END
    # boto3 presigns with Signature Version 2 for us-east-1 unless it is told otherwise.
    printf '[default]\ns3 =\n    signature_version = s3v4\n' >"$work/aws-config"
    (
        cd "$work"
        AWS_CONFIG_FILE="$work/aws-config" GIFTLESS_CONFIG_FILE="$work/giftless.yaml" \
            exec "$python" "$compat/git-lfs/server.py" "${COMPAT_LFS_PORT:-0}"
    ) >"$work/server.log" 2>&1 &
    children+=($!)
    server=
    for _ in $(seq 200); do
        server=$(sed -n 's/^listening on //p' "$work/server.log")
        [ -z "$server" ] || return 0
        sleep 0.1
    done
    cat "$work/server.log"
    return 1
}

a_server_starts() { contains "$server" http; }

push() {
    local size
    git init -q --bare -b main origin.git
    git clone -q origin.git repository
    git_here lfs install --local
    git_here lfs track '*.bin'
    printf '[lfs]\n\turl = %s/team/project.git/info/lfs\n\tlocksverify = false\n' "$server" >repository/.lfsconfig
    for size in "${sizes[@]}"; do random $((size * 1024 + size % 7)) >"repository/file of $size KiB.bin"; done
    mkdir -p repository/sub
    cp "repository/file of 100 KiB.bin" repository/sub/same.bin # one object, two files
    : >repository/empty.bin
    git_here add -A
    git_here commit -q -m files
    git_here push origin main
    git_here lfs push --all origin main
}

# Every object, under its own digest, and nothing else.
objects_are_in_the_bucket() {
    local oid count=0
    diff <(oids repository | uniq) <(witness keys "$bucket" lfs/team/project/ | sed 's|.*/||' | sort)
    for oid in $(oids repository | uniq); do
        equal "$(witness get "$bucket" "lfs/team/project/$oid" | sha256sum | cut -d' ' -f1)" "$oid"
        count=$((count + 1))
    done
    equal "$count" "${#sizes[@]}"
    no_uploads_left
}

clone() {
    git clone -q origin.git clone
    git -C clone lfs fsck
    for file in repository/*.bin repository/sub/*.bin; do same "$file" "clone/${file#repository/}"; done
}

second_push_sends_only_what_is_new() {
    local before
    before=$(witness request GET "/$bucket?list-type=2&prefix=lfs/" | grep -o '<LastModified>[^<]*' | sort | uniq -c)
    random 3000001 >"repository/file of 100 KiB.bin"
    git_here commit -q -a -m changed
    git_here push origin main
    equal "$(witness keys "$bucket" lfs/ | wc -l)" $((${#sizes[@]} + 1))
    contains "$(witness request GET "/$bucket?list-type=2&prefix=lfs/" | grep -o '<LastModified>[^<]*' | sort | uniq -c)" "$before"
    git -C clone pull -q
    git -C clone lfs fsck
    same "repository/file of 100 KiB.bin" "clone/file of 100 KiB.bin"
}

# A download that was cut leaves a part; git-lfs asks for the rest with Range.
resumed_download() {
    local oid
    oid=$(git_here lfs ls-files --long | awk '/61440/ { print $1 }')
    rm -rf clone/.git/lfs/objects "clone/file of 61440 KiB.bin"
    mkdir -p clone/.git/lfs/incomplete
    head -c 30000000 "repository/file of 61440 KiB.bin" >"clone/.git/lfs/incomplete/$oid.part"
    GIT_TRACE=1 git -C clone lfs pull --include 'file of 61440 KiB.bin' >trace 2>&1 || { tail -5 trace; return 1; }
    same "repository/file of 61440 KiB.bin" "clone/file of 61440 KiB.bin"
    grep -q 'resume' trace || skip_check "complete, but this version of git-lfs does not say that it resumed"
}

missing_object() {
    local oid
    oid=$(git_here lfs ls-files --long | awk '/ sub/ { print $1 }')
    witness request DELETE "/$bucket/lfs/team/project/$oid" >/dev/null
    git -c filter.lfs.smudge= -c filter.lfs.process= -c filter.lfs.required=false clone -q origin.git clone-missing
    git -C clone-missing lfs install --local
    fails_with "$oid|404|not exist" git -C clone-missing lfs pull
    git_here lfs push --all origin main # puts it back
    git -C clone-missing lfs pull
    same repository/sub/same.bin clone-missing/sub/same.bin
}

if ! git lfs version >/dev/null 2>&1; then
    skip git-lfs "git-lfs is not installed"
    exit 0
fi
python=$(COMPAT_VERSIONS=first pythons_with giftless)
if [ -z "$python" ]; then
    skip git-lfs "no python3 here can import giftless"
    exit 0
fi
git config --global user.name compat
git config --global user.email compat@example.org
git config --global init.defaultBranch main
git config --global filter.lfs.smudge 'git-lfs smudge -- %f'
git config --global filter.lfs.clean 'git-lfs clean -- %f'
git config --global filter.lfs.process 'git-lfs filter-process'
git config --global filter.lfs.required true

versions="$(git lfs version | sed 's|^git-lfs/\([^ ]*\).*|\1|')"
versions+=", giftless $("$python" -c 'import importlib.metadata as m; print(m.version("giftless"))')"
for mode in streaming external; do
    [ "$mode" = streaming ] && how=proxied || how=presigned
    begin git-lfs "$versions, $how"
    witness make "$bucket"
    start_server "basic_$mode" || true
    check "the server starts" a_server_starts
    check "push of ${#sizes[@]} files of 0.1 to 60 MiB" push
    check "every object is in the bucket" objects_are_in_the_bucket
    check "clone and fsck" clone
    check "a second push sends only what is new" second_push_sends_only_what_is_new
    check "a resumed download" resumed_download
    check "a missing object" missing_object
done
