"""What a Python program does with S3, through boto3: fails with a traceback where an answer is not S3's."""

import io
import os
import sys
import urllib.request

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import ClientError

BUCKET = "boto3-bucket"
MIB = 1024 * 1024


def main():
    config = Config(signature_version="s3v4", s3={"addressing_style": "path"}, retries={"max_attempts": 1})
    s3 = boto3.client("s3", endpoint_url=sys.argv[1], config=config)
    s3.create_bucket(Bucket=BUCKET)
    assert BUCKET in [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]

    keys = ["plain", "dir/ünïcode 日本", "dir/a+b %25&<>", "dir//double", "ctrl\u0001\n"]
    for key in keys:
        s3.put_object(Bucket=BUCKET, Key=key, Body=key.encode(), Metadata={"kind": "smoke"}, ContentType="text/x")
    listed = [item["Key"] for item in s3.list_objects_v2(Bucket=BUCKET)["Contents"]]
    assert listed == sorted(keys, key=lambda key: key.encode()), listed
    for key in keys:
        got = s3.get_object(Bucket=BUCKET, Key=key)
        assert got["Body"].read() == key.encode()
        assert got["Metadata"] == {"kind": "smoke"} and got["ContentType"] == "text/x"

    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Delimiter="/", PaginationConfig={"PageSize": 1})
    entries = [e.get("Key") or e.get("Prefix") for p in pages for e in p.get("Contents", []) + p.get("CommonPrefixes", [])]
    assert sorted(entries) == sorted(["ctrl\u0001\n", "dir/", "plain"]), entries

    data = os.urandom(12 * MIB + 17)
    transfer = TransferConfig(multipart_threshold=5 * MIB, multipart_chunksize=5 * MIB)
    s3.upload_fileobj(io.BytesIO(data), BUCKET, "multipart", Config=transfer)
    assert s3.head_object(Bucket=BUCKET, Key="multipart")["ETag"].endswith('-3"')
    back = io.BytesIO()
    s3.download_fileobj(BUCKET, "multipart", back, Config=transfer)
    assert back.getvalue() == data
    part = s3.get_object(Bucket=BUCKET, Key="multipart", Range="bytes=5242870-5242890")["Body"].read()
    assert part == data[5242870:5242891]

    for algorithm in ["CRC32", "SHA1", "SHA256"]:
        s3.put_object(Bucket=BUCKET, Key="sum", Body=b"x" * 100, ChecksumAlgorithm=algorithm)
        head = s3.head_object(Bucket=BUCKET, Key="sum", ChecksumMode="ENABLED")
        assert head["Checksum" + algorithm]

    url = s3.generate_presigned_url("get_object", Params={"Bucket": BUCKET, "Key": "plain"}, ExpiresIn=60)
    assert urllib.request.urlopen(url).read() == b"plain"
    s3.copy_object(Bucket=BUCKET, Key="copy", CopySource={"Bucket": BUCKET, "Key": "dir/ünïcode 日本"})
    assert s3.get_object(Bucket=BUCKET, Key="copy")["Body"].read() == "dir/ünïcode 日本".encode()

    try:
        s3.put_object(Bucket=BUCKET, Key="plain", Body=b"other", IfNoneMatch="*")
        raise AssertionError("an existing object was overwritten")
    except ClientError as error:
        assert error.response["Error"]["Code"] == "PreconditionFailed", error
    try:
        s3.get_object(Bucket=BUCKET, Key="none")
        raise AssertionError("a missing object was found")
    except s3.exceptions.NoSuchKey:
        pass

    everything = [{"Key": item["Key"]} for item in s3.list_objects_v2(Bucket=BUCKET)["Contents"] if item["Key"] != "ctrl\u0001\n"]
    assert "Errors" not in s3.delete_objects(Bucket=BUCKET, Delete={"Objects": everything})
    s3.delete_object(Bucket=BUCKET, Key="ctrl\u0001\n")
    s3.delete_bucket(Bucket=BUCKET)


main()
