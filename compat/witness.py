"""Plain S3 requests with Python's library alone: what is in a bucket, whatever the client under test believes.

usage: witness.py keys BUCKET [PREFIX] | uploads BUCKET | get BUCKET KEY | put BUCKET KEY [FILE] | make BUCKET
       | drop BUCKET (with all that is in it) | request METHOD PATH[?QUERY] [HEADER:VALUE …]
"""

import datetime
import hashlib
import hmac
import http.client
import os
import sys
import urllib.parse
import xml.etree.ElementTree as ElementTree

ENDPOINT = urllib.parse.urlsplit(os.environ["AWS_ENDPOINT_URL"])
REGION = os.environ.get("AWS_DEFAULT_REGION", "us-east-1")


def quote(text):
    return urllib.parse.quote(text, safe="-._~")


def signature(date, scope, canonical):
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = f"AWS4-HMAC-SHA256\n{date}\n{scope}\n{digest}"
    key = ("AWS4" + os.environ["AWS_SECRET_ACCESS_KEY"]).encode()
    for step in [*scope.split("/"), text]:
        key = hmac.new(key, step.encode(), hashlib.sha256).digest()
    return key.hex()


def send(method, path, query=(), body=b"", headers=None):
    """Sends one request; path is not encoded yet, query is a list of pairs."""
    target = urllib.parse.quote(path, safe="/-._~")
    encoded = "&".join(sorted(f"{quote(name)}={quote(value)}" for name, value in query))
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    signed = {"host": ENDPOINT.netloc, "x-amz-content-sha256": hashlib.sha256(body).hexdigest(), "x-amz-date": date}
    signed.update({name.lower(): value for name, value in (headers or {}).items()})
    names = ";".join(sorted(signed))
    lines = "".join(f"{name}:{signed[name]}\n" for name in sorted(signed))
    canonical = f"{method}\n{target}\n{encoded}\n{lines}\n{names}\n{signed['x-amz-content-sha256']}"
    scope = f"{date[:8]}/{REGION}/s3/aws4_request"
    credential = f"{os.environ['AWS_ACCESS_KEY_ID']}/{scope}"
    signed["Authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={names}, Signature={signature(date, scope, canonical)}"
    )
    secure = ENDPOINT.scheme == "https"
    connection = (http.client.HTTPSConnection if secure else http.client.HTTPConnection)(ENDPOINT.netloc, timeout=120)
    connection.request(method, target + ("?" + encoded if encoded else ""), body, signed)
    response = connection.getresponse()
    data = response.read()
    connection.close()
    return response, data


def expect(method, path, query=(), body=b"", headers=None):
    response, data = send(method, path, query, body, headers)
    if response.status >= 300:
        sys.exit(f"{method} {path} {list(query)}: {response.status} {data.decode(errors='replace')}")
    return data


def elements(data, name):
    return [element for element in ElementTree.fromstring(data).iter() if element.tag.rpartition("}")[2] == name]


def text(element, name):
    return next((child.text or "" for child in element if child.tag.rpartition("}")[2] == name), "")


def keys(bucket, prefix=""):
    token = []
    while True:
        query = [("list-type", "2"), ("prefix", prefix), ("encoding-type", "url"), *token]
        data = expect("GET", f"/{bucket}", query)
        for entry in elements(data, "Contents"):
            yield urllib.parse.unquote_plus(text(entry, "Key"))
        more = [element.text for element in elements(data, "NextContinuationToken")]
        if not more:
            return
        token = [("continuation-token", more[0])]


def uploads(bucket):
    data = expect("GET", f"/{bucket}", [("uploads", ""), ("encoding-type", "url")])
    return [(urllib.parse.unquote_plus(text(entry, "Key")), text(entry, "UploadId")) for entry in elements(data, "Upload")]


def drop(bucket):
    response, _ = send("GET", f"/{bucket}", [("location", "")])
    if response.status == 404:
        return
    while pending := uploads(bucket):
        for key, upload in pending:
            expect("DELETE", f"/{bucket}/{key}", [("uploadId", upload)])
    for key in list(keys(bucket)):
        expect("DELETE", f"/{bucket}/{key}")
    expect("DELETE", f"/{bucket}")


def main(command, *arguments):
    out = sys.stdout.buffer
    if command == "keys":
        for key in keys(*arguments):
            out.write(key.encode() + b"\n")
    elif command == "uploads":
        for key, upload in uploads(*arguments):
            out.write(f"{key} {upload}\n".encode())
    elif command == "get":
        out.write(expect("GET", "/" + "/".join(arguments)))
    elif command == "put":
        with open(arguments[2], "rb") if len(arguments) > 2 else sys.stdin.buffer as file:
            expect("PUT", "/" + "/".join(arguments[:2]), body=file.read())
    elif command == "make":
        expect("PUT", f"/{arguments[0]}")
    elif command == "drop":
        drop(*arguments)
    elif command == "request":
        path, _, query = arguments[1].partition("?")
        pairs = urllib.parse.parse_qsl(query, keep_blank_values=True)
        headers = dict(header.split(":", 1) for header in arguments[2:])
        response, data = send(arguments[0], path, pairs, headers=headers)
        out.write(f"{response.status}\n{response.msg}".encode() + data + b"\n")
    else:
        sys.exit(__doc__)


main(*sys.argv[1:])
