"""Submits an arm to a running Ray cluster and follows it to its end: the main process of that arm's Job.

    python -m training.launch.ray.submit --address http://HEAD:8265 --submission-id ID --stack S [--arm ARM] -- FLAGS…

What a run needs beside the image is sent first, as a package; its driver and its workers have that as their folder.
The driver runs on the cluster's head; its log is printed as it grows, and ends with the result.
"""

import argparse
import io
import os
import signal
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from types import FrameType
from typing import Any

from training.contract.clock import Stamp, process_start
from training.contract.printable import printable
from training.launch import entry
from training.launch.environment import FILES
from training.launch.ray import jobs_api
from training.launch.ray.jobs_api import JobsApi, SubmitError, patiently, token
from training.launch.ray.other_jobs import is_of, is_unfinished, job_name, mark, refusal, running_others
from training.machine.command_line import rwi

MOST_LINES = 10
"""Most lines of the reason why a job failed."""
OF_RUN = ".ray-worth-it-run"
"""File in a run's package that holds the name of the run."""
LOOK_SECONDS = 20.0
"""Interval of checks for other jobs on the cluster during a run."""


class OthersError(SubmitError):
    """Other jobs run on the cluster, or ran during the run, so the run does not count."""


def run(api: JobsApi, submission_id: str, arm: list[str], environment: dict[str, str], stack: str) -> None:
    """Submit the arm, given as its name and its flags, and follow the job to its end. Raises SubmitError unless the job
    succeeded and no foreign job ran on the cluster meanwhile."""
    name, *flags = arm
    command = ["-m", "training.launch.pod.run", name, "--address=auto", *flags]

    def submit() -> None:
        if FILES in os.environ:
            _submit_with_files(api, submission_id, command, environment, stack)
        else:
            ours = ["python", *command]
            patiently(lambda: api.submit(submission_id, ours, environment, mark(stack)), "submit the run")

    run_alone(api, submission_id, submit, Whose(stack, stack))


@dataclass(frozen=True)
class Whose:
    """The stack and the owner of a run."""

    stack: str
    owner: str
    """Owner that the metadata of the run's jobs name."""


def run_alone(
    api: JobsApi, submission_id: str, submit: Callable[[], None], whose: Whose, shown: Callable[[str], str] = str
) -> None:
    """Run a job, which `submit` submits, and follow it to its end. Raises SubmitError unless it succeeded and no
    foreign job ran on the cluster meanwhile.

    `shown`: returns the part of the job's log that is printed.
    """
    before = stop_unfinished(api, whose)
    signal.signal(signal.SIGTERM, _Stop(api, submission_id))
    look = _Look(api, whose, before | {submission_id})
    try:
        submit()
        follow(api, submission_id, look.now_and_then, shown)
        look.now()
    except OthersError:
        _stop(api, submission_id)
        raise
    except SubmitError as error:
        raise SubmitError(f"{error}{_let_go(api, submission_id, whose.stack)}") from None


def _submit_with_files(
    api: JobsApi, submission_id: str, command: list[str], environment: dict[str, str], owner: str
) -> None:
    """Upload the files that the run needs besides the image, and submit the run with them as its working folder.

    The run's time starts after the upload. Ray puts this folder before all others in Python's path, and a module in it
    may have the name of one of ours. So the head gets the PYTHONPATH of this pod, which has the same image.
    """
    content = package_of_run(Path(os.environ[FILES]).read_bytes(), submission_id)
    folder = patiently(lambda: api.upload(content), "send the files of the run")
    ours = ["env", f"PYTHONPATH={os.environ['PYTHONPATH']}", "python", "-P", *command]
    since = environment | entry.pass_on_start(Stamp.now())
    patiently(lambda: api.submit(submission_id, ours, since, mark(owner), working_dir=folder), "submit the run")


def package_of_run(content: bytes, submission_id: str) -> bytes:
    """Return the package with a file added that is unique to the run. Ray unpacks equal packages only once, so another
    run would find this run's files."""
    packed = io.BytesIO(content)
    with zipfile.ZipFile(packed, "a") as archive:
        own = zipfile.ZipInfo(OF_RUN)
        own.external_attr = 0o644 << 16
        archive.writestr(own, submission_id)
    return packed.getvalue()


def stop_unfinished(api: JobsApi, whose: Whose) -> set[str]:
    """Stop jobs that an interrupted measurement of this owner left running, because they would share the CPUs. Return
    the names of all jobs.

    Raises OthersError if a foreign job runs; foreign jobs are not stopped.
    """
    jobs = patiently(api.jobs, "ask for running jobs")
    if others := running_others(jobs, whose.owner):
        raise OthersError(refusal(others, whose.stack))
    for job in filter(is_unfinished, jobs):
        print(f"Ray job {job_name(job)} has not ended: stopping it", flush=True)
        _stop(api, job_name(job))
    return {job_name(job) for job in jobs}


