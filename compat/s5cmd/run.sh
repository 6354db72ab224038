#!/usr/bin/env bash
# s5cmd: many requests at once, wildcards, sync, pipes.
. "$(dirname "$0")/../lib.sh"

export S3_ENDPOINT_URL=$AWS_ENDPOINT_URL AWS_REGION=$AWS_DEFAULT_REGION
s5() { "$program" --retry-count 0 "$@"; }

there_and_back() {
    s5 cp "$1" "s3://$bucket/$2"
    s5 cp "s3://$bucket/$2" back
    same "$1" back
}

makes_a_bucket() {
    s5 mb "s3://$bucket"
    contains "$(s5 ls)" "$bucket"
    s5 head "s3://$bucket"
}
empty_file() { there_and_back "$fixtures/empty" empty; }
small_file() {
    there_and_back "$fixtures/small" dir/small
    contains "$(s5 head "s3://$bucket/dir/small")" "$(md5sum <"$fixtures/small" | cut -d' ' -f1)"
}
# Downloads ask for several ranges at once.
large_file() {
    s5 cp --part-size 10 "$fixtures/large" "s3://$bucket/large"
    s5 cp --part-size 7 --concurrency 6 "s3://$bucket/large" back
    same "$fixtures/large" back
    no_uploads_left
}
streams() {
    s5 pipe "s3://$bucket/stream" <"$fixtures/large"
    s5 cat "s3://$bucket/stream" | cmp - "$fixtures/large"
}
sync_tree() {
    s5 sync "$1/" "s3://$bucket/$2/"
    keys_are "$2" "$1"
    equal "$(s5 --dry-run sync --size-only "$1/" "s3://$bucket/$2/")" ""
    s5 sync "s3://$bucket/$2/*" "down-$2/"
    same_tree "$1" "down-$2"
}
sync_tree_of_sizes() { sync_tree "$fixtures/tree" tree; }
sync_many() { sync_tree "$fixtures/many" many; }
# s5cmd reads wildcards in names: those with * and ? are left out.
sync_odd() {
    cp -r "$fixtures/odd" odd
    find odd -depth -name '*[*?]*' -delete
    sync_tree odd odd
}
sync_deletes() {
    cp -r "$fixtures/tree" changed
    rm changed/top
    echo new >changed/new
    s5 sync --delete changed/ "s3://$bucket/tree/"
    keys_are tree changed
}
listings() {
    local all
    all=$(find "$fixtures/many" -type f | wc -l)
    equal "$(s5 ls "s3://$bucket/many/*" | wc -l)" "$all"
    contains "$(s5 ls "s3://$bucket/many/")" "DIR"
    contains "$(s5 du "s3://$bucket/many/*")" "$(find "$fixtures/many" -type f -printf '%s\n' | awk '{ s += $1 } END { print s }') bytes"
    equal "$(s5 --use-list-objects-v1 ls "s3://$bucket/many/*" | wc -l)" "$all"
}
copies() {
    s5 cp "s3://$bucket/dir/small" "s3://$bucket/copy/small"
    s5 cat "s3://$bucket/copy/small" | cmp - "$fixtures/small"
    s5 cp "s3://$bucket/large" "s3://$bucket/large-copy"
    s5 cat "s3://$bucket/large-copy" | cmp - "$fixtures/large"
    s5 cp "s3://$bucket/tree/*" "s3://$bucket/tree-copy/"
    keys_are tree-copy changed
}
# It writes spaces of x-amz-copy-source as +, as S3 allows.
copies_with_odd_names() {
    s5 cp "s3://$bucket/odd/*" "s3://$bucket/odd-copy/"
    keys_are odd-copy odd
    s5 sync "s3://$bucket/odd-copy/*" odd-back/
    same_tree odd odd-back
}
moves() {
    s5 mv "s3://$bucket/copy/small" "s3://$bucket/moved/small"
    equal "$(witness keys "$bucket" "copy/")" ""
    s5 mv "s3://$bucket/moved/*" moved/
    same moved/small "$fixtures/small"
    equal "$(witness keys "$bucket" moved/)" ""
}
metadata() {
    s5 cp --content-type text/x-try --cache-control max-age=7 --metadata kind=compat "$fixtures/small" "s3://$bucket/meta"
    witness request HEAD "/$bucket/meta" >out
    contains "$(cat out)" text/x-try
    contains "$(cat out)" max-age=7
    contains "$(tr A-Z a-z <out)" "x-amz-meta-kind: compat"
}
presigned_url() {
    s5 presign --expire 1m "s3://$bucket/odd/plus+plus" >url
    curl -sS --fail-with-body "$(cat url)" | cmp - "$fixtures/odd/plus+plus"
}
run_of_commands() {
    printf 'cp %s s3://%s/run/%s\n' "$fixtures/small" "$bucket" 1 "$fixtures/small" "$bucket" 2 "$fixtures/empty" "$bucket" 3 >commands
    s5 run commands
    equal "$(witness keys "$bucket" run/ | wc -l)" 3
}
deletes() {
    s5 rm "s3://$bucket/dir/small"
    s5 rm "s3://$bucket/many/*" >out
    equal "$(witness keys "$bucket" many)$(witness keys "$bucket" dir/)" ""
}
wrong_keys() {
    AWS_SECRET_ACCESS_KEY=wrong fails_with SignatureDoesNotMatch s5 ls "s3://$bucket"
    AWS_ACCESS_KEY_ID=NOBODY fails_with InvalidAccessKeyId s5 ls "s3://$bucket"
    AWS_SECRET_ACCESS_KEY=wrong fails_with SignatureDoesNotMatch s5 cp "$fixtures/small" "s3://$bucket/no"
}
missing_things() {
    fails_with NoSuchBucket s5 ls "s3://$bucket-missing"
    fails_with NoSuchBucket s5 cp "$fixtures/small" "s3://$bucket-missing/x"
    fails_with 'not found' s5 cat "s3://$bucket/missing"
    fails_with 'no object found' s5 cp "s3://$bucket/missing/*" .
}
drops_a_bucket() {
    fails_with BucketNotEmpty s5 rb "s3://$bucket"
    s5 rm "s3://$bucket/*" >out
    s5 rb "s3://$bucket"
    fails_with '404|NoSuchBucket' s5 head "s3://$bucket"
}

found=$(programs s5cmd)
[ -n "$found" ] || skip s5cmd "s5cmd is not installed"
for program in $found; do
    begin s5cmd "$("$program" version | sed 's/^v//; s/-.*//')"
    check "makes a bucket" makes_a_bucket
    check "empty file" empty_file
    check "4 KiB" small_file
    check "$large_mib MiB in parts, ranges at once" large_file
    check "standard input and output" streams
    check "sync of sizes around the edges" sync_tree_of_sizes
    check "sync of $many small files" sync_many
    check "sync of odd names" sync_odd
    check "sync --delete" sync_deletes
    check "listings" listings
    check "copies within the server" copies
    check "copies of odd names" copies_with_odd_names
    check "moves" moves
    check "metadata" metadata
    check "presigned URL" presigned_url
    check "a file of commands" run_of_commands
    check "deletes" deletes
    check "wrong keys" wrong_keys
    check "missing buckets and keys" missing_things
    check "drops a bucket" drops_a_bucket
done
