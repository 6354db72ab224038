"""The checks of boto3, one function each: checks.py NAME BUCKET FIXTURES. They run in the order of the file."""

import hashlib
import io
import os
import pathlib
import socket
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import ClientError

MIB = 1024 * 1024
SIGV4 = Config(signature_version="s3v4", retries={"max_attempts": 1, "mode": "standard"})


def client(config=SIGV4, **options):
    return boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"], config=config, **options)


s3 = client(Config(retries={"max_attempts": 1, "mode": "standard"}))


def refused(code, call, **parameters):
    try:
        call(**parameters)
    except ClientError as error:
        found = error.response["Error"]["Code"]
        assert found == code, f"{found} instead of {code}: {error}"
        return error.response
    raise AssertionError(f"no {code} for {parameters}")


def put_and_get(bucket, key, body):
    etag = s3.put_object(Bucket=bucket, Key=key, Body=body)["ETag"]
    assert etag == f'"{hashlib.md5(body).hexdigest()}"', etag
    got = s3.get_object(Bucket=bucket, Key=key)
    assert got["ContentLength"] == len(body) and got["ETag"] == etag
    assert got["Body"].read() == body, key


def makes_a_bucket(bucket, _):
    s3.create_bucket(Bucket=bucket)
    s3.get_waiter("bucket_exists").wait(Bucket=bucket)
    assert bucket in [entry["Name"] for entry in s3.list_buckets()["Buckets"]]
    assert s3.get_bucket_location(Bucket=bucket)["LocationConstraint"] is None
    refused("BucketAlreadyOwnedByYou", s3.create_bucket, Bucket=bucket)


def empty_and_small_objects(bucket, fixtures):
    for name in ["empty", "small"]:
        put_and_get(bucket, name, (fixtures / name).read_bytes())


def transfer_manager(bucket, fixtures):
    data = (fixtures / "large").read_bytes()
    s3.upload_file(str(fixtures / "large"), bucket, "large", ExtraArgs={"Metadata": {"kind": "compat"}})
    head = s3.head_object(Bucket=bucket, Key="large")
    assert head["ETag"].endswith(f'-{-(-len(data) // (8 * MIB))}"') and head["Metadata"] == {"kind": "compat"}
    back = io.BytesIO()
    s3.download_fileobj(bucket, "large", back)
    assert back.getvalue() == data
    small = TransferConfig(multipart_threshold=5 * MIB, multipart_chunksize=5 * MIB, max_concurrency=20)
    s3.upload_fileobj(io.BytesIO(data), bucket, "large-5", Config=small)
    back = io.BytesIO()
    s3.download_fileobj(bucket, "large-5", back, Config=small)
    assert back.getvalue() == data


def an_unseekable_stream(bucket, fixtures):
    data = (fixtures / "large").read_bytes()[: 20 * MIB + 3]
    reader, writer = os.pipe()

    def feed():
        with os.fdopen(writer, "wb") as out:
            out.write(data)

    thread = threading.Thread(target=feed)
    thread.start()
    with os.fdopen(reader, "rb") as stream:
        s3.upload_fileobj(stream, bucket, "piped")
    thread.join()
    assert s3.get_object(Bucket=bucket, Key="piped")["Body"].read() == data


def resource_interface(bucket, fixtures):
    resource = boto3.resource("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"])
    place = resource.Bucket(bucket)
    place.Object("resource/one").put(Body=b"one")
    place.upload_file(str(fixtures / "small"), "resource/two")
    assert [entry.key for entry in place.objects.filter(Prefix="resource/")] == ["resource/one", "resource/two"]
    assert place.Object("resource/two").content_length == 4096
    assert place.Object("resource/one").get()["Body"].read() == b"one"
    place.copy({"Bucket": bucket, "Key": "large"}, "resource/large")  # in parts
    assert place.Object("resource/large").get()["Body"].read() == (fixtures / "large").read_bytes()
    deleted = place.objects.filter(Prefix="resource/").delete()
    assert len(deleted[0]["Deleted"]) == 3, deleted


