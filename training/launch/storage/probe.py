"""Checks storage as runs use it: makes a folder, writes, lists, reads, deletes; and prints why it can't be used.

    python -m training.launch.storage.probe ADDRESS --way WAY --data ADDRESS

Exits with 0, and a line if there is a warning; with 1 and the reason, with the line that fixes it. Runs where runs
are: on this machine, and in a pod.
"""

import argparse
import os
import re
import sys
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from training.launch.environment import is_remote
from training.launch.storage.run_storage import Storage

NAME = "write-test"
"""Beginning of the name of the folder that the check makes, and leaves if nothing may be deleted."""
CONTENT = b"written before a training, to see that it can be"
WITHOUT_REASON = "No response body"
"""Arrow's words for the answer to a HEAD request, which has no text and so no reason."""
OWN = "own"
"""Kind of access with the caller's own credentials: those that AWS' tools find."""
CREDENTIALS: Mapping[str, str] = {
    OWN: "export AWS_ACCESS_KEY_ID=… AWS_SECRET_ACCESS_KEY=…    (or AWS_PROFILE=…)",
    "storageCredentials": "pulumi config set --secret storageCredentials",
    "storageRole": "pulumi config set storageRole arn:aws:iam::123456789012:role/…",
    "storageSecret": "kubectl --namespace NAMESPACE create secret generic NAME --from-literal=AWS_ACCESS_KEY_ID=… "
    "--from-literal=AWS_SECRET_ACCESS_KEY=… --dry-run=client --output=yaml | kubectl apply --filename -"
    "    (NAMESPACE: the stack's, NAME: that of storageSecret)",
    "serviceAccount": "pulumi config set serviceAccount …",
}
"""Command lines that set other credentials, by the kind of access."""
_RIGHTS = "it needs s3:ListBucket on the bucket, and s3:GetObject, s3:PutObject and s3:DeleteObject on what is below {}"
_EXPECTING = re.compile(r"expecting '([a-z0-9-]+)'")


class UnusableError(Exception):
    """Storage that can't be used; the message has the reason, and the line that fixes it."""


def probe(address: str, way: str) -> str:
    """Write, list, read and delete a file. Return a warning if it can't be deleted, else "". Raises UnusableError."""
    name = f"{NAME}-{uuid.uuid4().hex[:12]}"
    try:
        storage = Storage.at(address)
        _list(storage)
        _use(storage.within(name))
    except OSError as error:
        raise UnusableError(_explained(_reason(error, address), address, way)) from None
    try:
        storage.within(name).remove_all()
    except OSError:
        return f"{address}: these credentials may not delete there, so {name} stays, and so will all that runs keep"
    return ""


def find(data: str, way: str) -> None:
    """Raise UnusableError if there are no data at the address `data`, or if it cannot be read."""
    try:
        empty = Storage.at(data).is_empty()
    except OSError as error:
        raise UnusableError(f"datasetPath: {_explained(_reason(error, data), data, way)}") from None
    if empty:
        once = "" if is_remote(data) else "\n  pulumi config rm datasetPath    (once: `up` makes the claim first)"
        line = "pulumi config set datasetPath …    (where the files are)"
        raise UnusableError(f"datasetPath = {data}: there is nothing there\n  {line}{once}")


def _list(storage: Storage) -> None:
    """Ask for a list of the storage's files; that comes first, because only its refusal comes with a reason."""
    next(storage.names(), None)


def _use(own: Storage) -> None:
    """Write a file in the folder, list and read it. Raises OSError if that fails or other content comes back."""
    own.make()
    with TemporaryDirectory() as folder:
        sent, received = Path(folder) / "there", Path(folder) / "back"
        sent.write_bytes(CONTENT)
        own.put(sent, "file")
        if list(own.names()) != ["file"]:
            raise OSError("what was written is not listed")
        own.fetch("file", received)
        if received.read_bytes() != CONTENT:
            raise OSError("what was written comes back as something else")


