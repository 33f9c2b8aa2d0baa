"""A cloud of this machine: an S3 server with STS and IAM that checks signatures and policies (moto), and who may what.

In front of it a guard, for what it never does: answer that a token expired, that a bucket is in another region, or, as
versitygw does, that nobody has this key.
"""

import http.client
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.limits import LOOK_SECONDS, wait_for
from tests.ports import free_ports
from training.machine import port_forward

BUCKET = "runs"
PREFIX = f"s3://{BUCKET}/inside"
"""What the roles may use."""
ACCOUNT = "arn:aws:iam::123456789012:role"
ROLE, KEEPER = f"{ACCOUNT}/training", f"{ACCOUNT}/keeper"
"""One that may do all that runs do; one that may delete nothing."""
_ANYBODY = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": "*"}}
_EXPIRED = "<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"
_ELSEWHERE = (
    "<Error><Code>AuthorizationHeaderMalformed</Code><Message>The authorization header is malformed; the region "
    "'us-east-1' is wrong; expecting 'eu-central-1'</Message></Error>"
)
_UNKNOWN_KEY = (
    "<Error><Code>XAdminUserNotFound</Code><Message>No user exists with the provided access key ID.</Message></Error>"
)
REFUSALS = {"expired": _EXPIRED, "elsewhere": _ELSEWHERE, "unknown key": _UNKNOWN_KEY}
"""What the guard answers, by what it is told."""


@dataclass
class Cloud:
    """A running one."""

    url: str
    server: str
    """Of moto itself, behind the guard."""
    caller: Mapping[str, str] = field(default_factory=dict)
    """Variables with the credentials of a user who may assume roles, and nothing else."""
    owner: Mapping[str, str] = field(default_factory=dict)
    """Those of one who may do everything."""
    refusal: str = ""
    """Name of what the guard answers to all; empty: it hands everything on."""
    log: Path = field(default_factory=Path)
    """Where moto writes a line for each request."""

    def variables(self, credentials: Mapping[str, str]) -> dict[str, str]:
        """The environment of who uses it."""
        return {"AWS_ENDPOINT_URL_S3": self.url, "AWS_ENDPOINT_URL_STS": self.url, **credentials}

    def asked(self) -> int:
        """How often it was asked for something of the bucket, so far."""
        return self.log.read_text().count(f"/{BUCKET}")

    def names(self) -> list[str]:
        """Of all objects in the bucket."""
        pages = _client(self.server, "s3", self.owner).get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        return [each["Key"] for page in pages for each in page.get("Contents", [])]


@contextmanager
def running(folder: Path) -> Iterator[Cloud]:
    """Start it, with a bucket, users and roles."""
    (port,) = free_ports(1)
    command = [sys.executable, "-c", "from moto.server import main; main()", "--port", str(port)]
    with (folder / "moto.log").open("w") as log:
        started = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        server = f"http://127.0.0.1:{port}"
        wait_for(lambda: _answers(port, started), "moto answers")
        cloud = Cloud(url="", server=server, log=folder / "moto.log")
        _furnish(cloud)
        with _guard(cloud):
            yield cloud
    finally:
        started.terminate()
        started.wait()


def _answers(port: int, started: "subprocess.Popen[bytes]") -> bool:
    assert started.poll() is None, "moto has ended"  # not prose: of this test
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), LOOK_SECONDS):
        return True
    return False


def put(cloud: Cloud, objects: Mapping[str, str | bytes]) -> None:
    """Put objects into the bucket under whatever names, as one who may do everything."""
    client = _client(cloud.server, "s3", cloud.owner)
    for name, content in objects.items():
        client.put_object(Bucket=BUCKET, Key=name, Body=content.encode() if isinstance(content, str) else content)


def put_folder(cloud: Cloud, folder: Path, name: str) -> None:
    """Put the files of a folder, and of those in it, below `name` in the bucket."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    put(cloud, {f"{name}/{path.relative_to(folder).as_posix()}": path.read_bytes() for path in files})


def _client(server: str, service: str, credentials: Mapping[str, str]) -> Any:
    import boto3

    return boto3.client(
        service,
        endpoint_url=server,
        region_name="us-east-1",
        aws_access_key_id=credentials.get("AWS_ACCESS_KEY_ID", "nobody"),
        aws_secret_access_key=credentials.get("AWS_SECRET_ACCESS_KEY", "nobody"),
    )


def _furnish(cloud: Cloud) -> None:
    """Until the end of this nobody is asked who they are."""
    iam = _client(cloud.server, "iam", {})
    _client(cloud.server, "s3", {}).create_bucket(Bucket=BUCKET)
    kept = ["s3:GetObject", "s3:PutObject"]
    for role, actions in {ROLE: [*kept, "s3:DeleteObject"], KEEPER: kept}.items():
        name = role.rpartition("/")[2]
        iam.create_role(RoleName=name, AssumeRolePolicyDocument=_policy(_ANYBODY))
        iam.put_role_policy(RoleName=name, PolicyName="storage", PolicyDocument=_inside(actions))
    cloud.caller = _user(iam, "caller", {"Effect": "Allow", "Action": "sts:AssumeRole", "Resource": [ROLE, KEEPER]})
    cloud.owner = _user(iam, "owner", {"Effect": "Allow", "Action": "*", "Resource": "*"})
    connection = http.client.HTTPConnection(cloud.server.removeprefix("http://"))
    connection.request("POST", "/moto-api/reset-auth", b"0", {"Content-Type": "text/plain"})
    connection.getresponse().read()
    connection.close()


def _inside(actions: list[str]) -> str:
    """moto asks for s3:HeadBucket, which AWS has as a part of s3:ListBucket, and for rights to delete of the bucket."""
    of_bucket = ["s3:ListBucket", "s3:HeadBucket", *(action for action in actions if "Delete" in action)]
    return _policy(
        {"Effect": "Allow", "Action": of_bucket, "Resource": f"arn:aws:s3:::{BUCKET}"},
        {"Effect": "Allow", "Action": actions, "Resource": f"arn:aws:s3:::{BUCKET}/inside/*"},
    )


def _policy(*statements: Mapping[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


def _user(iam: Any, name: str, statement: Mapping[str, Any]) -> dict[str, str]:
    iam.create_user(UserName=name)
    iam.put_user_policy(UserName=name, PolicyName="own", PolicyDocument=_policy(statement))
    key = iam.create_access_key(UserName=name)["AccessKey"]
    return {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}


@contextmanager
def _guard(cloud: Cloud) -> Iterator[None]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        cloud.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        threading.Thread(target=_accept, args=(listener, cloud), daemon=True).start()
        yield


def _accept(listener: socket.socket, cloud: Cloud) -> None:
    with suppress(OSError):  # it is closed at the end
        while True:
            accepted, _ = listener.accept()
            threading.Thread(target=_serve, args=(accepted, cloud), daemon=True).start()


def _serve(accepted: socket.socket, cloud: Cloud) -> None:
    with accepted, suppress(OSError):
        if not cloud.refusal:
            with socket.create_connection(("127.0.0.1", int(cloud.server.rpartition(":")[2]))) as there:
                port_forward.copy_both_ways(accepted, there)
            return
        is_head = accepted.recv(65536).startswith(b"HEAD")
        body = REFUSALS[cloud.refusal].encode()
        head = f"HTTP/1.1 400 Bad Request\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        accepted.sendall(head.encode() + (b"" if is_head else body))
