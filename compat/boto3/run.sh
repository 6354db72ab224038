#!/usr/bin/env bash
# boto3: client, resource, transfer manager, paginators, waiters, default and chosen checksums, presigned URLs.
. "$(dirname "$0")/../lib.sh"

found=$(pythons_with boto3)
[ -n "$found" ] || skip boto3 "no python3 here can import boto3"
for python in $found; do
    begin boto3 "$("$python" -c 'import boto3; print(boto3.__version__)')"
    for name in $("$python" "$compat/boto3/checks.py" --list); do
        check "${name//_/ }" "$python" "$compat/boto3/checks.py" "$name" "$bucket" "$fixtures"
    done
done