def many_small_objects(bucket, _):
    count = int(os.environ.get("COMPAT_FILES", "2000"))
    names = [f"many/{number:05}" for number in range(count)]
    todo = list(names)

    def work():
        own = client()
        while todo:
            try:
                name = todo.pop()
            except IndexError:
                return
            own.put_object(Bucket=bucket, Key=name, Body=name.encode())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for operation in ["list_objects_v2", "list_objects"]:
        for size in [1000, 333]:
            pages = s3.get_paginator(operation).paginate(Bucket=bucket, Prefix="many/", PaginationConfig={"PageSize": size})
            assert [entry["Key"] for page in pages for entry in page["Contents"]] == names, operation
    found = s3.get_object(Bucket=bucket, Key=names[-1])["Body"].read()
    assert found == names[-1].encode()


def odd_keys(bucket, fixtures):
    keys = [f"odd/{line}" for line in (pathlib.Path(__file__).parent.parent / "odd-names.txt").read_text().split("\n") if line]
    keys += ["/leading", "//two", "odd//double//", "odd/trailing/", "odd/.", "odd/..", "odd/../up", "odd/a", "odd/a/b"]
    keys += ["odd/ctrl\u0001\u001f\u007f", "odd/tab\tnewline\ncr\r", "odd/" + "x" * 1020, "odd/" + "é" * 510, "odd/\U0001f980"]
    for key in keys:
        put_and_get(bucket, key, b"body of " + key.encode())
        s3.copy_object(Bucket=bucket, Key="copied", CopySource={"Bucket": bucket, "Key": key})
        assert s3.get_object(Bucket=bucket, Key="copied")["Body"].read() == b"body of " + key.encode(), key
    listed = [e["Key"] for p in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket) for e in p["Contents"]]
    assert listed == sorted(listed, key=str.encode)
    assert not set(keys) - set(listed), set(keys) - set(listed)
    refused("KeyTooLongError", s3.put_object, Bucket=bucket, Key="x" * 1025, Body=b"")
    for start in range(0, len(keys), 1000):
        # XML 1.0 has no way to write some control characters: these keys are deleted one by one.
        some = [key for key in keys[start : start + 1000] if not any(ord(c) < 32 for c in key)]
        answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key} for key in some]})
        assert "Errors" not in answer and {entry["Key"] for entry in answer["Deleted"]} == set(some), answer
    for key in keys:
        s3.delete_object(Bucket=bucket, Key=key)
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket, Prefix="odd/")


def delimiters(bucket, _):
    for key in ["d/a", "d/b/1", "d/b/2", "d/c//x", "d/z"]:
        s3.put_object(Bucket=bucket, Key=key, Body=b"")
    answer = s3.list_objects_v2(Bucket=bucket, Prefix="d/", Delimiter="/")
    assert [entry["Key"] for entry in answer["Contents"]] == ["d/a", "d/z"]
    assert [entry["Prefix"] for entry in answer["CommonPrefixes"]] == ["d/b/", "d/c/"]
    assert answer["KeyCount"] == 4
    answer = s3.list_objects_v2(Bucket=bucket, Prefix="d/", StartAfter="d/b/1")
    assert [entry["Key"] for entry in answer["Contents"]] == ["d/b/2", "d/c//x", "d/z"]


