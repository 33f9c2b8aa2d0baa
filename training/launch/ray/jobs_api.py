"""Ray's Job Submission API at one address, by the standard library alone: importing Ray would take longer than a client
needs in all.

What is submitted, and what a measurement makes of it, is not in here: `training.launch.ray.submit`.
"""

import hashlib
import json
import os
import shlex
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from training.contract.printable import printable
from training.machine.retries import retry

TOKEN = "RAY_AUTH_TOKEN"  # noqa: S105 (the variable's name)
"""Environment variable with the cluster's token, named as Ray names it."""
POLL_SECONDS = 2.0
PATIENCE_SECONDS = 60.0
"""A head that shares its CPU may not answer for some seconds; one that is silent for longer is gone."""
REQUEST_SECONDS = 30.0
MOST_PACKAGE_BYTES = 100 * 2**20
"""Largest request that Ray's dashboard accepts (`DASHBOARD_CLIENT_MAX_SIZE`)."""
MOST_ANSWER_BYTES = 256 * 2**20
"""Longest answer that is read: more than the log of any run, whose script is ended when it prints too much."""
MOST_NODES = 10_000
"""Most nodes that Ray lists in one answer."""


class SubmitError(Exception):
    """The run can't be submitted or followed; the message says what is known."""


def token() -> str:
    """Return the cluster's token. Raises SubmitError if it was deleted with the cluster."""
    if TOKEN not in os.environ:
        raise SubmitError(
            "there is no Ray token, and so no RayCluster: it was deleted by other means than this stack."
            " To recreate it:\n  pulumi refresh --yes\n  pulumi up"
        )
    return os.environ[TOKEN]


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: Ray's API has none, and urllib would send the token along, to any host."""

    def redirect_request(self, *_: Any) -> None:
        """Return None, which makes the answer a refusal."""


def is_here(address: str) -> bool:
    """Return whether the address leads to this machine."""
    host = urllib.parse.urlsplit(address).hostname or ""
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost"


def is_readable_on_the_way(address: str) -> bool:
    """Return whether others can read what is sent there: it leaves this machine without TLS."""
    return urllib.parse.urlsplit(address).scheme != "https" and not is_here(address)