def _reason(error: OSError, address: str) -> str:
    """Return a refusal's reason; if it has none, that which the same server gives when asked for a list."""
    if WITHOUT_REASON not in str(error):
        return str(error)
    try:
        _list(Storage.at(address))
    except OSError as list_error:
        return str(list_error)
    return str(error)


def _explained(reason: str, address: str, way: str) -> str:
    what, fix = _known(reason, address, CREDENTIALS[way])
    return f"storage {address} can't be used: {what}\n  {fix}\nIt said: {reason.splitlines()[0]}"


def _known(reason: str, address: str, credentials: str) -> tuple[str, str]:
    """Return an explanation of a server's reason, and the command line that fixes the problem."""
    if not is_remote(address):
        return (
            "it is no folder that can be written",
            "pulumi config set storage …    (a folder that is yours, with room)",
        )
    for words, say in _KNOWN.items():
        if any(word.lower() in reason.lower() for word in words):
            return say(reason, address, credentials)
    return "the server refuses it", f"pulumi config set storage …    ({_RIGHTS.format(address)})"


def _no_bucket(_: str, address: str, __: str) -> tuple[str, str]:
    bucket = address.partition("://")[2].partition("/")[0]
    return f"there is no bucket {bucket} at {_server()}", f"aws s3 mb s3://{bucket}    (or storage in another)"


def _wrong_key(_: str, __: str, credentials: str) -> tuple[str, str]:
    return f"{_server()} does not know the credentials, or they are wrong", credentials


def _expired(_: str, __: str, credentials: str) -> tuple[str, str]:
    return "the credentials are no longer valid", credentials


def _wrong_region(reason: str, _: str, __: str) -> tuple[str, str]:
    match = _EXPECTING.search(reason)
    return "its bucket is in another region", f"pulumi config set storageRegion {match[1] if match else '…'}"


def _denied(_: str, address: str, credentials: str) -> tuple[str, str]:
    return f"these credentials may not use it: {_RIGHTS.format(address)}", credentials


def _unreached(_: str, __: str, ___: str) -> tuple[str, str]:
    return f"{_server()} does not answer", "pulumi config set storageEndpoint …    (http:// or https://, host and port)"


def _server() -> str:
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or "the cloud's own server"


_KNOWN: Mapping[tuple[str, ...], Callable[[str, str, str], tuple[str, str]]] = {
    ("NO_SUCH_BUCKET", "NoSuchBucket", "not found. To create buckets"): _no_bucket,
    ("ExpiredToken", "EXPIRED_TOKEN", "RequestExpired"): _expired,
    ("PermanentRedirect", "AuthorizationHeaderMalformed", "HTTP status 301"): _wrong_region,
    (
        "INVALID_ACCESS_KEY_ID",
        "access key ID",  # of servers with codes of their own, as versitygw's XAdminUserNotFound
        "SIGNATURE_DOES_NOT_MATCH",
        "InvalidToken",
        "INVALID_CLIENT_TOKEN",
    ): _wrong_key,
    ("ACCESS_DENIED", "Access Denied", "Permission denied", "HTTP status 403"): _denied,
    ("NETWORK_CONNECTION", "curlCode", "Could not connect", "timed out"): _unreached,
}
"""Functions that explain servers' answers, by words in the answers."""


def main() -> None:
    """Read the command line, check the storage, and print a warning; exit with a message if it cannot be used."""
    parser = argparse.ArgumentParser(prog="python -m training.launch.storage.probe", description=__doc__)
    parser.add_argument("address")
    parser.add_argument("--way", choices=CREDENTIALS, default=OWN, help="kind of access, for messages")
    parser.add_argument("--data", default="", help="address of data that runs will read")
    options = parser.parse_args()
    try:
        if known := probe(options.address, options.way):
            print(known)
        if options.data:
            find(options.data, options.way)
    except UnusableError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