def ranges(bucket, fixtures):
    data = (fixtures / "large").read_bytes()
    edges = [(0, 0), (0, 2047), (2047, 2048), (MIB - 3, MIB + 3), (8 * MIB - 1, 8 * MIB), (3 * MIB, 30 * MIB)]
    for first, last in [*edges, (len(data) - 1, len(data) + 99)]:
        got = s3.get_object(Bucket=bucket, Key="large", Range=f"bytes={first}-{last}")
        assert got["Body"].read() == data[first : last + 1], (first, last)
        assert got["ContentRange"] == f"bytes {first}-{min(last, len(data) - 1)}/{len(data)}"
    assert s3.get_object(Bucket=bucket, Key="large", Range="bytes=-7")["Body"].read() == data[-7:]
    part = s3.get_object(Bucket=bucket, Key="large", PartNumber=2)
    assert part["Body"].read() == data[8 * MIB : 16 * MIB] and part["PartsCount"] == -(-len(data) // (8 * MIB))
    answer = refused("InvalidRange", s3.get_object, Bucket=bucket, Key="large", Range=f"bytes={len(data)}-")
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 416


def checksums(bucket, fixtures):
    body = (fixtures / "small").read_bytes()
    for algorithm in ["CRC32", "SHA1", "SHA256"]:
        put = s3.put_object(Bucket=bucket, Key="sum", Body=body, ChecksumAlgorithm=algorithm)
        got = s3.get_object(Bucket=bucket, Key="sum", ChecksumMode="ENABLED")
        assert got["Body"].read() == body
        assert put[f"Checksum{algorithm}"] == got[f"Checksum{algorithm}"]
    refused("BadDigest", s3.put_object, Bucket=bucket, Key="bad", Body=body, ChecksumSHA256=sha256(b"other"))
    refused("404", s3.head_object, Bucket=bucket, Key="bad")
    attributes = s3.get_object_attributes(
        Bucket=bucket, Key="large", ObjectAttributes=["ETag", "Checksum", "ObjectParts", "ObjectSize", "StorageClass"]
    )
    assert attributes["ObjectSize"] == (fixtures / "large").stat().st_size, attributes


def multipart_by_hand(bucket, fixtures):
    data = (fixtures / "large").read_bytes()[: 11 * MIB]
    upload = s3.create_multipart_upload(Bucket=bucket, Key="hand", ContentType="text/x", ChecksumAlgorithm="SHA256")
    ids = {"Bucket": bucket, "Key": "hand", "UploadId": upload["UploadId"]}
    parts = []
    for number, start in enumerate(range(0, len(data), 5 * MIB), 1):
        chunk = data[start : start + 5 * MIB]
        done = s3.upload_part(**ids, PartNumber=number, Body=chunk, ChecksumAlgorithm="SHA256")
        parts.append({"PartNumber": number, "ETag": done["ETag"], "ChecksumSHA256": done["ChecksumSHA256"]})
    assert [part["PartNumber"] for part in s3.list_parts(**ids)["Parts"]] == [1, 2, 3]
    assert s3.list_multipart_uploads(Bucket=bucket)["Uploads"][0]["UploadId"] == upload["UploadId"]
    done = s3.complete_multipart_upload(**ids, MultipartUpload={"Parts": parts})
    assert done["ChecksumSHA256"].endswith("-3"), done
    got = s3.get_object(Bucket=bucket, Key="hand")
    assert got["Body"].read() == data and got["ContentType"] == "text/x"
    refused("NoSuchUpload", s3.list_parts, Bucket=bucket, Key="hand", UploadId="nothing")
    upload = s3.create_multipart_upload(Bucket=bucket, Key="hand")
    ids["UploadId"] = upload["UploadId"]
    small = [s3.upload_part(**ids, PartNumber=number, Body=b"x")["ETag"] for number in [1, 2]]
    wrong = {"Parts": [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(small, 1)]}
    refused("EntityTooSmall", s3.complete_multipart_upload, **ids, MultipartUpload=wrong)
    s3.abort_multipart_upload(**ids)
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


def metadata_and_headers(bucket, _):
    headers = {
        "ContentType": "text/plain; charset=utf-8",
        "CacheControl": "no-cache",
        "ContentDisposition": 'attachment; filename="ü.txt"'.encode("ascii", "ignore").decode(),
        "ContentEncoding": "gzip",
        "ContentLanguage": "de",
    }
    s3.put_object(Bucket=bucket, Key="meta", Body=b"x", Metadata={"one": "1", "Two-Words": "a  b"}, **headers)
    head = s3.head_object(Bucket=bucket, Key="meta")
    assert {name: head[name] for name in headers} == headers, head
    assert head["Metadata"] == {"one": "1", "two-words": "a  b"}, head["Metadata"]
    got = s3.get_object(Bucket=bucket, Key="meta", ResponseContentType="x/y", ResponseCacheControl="max-age=1")
    assert got["ContentType"] == "x/y" and got["CacheControl"] == "max-age=1"
    source = {"Bucket": bucket, "Key": "meta"}
    s3.copy_object(Bucket=bucket, Key="meta", CopySource=source, Metadata={"new": "1"}, MetadataDirective="REPLACE")
    assert s3.head_object(Bucket=bucket, Key="meta")["Metadata"] == {"new": "1"}
    refused("InvalidRequest", s3.copy_object, Bucket=bucket, Key="meta", CopySource=source)


def conditions(bucket, _):
    etag = s3.put_object(Bucket=bucket, Key="cond", Body=b"1")["ETag"]
    refused("304", s3.get_object, Bucket=bucket, Key="cond", IfNoneMatch=etag)
    refused("PreconditionFailed", s3.get_object, Bucket=bucket, Key="cond", IfMatch='"x"')
    source = {"Bucket": bucket, "Key": "cond"}
    refused("PreconditionFailed", s3.copy_object, Bucket=bucket, Key="c2", CopySource=source, CopySourceIfMatch='"x"')
    if "IfNoneMatch" in s3.meta.service_model.operation_model("PutObject").input_shape.members:
        refused("PreconditionFailed", s3.put_object, Bucket=bucket, Key="cond", Body=b"2", IfNoneMatch="*")
    if "IfMatch" in s3.meta.service_model.operation_model("PutObject").input_shape.members:
        refused("PreconditionFailed", s3.put_object, Bucket=bucket, Key="cond", Body=b"2", IfMatch='"x"')
        s3.put_object(Bucket=bucket, Key="cond", Body=b"2", IfMatch=etag)


def fetch(url, **options):
    return urllib.request.urlopen(urllib.request.Request(url, **options), timeout=60)


def presigned_urls(bucket, fixtures):
    own, data = client(), (fixtures / "small").read_bytes()
    key = "presigned/a b+c%20ü.bin"
    parameters = {"Bucket": bucket, "Key": key, "ContentType": "text/x", "ChecksumSHA256": sha256(data)}
    url = own.generate_presigned_url("put_object", Params=parameters, ExpiresIn=60)
    headers = {"Content-Type": "text/x", "x-amz-checksum-sha256": sha256(data)}
    assert fetch(url, method="PUT", data=data, headers=headers).status == 200
    parameters = {"Bucket": bucket, "Key": key, "ResponseContentDisposition": 'attachment; filename="a b.bin"'}
    answer = fetch(own.generate_presigned_url("get_object", Params=parameters, ExpiresIn=60))
    assert answer.read() == data and answer.headers["Content-Disposition"] == 'attachment; filename="a b.bin"'
    assert answer.headers["Content-Type"] == "text/x"
    head = own.generate_presigned_url("head_object", Params={"Bucket": bucket, "Key": key})
    assert fetch(head, method="HEAD").headers["Content-Length"] == str(len(data))
    delete = own.generate_presigned_url("delete_object", Params={"Bucket": bucket, "Key": key})
    assert fetch(delete, method="DELETE").status == 204
    try:
        fetch(delete.replace("presigned", "another"), method="DELETE")
        raise AssertionError("a wrong signature was taken")
    except urllib.error.HTTPError as error:
        text = error.read().decode()
        assert error.code == 403 and "<Code>SignatureDoesNotMatch</Code>" in text, text


def presigned_URL_as_it_comes(bucket, fixtures):
    url = s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "small"})
    try:
        assert fetch(url).read() == (fixtures / "small").read_bytes()
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{url}: {error.code} {error.read().decode()}") from None