class JobsApi:
    """Ray's Job Submission API at one address."""

    def __init__(self, address: str, token: str, *, direct: bool = False) -> None:
        """Open no connection yet. With `direct`, use no proxy of the environment, as for an address of this machine."""
        self._address, self._token = address.rstrip("/"), token
        proxies = [urllib.request.ProxyHandler({})] if direct or is_here(address) else []
        self._opener = urllib.request.build_opener(_NoRedirects, *proxies)

    def submit(
        self,
        submission_id: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        metadata: Mapping[str, str] | None = None,
        cpus: float = 0,
        **more: Any,
    ) -> None:
        """Have the cluster run `command` as `submission_id`; `more`: the rest of Ray's runtime_env, as working_dir.

        On a node of which it reserves so many CPUs; 0: on the head, and none.
        """
        body = {
            "entrypoint": shlex.join(command),
            "submission_id": submission_id,
            "runtime_env": {"env_vars": dict(environment), **more},
            "metadata": dict(metadata or {}),
            **({"entrypoint_num_cpus": cpus} if cpus else {}),
        }
        self._request("POST", "", body)

    def upload(self, package: bytes | Path) -> str:
        """Return the URI of a package (a zip) on the cluster, for `working_dir`; sent unless one of that content is
        there.

        Ray forgets a package with the last job that has it, and ten minutes after this where none does. Raises
        SubmitError for one that is too large.
        """
        content = package if isinstance(package, bytes) else package.read_bytes()
        if len(content) > MOST_PACKAGE_BYTES:
            raise SubmitError(
                f"the package has {len(content) / 2**20:.0f} MiB: at most {MOST_PACKAGE_BYTES // 2**20} MiB are"
                " allowed, which is what Ray takes; data and checkpoints go into the folder's .gitignore"
            )
        name = f"_ray_pkg_{hashlib.sha256(content).hexdigest()}.zip"
        path = f"/api/packages/gcs/{name}"
        try:
            self._send("GET", path)
        except urllib.error.HTTPError as error:
            if error.code != HTTPStatus.NOT_FOUND:
                raise
            error.close()
            self._send("PUT", path, content)
        return f"gcs://{name}"

    def job(self, submission_id: str) -> dict[str, Any]:
        """Return Ray's record of a job."""
        return dict(self._request("GET", _quoted(submission_id)))

    def log(self, submission_id: str) -> str:
        """Return the job's whole log so far."""
        return str(self._request("GET", f"{_quoted(submission_id)}/logs")["logs"])

    def jobs(self) -> list[dict[str, Any]]:
        """Return all that Ray knows of, ended ones and drivers that connected by themselves too."""
        return list(self._request("GET", ""))

    def version(self) -> str:
        """Return Ray's version."""
        return str(json.loads(self._send("GET", "/api/version"))["ray_version"])

    def nodes(self) -> list[dict[str, Any]]:
        """Return Ray's nodes, dead ones too."""
        return list(json.loads(self._send("GET", f"/api/v0/nodes?limit={MOST_NODES}"))["data"]["result"]["result"])

    def stop(self, submission_id: str) -> None:
        """Ask for the job's end."""
        self._request("POST", f"{_quoted(submission_id)}/stop")

    def _request(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        content = json.dumps(body).encode() if body is not None else None
        return json.loads(self._send(method, f"/api/jobs/{path}", content) or b"null")

    def _send(self, method: str, path: str, content: bytes | None = None) -> bytes:
        """Return the dashboard's answer. Raises urllib's HTTPError for a refusal, OSError, and SubmitError for an
        answer that is too long: Ray gives the log of a job whole."""
        request = urllib.request.Request(  # noqa: S310 (the address is the cluster's, given by the program)
            f"{self._address}{path}", method=method, data=content, headers=headers(self._token)
        )
        with self._opener.open(request, timeout=REQUEST_SECONDS) as answer:
            whole = bytes(answer.read(MOST_ANSWER_BYTES + 1))
        if len(whole) > MOST_ANSWER_BYTES:
            raise SubmitError(
                f"Ray's answer to {path} is longer than {MOST_ANSWER_BYTES // 2**20} MiB, and was not read"
            )
        return whole


def headers(token: str) -> dict[str, str]:
    """Return the headers of every request to Ray's dashboard."""
    return {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}


def _quoted(submission_id: str) -> str:
    return urllib.parse.quote(submission_id, safe="")


def patiently(ask: Callable[[], Any], what: str) -> Any:
    """Return the answer; a head that can't be reached is asked again for a minute, with a line each. Raises
    SubmitError."""
    deadline = time.monotonic() + PATIENCE_SECONDS

    def pause(_: int, error: Exception) -> float | None:
        if isinstance(error, urllib.error.HTTPError):
            if error.code < 500:
                return None
            error.close()
        if time.monotonic() > deadline:
            return None
        print(f"Ray's head does not answer ({error}); trying again", file=sys.stderr, flush=True)
        return POLL_SECONDS

    try:
        return retry(ask, (OSError, ValueError), pause)
    except (OSError, ValueError) as error:
        if isinstance(error, urllib.error.HTTPError) and error.code < 500:
            raise SubmitError(f"could not {what}: {explained(error)}") from None
        raise SubmitError(f"could not {what}: Ray's head did not answer ({error})") from None


def explained(error: urllib.error.HTTPError) -> str:
    """Explain a refusal, with Ray's own text."""
    text = printable(error.read().decode(errors="replace").strip()[:2000])
    known = {
        401: "the cluster's token was refused",
        403: "the cluster's token was refused",
        404: "Ray's head does not know this job: it was restarted, and what ran on it is lost",
    }
    return f"{known.get(error.code, 'Ray answered')} (HTTP {error.code}{': ' if text else ''}{text})"
