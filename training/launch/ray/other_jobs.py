"""Tells a measurement's own jobs of a Ray cluster from foreign ones, which no measurement may stop.

Jobs are as Ray's Job Submission API writes them: its submission jobs, and drivers that connected by themselves.
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from training.contract.printable import printable
from training.machine.command_line import rwi

UNFINISHED = ("PENDING", "RUNNING")
_WHAT, _WHOSE = "ray-worth-it", "ray-worth-it-owner"
LONGEST_COMMAND = 80


def is_unfinished(job: Mapping[str, Any]) -> bool:
    """Return whether the job waits or runs."""
    return job["status"] in UNFINISHED


def mark(owner: str) -> dict[str, str]:
    """Return the metadata by which the jobs of an owner's measurements are known. The owner is the stack on the stack's
    own Ray cluster; on an existing cluster it is the stack with a random id of the checkout."""
    return {_WHAT: "measurement", _WHOSE: owner}


def is_of_measurement(job: Mapping[str, Any]) -> bool:
    """Return whether any user's run of this project submitted the job."""
    return (job.get("metadata") or {}).get(_WHAT) == "measurement"


def is_of(owner: str, job: Mapping[str, Any]) -> bool:
    """Return whether the job is a run of this owner's measurements. All others are foreign."""
    return mark(owner).items() <= (job.get("metadata") or {}).items()


def job_name(job: Mapping[str, Any]) -> str:
    """Return the job's submission id; for a driver that connected by itself, the id that Ray gave it."""
    return str(job.get("submission_id") or job["job_id"])


def running_others(jobs: Iterable[Mapping[str, Any]], owner: str) -> list[Mapping[str, Any]]:
    """Return the unfinished jobs that no measurement of this owner submitted."""
    return [job for job in jobs if is_unfinished(job) and not is_of(owner, job)]


SHARES = "A measurement would share its CPUs with them, and stops nobody's job."
ENDS = "Whatever runs there ends with the cluster."
"""Reasons to wait for a foreign job: SHARES for a measurement, ENDS for the command that deletes the cluster."""


def refusal(others: Sequence[Mapping[str, Any]], stack: str, why: str = SHARES) -> str:
    """Return a message which says that these foreign jobs run, with a command to end each."""
    return "\n  ".join([f"{reason(others, stack, why)}:", *(end_line(job, stack) for job in others)])


def reason(others: Sequence[Mapping[str, Any]], stack: str, why: str = SHARES) -> str:
    """Return a message which says that these foreign jobs run, without the commands to end them."""
    shown = "; ".join(map(_shown, others))
    jobs = "a job" if len(others) == 1 else "jobs"
    return (
        f"the Ray cluster of stack {stack} runs {jobs} that this stack did not submit: {shown}. {why} Wait for the end,"
        " or stop it"
    )


def _shown(job: Mapping[str, Any]) -> str:
    return f"{_line(job_name(job))} ({command(job)})"


def _line(text: str) -> str:
    """Return the text as one line that is safe to print, whatever its author put in it."""
    return " ".join(printable(text).split("\n"))


def command(job: Mapping[str, Any]) -> str:
    """Return the job's command, shortened for a line of text."""
    text = _line(str(job.get("entrypoint") or "no command"))
    return text if len(text) <= LONGEST_COMMAND else f"{text[:LONGEST_COMMAND]}…"


def end_line(job: Mapping[str, Any], stack: str) -> str:
    """Return the command that ends the job; for a driver that connected by itself, where to find it; for another
    measurement's run, that the user has to wait for it."""
    name = _line(job_name(job))
    quoted = shlex.quote(name)
    if is_of_measurement(job):
        return (
            f"{name} is a run of another measurement, or of `{rwi('bench recovery')}`: wait until that has ended."
            f" If it is yours, from another checkout or interrupted:  {rwi(f'jobs stop {quoted}', stack)}"
        )
    if job.get("submission_id"):
        return rwi(f"jobs stop {quoted}", stack)
    driver = job.get("driver_info") or {}
    process, node = driver.get("pid", "?"), driver.get("node_ip_address", "an unknown address")
    return (
        f"where it was started: {name} is a driver that connected by itself,"
        f" process {_line(str(process))} at {_line(str(node))}"
    )