class _Look:
    """Notices jobs that others start on the cluster during a run, even if they have ended again: their names are new.

    It does not ask at every poll, because the head that answers shares its node's CPUs with the workers.
    """

    def __init__(self, api: JobsApi, whose: Whose, known: set[str]) -> None:
        self._api, self._whose, self._known = api, whose, known
        self._last = time.monotonic()

    def now_and_then(self) -> None:
        if time.monotonic() - self._last >= LOOK_SECONDS:
            self.now()

    def now(self) -> None:
        """Check for foreign jobs now. Raises OthersError."""
        self._last = time.monotonic()
        jobs = patiently(self._api.jobs, "ask for running jobs")
        new = [job for job in jobs if job_name(job) not in self._known and not is_of(self._whose.owner, job)]
        if not new:
            return
        stack = self._whose.stack
        if others := running_others(new, self._whose.owner):
            raise OthersError(f"this run does not count: {refusal(others, stack)}")
        names = ", ".join(map(job_name, new))
        raise OthersError(
            f"this run does not count: jobs that no measurement submitted ran on the Ray cluster of stack {stack} at"
            f" the same time, and have ended since: {names}. Measure again:\n  {rwi('up', stack)}"
        )


def _stop(api: JobsApi, submission_id: str) -> None:
    """End a job, and wait until it has ended."""
    patiently(lambda: api.stop(submission_id), f"stop {submission_id}")
    while is_unfinished(patiently(lambda: api.job(submission_id), f"ask for {submission_id}")):
        time.sleep(jobs_api.POLL_SECONDS)


def _let_go(api: JobsApi, submission_id: str, stack: str) -> str:
    """Try once to stop a job that we lost track of. Return advice for the user if the job may go on, else ""."""
    try:
        api.stop(submission_id)
    except (OSError, ValueError) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
            if error.code == HTTPStatus.NOT_FOUND:
                return ""
        return f". It may go on there; to end it:\n  {rwi(f'jobs stop {submission_id}', stack)}"
    return ""


def follow(
    api: JobsApi,
    submission_id: str,
    meanwhile: Callable[[], None] = lambda: None,
    visible: Callable[[str], str] = str,
) -> None:
    """Print the job's log while it grows, or the part that `visible` returns, until the job ends; call `meanwhile` at
    each poll. Raises SubmitError if the job did not succeed."""
    shown = 0
    while True:
        job = patiently(lambda: api.job(submission_id), "ask for the run's status")
        log = visible(patiently(lambda: api.log(submission_id), "read the run's log"))
        print(printable(log[shown:]), end="", flush=True)
        shown = len(log)
        if not is_unfinished(job):
            break
        meanwhile()
        time.sleep(jobs_api.POLL_SECONDS)
    if job["status"] != "SUCCEEDED":
        raise SubmitError(f"Ray job {submission_id} ended as {job['status']}: {_why(job)}")


def _why(job: Mapping[str, Any]) -> str:
    """Return Ray's message why the job ended, without the log, which was printed already. Of a long message only the
    first and the last lines are kept."""
    lines = printable(str(job.get("message") or "no message")).partition(", last available logs")[0].splitlines()
    return "\n".join(lines if len(lines) <= MOST_LINES else [*lines[:2], "…", *lines[2 - MOST_LINES :]])


class _Stop:
    """A signal handler that stops the Ray job, which would go on after the end of this process and its Job."""

    def __init__(self, api: JobsApi, submission_id: str) -> None:
        self._api, self._submission_id = api, submission_id

    def __call__(self, number: int, _: FrameType | None) -> None:
        try:
            self._api.stop(self._submission_id)
        except (OSError, ValueError) as error:
            print(f"could not stop Ray job {self._submission_id}: {error}", file=sys.stderr, flush=True)
        os._exit(128 + number)


def main() -> None:
    """Read the command line, submit the run and follow it; exit with a message if it cannot be done."""
    parser = argparse.ArgumentParser(prog="python -m training.launch.ray.submit", description=__doc__)
    parser.add_argument("--address", required=True, help="http address of the cluster's dashboard")
    parser.add_argument("--submission-id", required=True, help="name of the Ray job")
    parser.add_argument("--stack", required=True, help="whose measurement it is, for messages")
    parser.add_argument("--arm", default="ray", help="name of the arm")
    parser.add_argument("flags", nargs="+", help="flags of the arm, after --")
    options = parser.parse_args()
    try:
        api = JobsApi(options.address, token(), direct=True)
        run(
            api,
            options.submission_id,
            [options.arm, *options.flags],
            entry.pass_on_start(process_start()),
            options.stack,
        )
    except SubmitError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
