"""Submits the ray arm to a running Ray cluster and follows it to its end: the main process of that arm's Job.

    python -m training.launch.submit --address http://HEAD:8265 --submission-id ID -- FLAGS…

Speaks Ray's Job Submission API with the standard library alone: importing Ray would take longer than all it does. The
driver runs on the cluster's head; its log is printed as it grows, and ends with the result.
"""

import argparse
import json
import os
import shlex
import signal
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

from training.contract.clock import process_start
from training.launch import entry

TOKEN = "RAY_AUTH_TOKEN"  # noqa: S105 (the variable's name)
"""Environment variable with the cluster's token, named as Ray names it."""
POLL_SECONDS = 2.0
PATIENCE_SECONDS = 60.0
"""A head that shares its CPU may not answer for some seconds; one that is silent for longer is gone."""
REQUEST_SECONDS = 30.0
UNFINISHED = ("PENDING", "RUNNING")


class SubmitError(Exception):
    """The run can't be submitted or followed; the message says what is known."""


def token() -> str:
    """The cluster's token; raises SubmitError where it went with the cluster."""
    if TOKEN not in os.environ:
        raise SubmitError(
            "there is no token of Ray's, and so no RayCluster: it was deleted by other means than this stack."
            " To make it again:\n  pulumi refresh --yes\n  pulumi up"
        )
    return os.environ[TOKEN]


class JobsApi:
    """Ray's Job Submission API at one address."""

    def __init__(self, address: str, token: str) -> None:
        self._address, self._token = address.rstrip("/"), token

    def submit(self, submission_id: str, command: Sequence[str], environment: dict[str, str]) -> None:
        """Have the cluster run `command` as `submission_id`."""
        body = {
            "entrypoint": shlex.join(command),
            "submission_id": submission_id,
            "runtime_env": {"env_vars": environment},
        }
        self._request("POST", "", body)

    def job(self, submission_id: str) -> dict[str, Any]:
        """What Ray knows of a job."""
        return dict(self._request("GET", submission_id))

    def log(self, submission_id: str) -> str:
        """The job's whole log so far."""
        return str(self._request("GET", f"{submission_id}/logs")["logs"])

    def unfinished(self) -> list[str]:
        """Jobs that wait or run."""
        jobs = self._request("GET", "")
        return [job["submission_id"] for job in jobs if job["status"] in UNFINISHED and job["submission_id"]]

    def stop(self, submission_id: str) -> None:
        """Ask for the job's end."""
        self._request("POST", f"{submission_id}/stop")

    def _request(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        request = urllib.request.Request(  # noqa: S310 (the address is the cluster's, given by the program)
            f"{self._address}/api/jobs/{path}",
            method=method,
            data=json.dumps(body).encode() if body is not None else None,
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=REQUEST_SECONDS) as answer:  # noqa: S310
            return json.loads(answer.read() or b"null")


def run(api: JobsApi, submission_id: str, flags: list[str], environment: dict[str, str]) -> None:
    """Submit the arm and follow it; returns when it succeeded, raises SubmitError otherwise."""
    stop_unfinished(api)
    command = ["python", "-m", "training.launch.pod", "ray", "--address=auto", *flags]
    signal.signal(signal.SIGTERM, _Stop(api, submission_id))
    patiently(lambda: api.submit(submission_id, command, environment), "submit the run")
    follow(api, submission_id)


def stop_unfinished(api: JobsApi) -> None:
    """End what an interrupted measurement left running: it would share the workers' CPUs."""
    for job in patiently(api.unfinished, "ask for running jobs"):
        print(f"Ray job {job} has not ended: stopping it", flush=True)
        patiently(lambda job=job: api.stop(job), f"stop {job}")  # type: ignore[misc]
        while patiently(lambda job=job: api.job(job), f"ask for {job}")["status"] in UNFINISHED:  # type: ignore[misc]
            time.sleep(POLL_SECONDS)


def follow(api: JobsApi, submission_id: str) -> None:
    """Print the job's log as it grows until it succeeded; raises SubmitError when it did not."""
    shown = 0
    while True:
        job = patiently(lambda: api.job(submission_id), "ask for the run's status")
        log = patiently(lambda: api.log(submission_id), "read the run's log")
        print(log[shown:], end="", flush=True)
        shown = len(log)
        if job["status"] not in UNFINISHED:
            break
        time.sleep(POLL_SECONDS)
    if job["status"] != "SUCCEEDED":
        raise SubmitError(f"Ray job {submission_id} ended as {job['status']}: {job.get('message') or 'no message'}")


def patiently(ask: Callable[[], Any], what: str) -> Any:
    """The answer; a head that can't be reached is asked again for a minute, with a line each. Raises SubmitError."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return ask()
        except (OSError, ValueError) as error:
            if isinstance(error, urllib.error.HTTPError) and error.code < 500:
                raise SubmitError(f"could not {what}: {_explained(error)}") from None
            if time.monotonic() > deadline:
                raise SubmitError(f"could not {what}: Ray's head did not answer ({error})") from None
            print(f"Ray's head does not answer ({error}); trying again", file=sys.stderr, flush=True)
            time.sleep(POLL_SECONDS)


def _explained(error: urllib.error.HTTPError) -> str:
    text = error.read().decode(errors="replace").strip()[:2000]
    known = {
        401: "the cluster's token was refused",
        403: "the cluster's token was refused",
        404: "Ray's head does not know this job: it was restarted, and what ran on it is lost",
    }
    return f"{known.get(error.code, 'Ray answered')} (HTTP {error.code}{': ' if text else ''}{text})"


class _Stop:
    """At SIGTERM: stop the Ray job, which would otherwise go on without its Job."""

    def __init__(self, api: JobsApi, submission_id: str) -> None:
        self._api, self._submission_id = api, submission_id

    def __call__(self, number: int, _: FrameType | None) -> None:
        try:
            self._api.stop(self._submission_id)
        except OSError as error:
            print(f"could not stop Ray job {self._submission_id}: {error}", file=sys.stderr, flush=True)
        os._exit(128 + number)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m training.launch.submit", description=__doc__)
    parser.add_argument("--address", required=True, help="http address of the cluster's dashboard")
    parser.add_argument("--submission-id", required=True, help="name of the Ray job")
    parser.add_argument("flags", nargs="+", help="flags of training.ray, after --")
    given = parser.parse_args()
    try:
        api = JobsApi(given.address, token())
        run(api, given.submission_id, given.flags, entry.pass_on_start(process_start()))
    except SubmitError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