def sha256(data):
    import base64

    return base64.b64encode(hashlib.sha256(data).digest()).decode()


def virtual_hosts(bucket, fixtures):
    """bucket.localhost, which needs no name server: every name of localhost is sent to the endpoint."""
    endpoint = urllib.parse.urlsplit(os.environ["AWS_ENDPOINT_URL"])
    if endpoint.hostname not in ("127.0.0.1", "localhost", "::1"):
        print("only on this machine")
        sys.exit(77)
    resolve = socket.getaddrinfo
    socket.getaddrinfo = lambda host, *rest, **more: resolve(endpoint.hostname, *rest, **more)
    own = boto3.client(
        "s3",
        endpoint_url=f"{endpoint.scheme}://localhost:{endpoint.port}",
        config=Config(s3={"addressing_style": "virtual"}, retries={"max_attempts": 1}),
    )
    hosts = []
    own.meta.events.register("before-send.s3", lambda request, **_: hosts.append(urllib.parse.urlsplit(request.url).netloc))
    own.put_object(Bucket=bucket, Key="virtual/a b", Body=b"virtual")
    assert own.get_object(Bucket=bucket, Key="virtual/a b")["Body"].read() == b"virtual"
    assert [entry["Key"] for entry in own.list_objects_v2(Bucket=bucket, Prefix="virtual/")["Contents"]] == ["virtual/a b"]
    assert all(host.startswith(bucket + ".") for host in hosts), hosts


