#!/usr/bin/env bash
# The aws cli, v1 and v2: s3, s3api, sync, presign.
. "$(dirname "$0")/../lib.sh"

aws() { "$program" --endpoint-url "$AWS_ENDPOINT_URL" "$@"; }
s3() { aws s3 "$@"; }
api() { aws s3api "$@"; }
# Field of a reply, as text.
ask() { api "$@" --output text; }

# Uploads a file, looks at it, downloads it and compares.
there_and_back() {
    s3 cp --no-progress "$1" "s3://$bucket/$2"
    equal "$(ask head-object --bucket "$bucket" --key "$2" --query ContentLength)" "$(stat -c %s "$1")"
    s3 cp --no-progress "s3://$bucket/$2" back
    same "$1" back
}

makes_a_bucket() {
    s3 mb "s3://$bucket"
    contains "$(s3 ls)" "$bucket"
    api head-bucket --bucket "$bucket"
    api get-bucket-location --bucket "$bucket"
}
empty_file() { there_and_back "$fixtures/empty" empty; }
small_file() {
    there_and_back "$fixtures/small" dir/small
    equal "$(ask head-object --bucket "$bucket" --key dir/small --query ETag)" "\"$(md5sum <"$fixtures/small" | cut -d' ' -f1)\""
}
large_file() {
    there_and_back "$fixtures/large" large
    contains "$(ask head-object --bucket "$bucket" --key large --query ETag)" "-$(((large_mib + 7) / 8))\""
    no_uploads_left
}
streams() {
    s3 cp - "s3://$bucket/stream" <"$fixtures/large"
    s3 cp "s3://$bucket/stream" - | cmp - "$fixtures/large"
}
# Up, again with nothing to do, down, and nothing different.
sync_tree() {
    s3 sync --no-progress --only-show-errors "$1" "s3://$bucket/$2"
    keys_are "$2" "$1"
    equal "$(s3 sync --dryrun "$1" "s3://$bucket/$2")" ""
    s3 sync --no-progress --only-show-errors "s3://$bucket/$2" "down-$2"
    same_tree "$1" "down-$2"
    equal "$(s3 sync --dryrun "s3://$bucket/$2" "down-$2")" ""
}
sync_tree_of_sizes() { sync_tree "$fixtures/tree" tree; }
sync_many() { sync_tree "$fixtures/many" many; }
sync_odd() { sync_tree "$fixtures/odd" odd; }
sync_deletes() {
    cp -r "$fixtures/tree" changed
    rm changed/top
    echo new >changed/new
    s3 sync --delete --only-show-errors changed "s3://$bucket/tree"
    keys_are tree changed
}
odd_keys_one_by_one() {
    local key
    for key in /leading //two a//b trailing/ . .. 'a/../b' './c' $'tab\tand\nnewline' 'x+y z%20?#'; do
        printf '%s' "$key" >body
        api put-object --bucket "$bucket" --key "odd-$key" --body body
        api get-object --bucket "$bucket" --key "odd-$key" back
        same body back
    done
}
listing_in_pages() {
    local all found
    all=$(witness keys "$bucket" many/ | wc -l)
    found=$(api list-objects-v2 --bucket "$bucket" --prefix many/ --page-size 300 --query 'Contents[].Key' --output json | grep -c 'many/')
    equal "$found" "$all"
    found=$(api list-objects --bucket "$bucket" --prefix many/ --page-size 300 --query 'Contents[].Key' --output json | grep -c 'many/')
    equal "$found" "$all"
    equal "$(s3 ls --recursive "s3://$bucket/many/" --page-size 500 | wc -l)" "$all"
    contains "$(s3 ls "s3://$bucket/many/")" "PRE part 0/"
    contains "$(s3 ls --summarize --recursive "s3://$bucket/many")" "Total Objects: $all"
}
ranges() {
    local first last size=$((large_mib * MIB))
    for range in 0-0 0-2047 2047-2049 1048570-1048586 8388600-8388620 5000000-15000000; do
        first=${range%-*} last=${range#*-}
        api get-object --bucket "$bucket" --key large --range "bytes=$range" part
        slice "$fixtures/large" "$first" "$last" | cmp - part
    done
    api get-object --bucket "$bucket" --key large --range bytes=-5 part
    tail -c 5 "$fixtures/large" | cmp - part
    api get-object --bucket "$bucket" --key large --range "bytes=$((size - 3))-" part
    tail -c 3 "$fixtures/large" | cmp - part
    fails_with 'InvalidRange' api get-object --bucket "$bucket" --key large --range "bytes=$size-" part
}
copies() {
    s3 cp --no-progress "s3://$bucket/dir/small" "s3://$bucket/copy of/small+"
    s3 cp --no-progress "s3://$bucket/copy of/small+" back
    same "$fixtures/small" back
    s3 cp --only-show-errors --recursive "s3://$bucket/odd" "s3://$bucket/odd-copy"
    keys_are odd-copy "$fixtures/odd"
}
# In parts, for which version 2 wants to know the tags of the source.
large_copy() {
    s3 cp --no-progress "s3://$bucket/large" "s3://$bucket/large-copy"
    s3 cp --no-progress "s3://$bucket/large-copy" back
    same "$fixtures/large" back
    s3 mv --no-progress "s3://$bucket/large-copy" "s3://$bucket/large-moved"
    equal "$(witness keys "$bucket" large-copy)" ""
}
moves() {
    cp "$fixtures/small" moving
    s3 mv moving "s3://$bucket/moved"
    [ ! -e moving ]
    s3 mv "s3://$bucket/moved" "s3://$bucket/moved again"
    s3 mv "s3://$bucket/moved again" moving
    same "$fixtures/small" moving
    fails_with 404 api head-object --bucket "$bucket" --key "moved again"
}
multipart_by_hand() {
    local upload first second
    head -c $((5 * MIB)) "$fixtures/large" >one
    slice "$fixtures/large" $((5 * MIB)) $((5 * MIB + 99)) >two
    upload=$(ask create-multipart-upload --bucket "$bucket" --key hand --query UploadId)
    first=$(ask upload-part --bucket "$bucket" --key hand --upload-id "$upload" --part-number 1 --body one --query ETag)
    second=$(ask upload-part --bucket "$bucket" --key hand --upload-id "$upload" --part-number 2 --body two --query ETag)
    equal "$(ask list-parts --bucket "$bucket" --key hand --upload-id "$upload" --query 'length(Parts)')" 2
    contains "$(api list-multipart-uploads --bucket "$bucket")" "$upload"
    printf '{"Parts":[{"PartNumber":1,"ETag":%s},{"PartNumber":2,"ETag":%s}]}' "$first" "$second" >parts.json
    api complete-multipart-upload --bucket "$bucket" --key hand --upload-id "$upload" --multipart-upload file://parts.json
    api get-object --bucket "$bucket" --key hand back
    cat one two | cmp - back
    upload=$(ask create-multipart-upload --bucket "$bucket" --key hand --query UploadId)
    api upload-part --bucket "$bucket" --key hand --upload-id "$upload" --part-number 1 --body one
    api abort-multipart-upload --bucket "$bucket" --key hand --upload-id "$upload"
    fails_with NoSuchUpload api list-parts --bucket "$bucket" --key hand --upload-id "$upload"
    no_uploads_left
}
metadata() {
    s3 cp --no-progress "$fixtures/small" "s3://$bucket/meta" --content-type text/x-try --metadata kind=compat,other=two \
        --cache-control max-age=60 --content-disposition 'attachment; filename="x y"' --content-encoding identity
    equal "$(ask head-object --bucket "$bucket" --key meta \
        --query '[ContentType,Metadata.kind,Metadata.other,CacheControl,ContentDisposition,ContentEncoding]')" \
        $'text/x-try\tcompat\ttwo\tmax-age=60\tattachment; filename="x y"\tidentity'
    s3 cp --no-progress "s3://$bucket/meta" "s3://$bucket/meta" --metadata-directive REPLACE --metadata kind=new
    equal "$(ask head-object --bucket "$bucket" --key meta --query 'Metadata')" new
}
checksums() {
    local algorithm
    for algorithm in CRC32 CRC32C SHA1 SHA256; do
        # crc32c needs a library that not every installation has.
        api put-object --bucket "$bucket" --key sum --body "$fixtures/small" --checksum-algorithm $algorithm >out 2>&1 ||
            { grep -qi crt out && continue; cat out; return 1; }
        [ "$(ask head-object --bucket "$bucket" --key sum --checksum-mode ENABLED --query "Checksum$algorithm")" != None ]
        api get-object --bucket "$bucket" --key sum --checksum-mode ENABLED back
        same "$fixtures/small" back
    done
    ask get-object-attributes --bucket "$bucket" --key large --object-attributes ETag ObjectSize ObjectParts StorageClass
    fails_with 'BadDigest|InvalidDigest' api put-object --bucket "$bucket" --key bad --body "$fixtures/small" \
        --content-md5 "$(printf x | openssl md5 -binary | base64)"
}
conditions() {
    local etag
    etag=$(ask head-object --bucket "$bucket" --key dir/small --query ETag)
    api get-object --bucket "$bucket" --key dir/small --if-match "$etag" back
    fails_with 'PreconditionFailed|412' api get-object --bucket "$bucket" --key dir/small --if-match '"none"' back
    fails_with '304' api get-object --bucket "$bucket" --key dir/small --if-none-match "$etag" back
    if ! api put-object --bucket "$bucket" --key once --body "$fixtures/small" --if-none-match '*' >out 2>&1; then
        ! grep -qi 'unknown options' out || skip_check "this version has no --if-none-match for put-object"
        cat out
        return 1
    fi
    fails_with PreconditionFailed api put-object --bucket "$bucket" --key once --body "$fixtures/small" --if-none-match '*'
}
presigned_url() {
    AWS_CONFIG_FILE="$work/sigv4" s3 presign "s3://$bucket/odd/with space" --expires-in 60 >url
    curl -sS --fail-with-body "$(cat url)" | cmp - "$fixtures/odd/with space"
}
# Version 1 signs URLs for us-east-1 with Signature Version 2 unless it is told otherwise.
presigned_url_by_default() {
    s3 presign "s3://$bucket/odd/with space" --expires-in 60 >url
    curl -sS --fail-with-body "$(cat url)" -o back || { cat url back; return 1; }
    same back "$fixtures/odd/with space"
}
deletes() {
    s3 rm "s3://$bucket/copy of/small+"
    fails_with 404 api head-object --bucket "$bucket" --key "copy of/small+"
    s3 rm "s3://$bucket/was/never/there"
    api delete-objects --bucket "$bucket" --delete 'Objects=[{Key=empty},{Key=sum},{Key=never}]'
    s3 rm --only-show-errors --recursive "s3://$bucket/odd-copy"
    s3 rm --only-show-errors --recursive "s3://$bucket/many"
    equal "$(witness keys "$bucket" odd-copy)$(witness keys "$bucket" many)" ""
}
wrong_keys() {
    AWS_SECRET_ACCESS_KEY=wrong fails_with SignatureDoesNotMatch s3 ls "s3://$bucket"
    AWS_ACCESS_KEY_ID=NOBODY fails_with InvalidAccessKeyId s3 ls "s3://$bucket"
    AWS_SECRET_ACCESS_KEY=wrong fails_with 'SignatureDoesNotMatch' s3 cp "$fixtures/small" "s3://$bucket/no"
    fails_with AccessDenied aws --no-sign-request s3 ls "s3://$bucket"
}
missing_things() {
    fails_with NoSuchBucket s3 ls "s3://$bucket-missing"
    fails_with NoSuchBucket s3 cp "$fixtures/small" "s3://$bucket-missing/key"
    fails_with NoSuchKey api get-object --bucket "$bucket" --key missing back
    fails_with 404 s3 cp "s3://$bucket/missing" back
    fails_with NoSuchBucket s3 rb "s3://$bucket-missing"
}
buckets_are_kept_and_dropped() {
    fails_with BucketNotEmpty s3 rb "s3://$bucket"
    fails_with InvalidBucketName api create-bucket --bucket No_Good
    fails_with AuthorizationHeaderMalformed aws --region eu-west-9 s3api list-objects-v2 --bucket "$bucket"
    s3 rb --force "s3://$bucket" >out
    fails_with '404|NoSuchBucket' api head-bucket --bucket "$bucket"
}

found=$(programs aws)
[ -n "$found" ] || skip awscli "aws is not installed"
for program in $found; do
    begin awscli "$("$program" --version 2>&1 | sed 's|^aws-cli/\([^ ]*\).*|\1|')"
    printf '[default]\ns3 =\n    signature_version = s3v4\n' >"$work/sigv4"
    check "makes a bucket" makes_a_bucket
    check "empty file" empty_file
    check "4 KiB" small_file
    check "$large_mib MiB in parts" large_file
    check "standard input and output" streams
    check "sync of sizes around the edges" sync_tree_of_sizes
    check "sync of $many small files" sync_many
    check "sync of odd names" sync_odd
    check "sync --delete" sync_deletes
    check "odd keys one by one" odd_keys_one_by_one
    check "listing in pages" listing_in_pages
    check "ranges" ranges
    check "copies within the server" copies
    check "copy of $large_mib MiB within the server" large_copy
    check "moves" moves
    check "multipart by hand" multipart_by_hand
    check "metadata" metadata
    check "checksums" checksums
    check "conditions" conditions
    check "presigned URL, signature version 4" presigned_url
    check "presigned URL as it comes" presigned_url_by_default
    check "deletes" deletes
    check "wrong keys" wrong_keys
    check "missing buckets and keys" missing_things
    check "drops a bucket" buckets_are_kept_and_dropped
done
