#!/usr/bin/env bash
# s3cmd: put, get, sync, multipart, resumed downloads, its own attributes.
. "$(dirname "$0")/../lib.sh"

s3c() { "$program" --config "$COMPAT_WORK/s3cfg" --no-progress "$@"; }

configure() {
    local secure=False
    [[ $AWS_ENDPOINT_URL != https://* ]] || secure=True
    cat >"$COMPAT_WORK/s3cfg" <<END
[default]
access_key = $1
secret_key = $2
host_base = $endpoint_host
host_bucket = $endpoint_host
bucket_location = $AWS_DEFAULT_REGION
use_https = $secure
max_retries = 1
END
}

there_and_back() {
    s3c put "$1" "s3://$bucket/$2"
    rm -f back
    s3c get "s3://$bucket/$2" back
    same "$1" back
}

makes_a_bucket() {
    s3c mb "s3://$bucket"
    contains "$(s3c ls)" "$bucket"
    contains "$(s3c info "s3://$bucket")" "$bucket"
}
empty_file() { there_and_back "$fixtures/empty" empty; }
small_file() {
    there_and_back "$fixtures/small" dir/small
    contains "$(s3c info "s3://$bucket/dir/small")" "$(md5sum <"$fixtures/small" | cut -d' ' -f1)"
}
large_file() {
    there_and_back "$fixtures/large" large
    contains "$(witness request HEAD "/$bucket/large")" "-$(((large_mib + 14) / 15))\""
    no_uploads_left
}
streams() {
    s3c put - "s3://$bucket/stream" <"$fixtures/large"
    s3c get "s3://$bucket/stream" - | cmp - "$fixtures/large"
}
sync_tree() {
    s3c sync --quiet "$1/" "s3://$bucket/$2/"
    keys_are "$2" "$1"
    s3c sync --dry-run "$1/" "s3://$bucket/$2/" >out 2>&1
    ! grep -E '^(upload|delete|remote copy)' out || return 1
    mkdir -p "down-$2"
    s3c sync --quiet "s3://$bucket/$2/" "down-$2/"
    same_tree "$1" "down-$2"
}
sync_tree_of_sizes() { sync_tree "$fixtures/tree" tree; }
sync_many() { sync_tree "$fixtures/many" many; }
sync_odd() { sync_tree "$fixtures/odd" odd; }
sync_deletes() {
    cp -r "$fixtures/tree" changed
    rm changed/top
    echo new >changed/new
    s3c sync --quiet --delete-removed changed/ "s3://$bucket/tree/"
    keys_are tree changed
}
listings() {
    local all
    all=$(find "$fixtures/many" -type f | wc -l)
    equal "$(s3c ls --recursive "s3://$bucket/many/" | wc -l)" "$all"
    contains "$(s3c ls "s3://$bucket/many/")" DIR
    contains "$(s3c du "s3://$bucket/many/")" "$(find "$fixtures/many" -type f -printf '%s\n' | awk '{ s += $1 } END { print s }')"
}
resumed_download() {
    head -c 12345678 "$fixtures/large" >back
    s3c get --continue "s3://$bucket/large" back
    same "$fixtures/large" back
}
copies() {
    s3c cp "s3://$bucket/dir/small" "s3://$bucket/copy of/small + %20?#"
    s3c get --force "s3://$bucket/copy of/small + %20?#" back
    same back "$fixtures/small"
    s3c cp "s3://$bucket/large" "s3://$bucket/large-copy"
    s3c get --force "s3://$bucket/large-copy" back
    same back "$fixtures/large"
    s3c cp --recursive "s3://$bucket/odd/" "s3://$bucket/odd-copy/" >out
    keys_are odd-copy "$fixtures/odd"
}
moves() {
    s3c mv "s3://$bucket/copy of/small + %20?#" "s3://$bucket/moved/small"
    equal "$(witness keys "$bucket" "copy of/")" ""
    witness get "$bucket" moved/small | cmp - "$fixtures/small"
}
metadata() {
    s3c put --mime-type text/x-try --add-header Cache-Control:max-age=7 --add-header x-amz-meta-kind:compat "$fixtures/small" "s3://$bucket/meta"
    contains "$(s3c info "s3://$bucket/meta")" text/x-try
    contains "$(s3c info "s3://$bucket/meta")" "x-amz-meta-kind:"
    contains "$(witness request HEAD "/$bucket/meta")" max-age=7
    s3c modify --add-header x-amz-meta-kind:changed "s3://$bucket/meta"
    contains "$(s3c info "s3://$bucket/meta")" changed
    witness get "$bucket" meta | cmp - "$fixtures/small"
}
multipart_by_hand() {
    local upload
    witness request POST "/$bucket/left?uploads" >out
    upload=$(sed -n 's|.*<UploadId>\(.*\)</UploadId>.*|\1|p' out)
    contains "$(s3c multipart "s3://$bucket")" "$upload"
    s3c listmp "s3://$bucket/left" "$upload"
    s3c abortmp "s3://$bucket/left" "$upload"
    no_uploads_left
}
signed_url() {
    s3c signurl "s3://$bucket/dir/small" +60 >url
    curl -sS --fail-with-body "$(cat url)" -o back || { cat url back; return 1; }
    same back "$fixtures/small"
}
deletes() {
    s3c del "s3://$bucket/dir/small"
    s3c del --recursive --quiet "s3://$bucket/many/"
    s3c rm --recursive --quiet "s3://$bucket/odd-copy/"
    equal "$(witness keys "$bucket" many)$(witness keys "$bucket" dir/)$(witness keys "$bucket" odd-copy/)" ""
}
wrong_keys() {
    configure "$AWS_ACCESS_KEY_ID" wrong
    fails_with 'SignatureDoesNotMatch|403' s3c ls "s3://$bucket"
    configure NOBODY "$AWS_SECRET_ACCESS_KEY"
    fails_with 'InvalidAccessKeyId|403' s3c ls "s3://$bucket"
    fails_with '403' s3c put "$fixtures/small" "s3://$bucket/no"
}
missing_things() {
    configure "$AWS_ACCESS_KEY_ID" "$AWS_SECRET_ACCESS_KEY"
    fails_with "NoSuchBucket|does not exist" s3c ls "s3://$bucket-missing"
    fails_with 'NoSuchBucket|does not exist' s3c put "$fixtures/small" "s3://$bucket-missing/x"
    fails_with '404|does not exist' s3c get "s3://$bucket/missing" back
    fails_with '404|does not exist' s3c info "s3://$bucket/missing"
}
drops_a_bucket() {
    fails_with 'BucketNotEmpty|not empty' s3c rb "s3://$bucket"
    s3c rb --recursive --force --quiet "s3://$bucket"
    fails_with 'NoSuchBucket|does not exist' s3c info "s3://$bucket"
}

found=$(programs s3cmd)
[ -n "$found" ] || skip s3cmd "s3cmd is not installed"
for program in $found; do
    begin s3cmd "$("$program" --version | sed 's/^s3cmd version //')"
    configure "$AWS_ACCESS_KEY_ID" "$AWS_SECRET_ACCESS_KEY"
    check "makes a bucket" makes_a_bucket
    check "empty file" empty_file
    check "4 KiB" small_file
    check "$large_mib MiB in parts" large_file
    check "standard input and output" streams
    check "sync of sizes around the edges" sync_tree_of_sizes
    check "sync of $many small files" sync_many
    check "sync of odd names" sync_odd
    check "sync --delete-removed" sync_deletes
    check "listings" listings
    check "resumed download" resumed_download
    check "copies within the server" copies
    check "moves" moves
    check "metadata" metadata
    check "uploads listed and aborted" multipart_by_hand
    check "signed URL" signed_url
    check "deletes" deletes
    check "wrong keys" wrong_keys
    check "missing buckets and keys" missing_things
    check "drops a bucket" drops_a_bucket
done
