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
from http.client import HTTPException
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from training.contract.printable import printable
from training.machine.retries import retry

TOKEN = "RAY_AUTH_TOKEN"  # noqa: S105 (the variable's name)
"""Environment variable with the cluster's token, named as Ray names it."""
POLL_SECONDS = 2.0
PATIENCE_SECONDS = 60.0
"""Seconds after which a silent head counts as gone: one that shares its CPU may not answer for some seconds."""
REQUEST_SECONDS = 30.0
MOST_PACKAGE_BYTES = 100 * 2**20
"""Largest request that Ray's dashboard accepts (`DASHBOARD_CLIENT_MAX_SIZE`)."""
MOST_ANSWER_BYTES = 256 * 2**20
"""Most bytes of an answer that are read: more than any run's log, because a script that prints more is ended."""
MOST_NODES = 10_000
"""Most nodes that Ray lists in one answer."""
_UNANSWERED = (OSError, ValueError, HTTPException)
"""Errors of a request that the head did not answer whole. urllib turns only some of http.client's into OSErrors."""


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
    """Refuses every redirect: Ray's API has none, and urllib would send the token along, to any host."""

    def redirect_request(self, *_: Any) -> None:
        """Return None, so that urllib treats the redirect as an error."""


def is_here(address: str) -> bool:
    """Return whether the address leads to this machine."""
    host = urllib.parse.urlsplit(address).hostname or ""
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost"


def is_readable_on_the_way(address: str) -> bool:
    """Return whether others can read requests to this address, because they leave this machine without TLS."""
    return urllib.parse.urlsplit(address).scheme != "https" and not is_here(address)


class JobsApi:
    """Ray's Job Submission API at one address."""

    def __init__(self, address: str, token: str, *, direct: bool = False) -> None:
        """Set the address and the token; no connection is opened yet. With `direct`, the environment's proxies are not
        used; nor are they for an address of this machine."""
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
        """Submit `command` to the cluster as the job `submission_id`; `more`: other keys of Ray's runtime_env, such as
        working_dir.

        The job's command runs on a node on which it reserves `cpus` CPUs; with 0 it runs on the head and reserves none.
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
        """Upload a package (a zip) to the cluster unless a package with the same content is there, and return its URI,
        for `working_dir`.

        Ray deletes a package when the last job that uses it has ended, or after ten minutes if no job uses it. Raises
        SubmitError for a package that is too large.
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
        """Return the whole log that the job has printed so far."""
        return str(self._request("GET", f"{_quoted(submission_id)}/logs")["logs"])

    def jobs(self) -> list[dict[str, Any]]:
        """Return Ray's records of all jobs, including jobs that have ended and drivers that connected by themselves."""
        return list(self._request("GET", ""))

    def version(self) -> str:
        """Return Ray's version."""
        return str(json.loads(self._send("GET", "/api/version"))["ray_version"])

    def nodes(self) -> list[dict[str, Any]]:
        """Return Ray's records of all nodes, including dead ones."""
        return list(json.loads(self._send("GET", f"/api/v0/nodes?limit={MOST_NODES}"))["data"]["result"]["result"])

    def stop(self, submission_id: str) -> None:
        """Ask Ray to stop the job, and do not wait for that."""
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
    """Return the answer of `ask`. If the head cannot be reached, ask again for a minute, and print a line each time.
    Raises SubmitError, which says that it could not do `what`. An answer that breaks off or is no HTTP is none."""
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
        return retry(ask, _UNANSWERED, pause)
    except _UNANSWERED as error:
        if isinstance(error, urllib.error.HTTPError) and error.code < 500:
            raise SubmitError(f"could not {what}: {explained(error)}") from None
        raise SubmitError(f"could not {what}: Ray's head did not answer ({error})") from None


def explained(error: urllib.error.HTTPError) -> str:
    """Return an explanation of a refusal by Ray, with the text that Ray sent."""
    text = printable(error.read().decode(errors="replace").strip()[:2000])
    known = {
        401: "the cluster's token was refused",
        403: "the cluster's token was refused",
        404: "Ray's head does not know this job: it was restarted, and what ran on it is lost",
    }
    return f"{known.get(error.code, 'Ray answered')} (HTTP {error.code}{': ' if text else ''}{text})"
