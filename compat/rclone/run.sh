#!/usr/bin/env bash
# rclone: copy, sync, check with and without download, hashes and times, server-side copies, mount where FUSE is there.
. "$(dirname "$0")/../lib.sh"

export RCLONE_CONFIG=/dev/null RCLONE_RETRIES=1 RCLONE_LOW_LEVEL_RETRIES=1
export RCLONE_CONFIG_LOB_TYPE=s3 RCLONE_CONFIG_LOB_PROVIDER=Other RCLONE_CONFIG_LOB_ENDPOINT=$AWS_ENDPOINT_URL
export RCLONE_CONFIG_LOB_ACCESS_KEY_ID=$AWS_ACCESS_KEY_ID RCLONE_CONFIG_LOB_SECRET_ACCESS_KEY=$AWS_SECRET_ACCESS_KEY
export RCLONE_CONFIG_LOB_REGION=$AWS_DEFAULT_REGION

rclone() { "$program" "$@"; }

there_and_back() {
    rclone copyto "$1" "lob:$bucket/$2"
    equal "$(rclone lsf --format s "lob:$bucket/$2")" "$(stat -c %s "$1")"
    rclone copyto "lob:$bucket/$2" back
    same "$1" back
    rm back
}

makes_a_bucket() {
    rclone mkdir "lob:$bucket"
    contains "$(rclone lsd lob:)" "$bucket"
}
empty_file() { there_and_back "$fixtures/empty" empty; }
small_file() {
    there_and_back "$fixtures/small" dir/small
    equal "$(rclone md5sum "lob:$bucket/dir/small" | cut -d' ' -f1)" "$(md5sum <"$fixtures/small" | cut -d' ' -f1)"
}
# Above its cutoff of 200 MiB rclone uploads in parts: the cutoff is lowered.
large_file() {
    rclone copyto --s3-upload-cutoff 5M --s3-chunk-size 5M "$fixtures/large" "lob:$bucket/large"
    rclone copyto "lob:$bucket/large" back
    same "$fixtures/large" back
    equal "$(rclone md5sum "lob:$bucket/large" | cut -d' ' -f1)" "$(md5sum <"$fixtures/large" | cut -d' ' -f1)"
    no_uploads_left
}
large_file_in_one_put() { there_and_back "$fixtures/large" large-one; }
streams() {
    rclone rcat "lob:$bucket/stream" <"$fixtures/large"
    rclone cat "lob:$bucket/stream" | cmp - "$fixtures/large"
    rclone rcat "lob:$bucket/stream-small" <"$fixtures/small"
    rclone cat "lob:$bucket/stream-small" | cmp - "$fixtures/small"
}
sync_tree() {
    rclone sync "$1" "lob:$bucket/$2"
    keys_are "$2" "$1"
    rclone check "$1" "lob:$bucket/$2"
    rclone check --download "$1" "lob:$bucket/$2"
    equal "$(rclone sync --dry-run -v "$1" "lob:$bucket/$2" 2>&1 | grep -c 'Skipped copy' || true)" 0
    rclone sync "lob:$bucket/$2" "down-$2"
    same_tree "$1" "down-$2"
}
sync_tree_of_sizes() { sync_tree "$fixtures/tree" tree; }
sync_many() { sync_tree "$fixtures/many" many; }
sync_odd() { sync_tree "$fixtures/odd" odd; }
sync_deletes() {
    cp -r "$fixtures/tree" changed
    rm changed/top
    echo new >changed/new
    rclone sync changed "lob:$bucket/tree"
    keys_are tree changed
}
fast_list() {
    equal "$(rclone lsf -R --files-only --fast-list --s3-list-chunk 300 "lob:$bucket/many" | wc -l)" "$(find "$fixtures/many" -type f | wc -l)"
    equal "$(rclone lsf -R --files-only --s3-list-version 1 --s3-list-chunk 300 "lob:$bucket/many" | wc -l)" "$(find "$fixtures/many" -type f | wc -l)"
    equal "$(rclone size --json "lob:$bucket/many" | sed 's/.*"bytes":\([0-9]*\).*/\1/')" "$(find "$fixtures/many" -type f -printf '%s\n' | awk '{ s += $1 } END { print s }')"
}
times() {
    cp "$fixtures/small" aged
    touch -d '2001-02-03 04:05:06.123456789 UTC' aged
    rclone copyto aged "lob:$bucket/aged"
    contains "$(TZ=UTC rclone lsl "lob:$bucket/aged")" "2001-02-03 04:05:06.123456789"
    rclone copyto "lob:$bucket/aged" back
    equal "$(stat -c %Y back)" "$(stat -c %Y aged)"
    rclone touch --timestamp 2010-10-10T10:10:10 "lob:$bucket/aged"
    contains "$(TZ=UTC rclone lsl "lob:$bucket/aged")" "2010-10-10 10:10:10"
    rclone cat "lob:$bucket/aged" | cmp - "$fixtures/small"
}
ranges() {
    local range offset
    for range in 0:1 2047:3 5242870:20 8388600:6000000; do
        offset=${range%:*}
        rclone cat --offset "$offset" --count "${range#*:}" "lob:$bucket/large" |
            cmp - <(slice "$fixtures/large" "$offset" $((offset + ${range#*:} - 1)))
    done
    rclone cat --tail 5 "lob:$bucket/large" | cmp - <(tail -c 5 "$fixtures/large")
    rclone copyto --multi-thread-cutoff 10M --multi-thread-streams 4 "lob:$bucket/large" back
    same "$fixtures/large" back
}
copies() {
    rclone copyto "lob:$bucket/dir/small" "lob:$bucket/copy of/small + %20?#"
    rclone cat "lob:$bucket/copy of/small + %20?#" | cmp - "$fixtures/small"
    rclone copyto --s3-copy-cutoff 20M "lob:$bucket/large" "lob:$bucket/large-copy"
    rclone cat "lob:$bucket/large-copy" | cmp - "$fixtures/large"
    rclone copy "lob:$bucket/odd" "lob:$bucket/odd-copy"
    rclone check --download "$fixtures/odd" "lob:$bucket/odd-copy"
}
moves() {
    rclone copyto "$fixtures/small" "lob:$bucket/moving"
    rclone moveto "lob:$bucket/moving" "lob:$bucket/moved to/here"
    equal "$(witness keys "$bucket" moving)" ""
    rclone cat "lob:$bucket/moved to/here" | cmp - "$fixtures/small"
    rclone move "lob:$bucket/odd-copy" "lob:$bucket/odd-moved"
    keys_are odd-moved "$fixtures/odd"
    equal "$(witness keys "$bucket" odd-copy)" ""
}
# Killed in the middle of a multipart upload; the next run completes the work, and the rest can be cleaned away.
interrupted_copy() {
    mkdir -p big
    cp "$fixtures/large" big/file
    timeout -s KILL 2 "$program" copy --bwlimit 10M --s3-upload-cutoff 5M --s3-chunk-size 5M big "lob:$bucket/big" || true
    equal "$(witness keys "$bucket" big/)" ""
    contains "$(rclone backend list-multipart-uploads "lob:$bucket/big")" UploadId
    rclone copy --s3-upload-cutoff 5M --s3-chunk-size 5M big "lob:$bucket/big"
    rclone check --download big "lob:$bucket/big"
    rclone backend cleanup -o max-age=0s "lob:$bucket"
    no_uploads_left
}
link() {
    rclone link --expire 60s "lob:$bucket/odd/with space" >url
    curl -sS --fail-with-body "$(cat url)" | cmp - "$fixtures/odd/with space"
}
metadata() {
    printf '<p>' >page.html
    rclone copyto --header-upload 'Cache-Control: max-age=5' --header-upload 'X-Amz-Meta-Kind: compat' page.html "lob:$bucket/page.html"
    rclone lsjson -M "lob:$bucket/page.html" >out
    contains "$(cat out)" text/html
    contains "$(witness request HEAD "/$bucket/page.html")" "max-age=5"
    contains "$(witness request HEAD "/$bucket/page.html")" "compat"
}
mounts() {
    local pid
    [ -e /dev/fuse ] && { command -v fusermount3 || command -v fusermount; } >/dev/null || skip_check "FUSE is not there"
    mkdir mnt
    rclone mount --vfs-cache-mode writes "lob:$bucket/mounted" mnt &
    pid=$!
    for _ in $(seq 100); do mountpoint -q mnt && break; sleep 0.1; done
    mountpoint -q mnt || skip_check "mounting is not allowed here"
    cp -r "$fixtures/tree/." mnt/ && same_tree "$fixtures/tree" mnt
    for _ in $(seq 100); do [ "$(witness keys "$bucket" mounted/ | wc -l)" = "$(find "$fixtures/tree" -type f | wc -l)" ] && break; sleep 0.2; done
    fusermount3 -u mnt 2>/dev/null || fusermount -u mnt
    wait "$pid"
    rclone check --download "$fixtures/tree" "lob:$bucket/mounted"
}
deletes() {
    rclone deletefile "lob:$bucket/dir/small"
    equal "$(witness keys "$bucket" dir/small)" ""
    rclone delete "lob:$bucket/many"
    rclone purge "lob:$bucket/odd"
    equal "$(witness keys "$bucket" odd/)$(witness keys "$bucket" many/)" ""
}
wrong_keys() {
    RCLONE_CONFIG_LOB_SECRET_ACCESS_KEY=wrong fails_with SignatureDoesNotMatch rclone lsf "lob:$bucket"
    RCLONE_CONFIG_LOB_ACCESS_KEY_ID=NOBODY fails_with InvalidAccessKeyId rclone lsf "lob:$bucket"
    RCLONE_CONFIG_LOB_SECRET_ACCESS_KEY=wrong fails_with SignatureDoesNotMatch rclone copy "$fixtures/tree" "lob:$bucket"
}
missing_things() {
    fails_with 'NoSuchBucket|directory not found' rclone lsf "lob:$bucket-missing"
    fails_with 'NoSuchBucket|not found' rclone copy --s3-no-check-bucket "$fixtures/small" "lob:$bucket-missing/x"
    fails_with "not found|doesn't exist" rclone deletefile "lob:$bucket/missing"
}
drops_a_bucket() {
    fails_with BucketNotEmpty rclone rmdir "lob:$bucket"
    rclone purge "lob:$bucket"
    fails_with 'NoSuchBucket|not found' rclone lsf "lob:$bucket"
}

found=$(programs rclone)
[ -n "$found" ] || skip rclone "rclone is not installed"
for program in $found; do
    begin rclone "$("$program" version | sed -n '1s/rclone v//p')"
    check "makes a bucket" makes_a_bucket
    check "empty file" empty_file
    check "4 KiB" small_file
    check "$large_mib MiB in parts" large_file
    check "$large_mib MiB in one put" large_file_in_one_put
    check "standard input and output" streams
    check "sync and check of sizes around the edges" sync_tree_of_sizes
    check "sync and check of $many small files" sync_many
    check "sync and check of odd names" sync_odd
    check "sync that deletes" sync_deletes
    check "long listings, versions 1 and 2" fast_list
    check "modification times" times
    check "ranges and downloads in several streams" ranges
    check "copies within the server" copies
    check "moves" moves
    check "interrupted copy" interrupted_copy
    check "link" link
    check "metadata" metadata
    check "mount" mounts
    check "deletes" deletes
    check "wrong keys" wrong_keys
    check "missing buckets and keys" missing_things
    check "drops a bucket" drops_a_bucket
done