def wrong_keys(bucket, _):
    for keys, code in [
        ({"aws_access_key_id": "NOBODY", "aws_secret_access_key": "x"}, "InvalidAccessKeyId"),
        ({"aws_secret_access_key": "wrong", "aws_access_key_id": os.environ["AWS_ACCESS_KEY_ID"]}, "SignatureDoesNotMatch"),
    ]:
        own = client(**keys)
        refused(code, own.list_objects_v2, Bucket=bucket)
        answer = refused(code, own.put_object, Bucket=bucket, Key="no", Body=b"x")
        assert answer["ResponseMetadata"]["HTTPStatusCode"] == 403
        assert answer["ResponseMetadata"]["RequestId"] and answer["ResponseMetadata"]["HostId"]


def missing_things(bucket, _):
    try:
        s3.get_object(Bucket=bucket, Key="missing")
        raise AssertionError("found")
    except s3.exceptions.NoSuchKey as error:
        assert error.response["Error"]["Key"] == "missing"
    try:
        s3.list_objects_v2(Bucket=bucket + "-missing")
        raise AssertionError("found")
    except s3.exceptions.NoSuchBucket as error:
        assert error.response["Error"]["BucketName"] == bucket + "-missing"
    refused("NoSuchBucket", s3.put_object, Bucket=bucket + "-missing", Key="x", Body=b"x")
    refused("404", s3.head_object, Bucket=bucket, Key="missing")
    refused("404", s3.head_bucket, Bucket=bucket + "-missing")
    refused("NoSuchBucket", s3.delete_bucket, Bucket=bucket + "-missing")
    refused("NoSuchKey", s3.copy_object, Bucket=bucket, Key="x", CopySource={"Bucket": bucket, "Key": "missing"})
    assert s3.delete_object(Bucket=bucket, Key="missing")["ResponseMetadata"]["HTTPStatusCode"] == 204


def drops_a_bucket(bucket, _):
    refused("BucketNotEmpty", s3.delete_bucket, Bucket=bucket)
    boto3.resource("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"]).Bucket(bucket).objects.all().delete()
    s3.delete_bucket(Bucket=bucket)
    s3.get_waiter("bucket_not_exists").wait(Bucket=bucket)


CHECKS = [value for name, value in list(globals().items()) if getattr(value, "__module__", "") == "__main__"]
HELPERS = {client, refused, put_and_get, fetch, sha256}

if sys.argv[1] == "--list":
    print("\n".join(check.__name__ for check in CHECKS if check not in HELPERS and callable(check)))
else:
    globals()[sys.argv[1]](sys.argv[2], pathlib.Path(sys.argv[3]))
