"""Runs one trial of a search: a training of the user's script with one configuration, observed, in every arm alike.

`run_trial` runs one from its start to its end. Tune asks for one report after another, and so uses the parts:
`start`, `next_report`, `answer`, `end`. A search that stops no trial holds none: nobody is asked, there is no socket.
"""

import json
import os
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from training.contract.progress import Progress
from training.contract.provenance import PROJECT
from training.launch.environment import secrets_of, short_folder
from training.machine import cgroup, process_session
from training.machine.ports import held_ports
from training.workloads.script import observation_files
from training.workloads.script.environment import decided_by, observed_by, own_ray
from training.workloads.search import record, space, trial_environment
from training.workloads.search.detail import LOG, RECORD, Trial
from training.workloads.search.plan import PORT, TRIALS, Plan
from training.workloads.search.questions import Questions, Report
from training.workloads.search.recipe import CHECKPOINT
from training.workloads.search.record import EndedTrial
from training.workloads.search.supervisor import END, End, Task
from training.workloads.search.trial_environment import SharedRay

GRACE_SECONDS = 10.0
"""Seconds for a trial to end after it was told to stop, and again from SIGTERM to SIGKILL."""
GIVE_UP_SECONDS = 30.0
"""Longest wait in seconds after SIGKILL, because a process in an uninterruptible call may never end."""
POLL_SECONDS = 0.5
"""Seconds between two looks at whether another rank's report has waited long enough for that of rank 0."""
SUPERVISOR = (sys.executable, "-m", "training.workloads.search.supervisor")
LEFT_BY_OBSERVER = ("checkpoint-*", "fit-*")
"""Patterns of the files that the observer keeps for a training that goes on after `fit`."""
LONGEST_LINES = 65536
"""Most bytes that are read at once."""


class TrialFailedError(RuntimeError):
    """A trial failed; Tune counts the trial as failed, and the search goes on."""


def run_trial(
    plan: Plan, number: int, config: dict[str, Any], decide: Callable[[int, float], bool] | None = None
) -> Trial:
    """Run a trial to its end and return its record.

    Args:
        plan: The plan of the run.
        number: The number of the trial, from 0.
        config: Values by the names of the space.
        decide: Called with the number of a report, from 1, and its value, for each report before that of the last
            epoch: False stops the trial. Without `decide` the trial is neither held at its reports nor stopped.
    """
    running = start(plan, number, config, decides=decide is not None)
    try:
        while (report := running.next_report()) is not None:
            if decide and not decide(report.number, report.value):
                running.answer(goes_on=False)
                break
        return running.end()
    except BaseException:
        running.abandon()
        raise


@dataclass(frozen=True, kw_only=True)
class Part:
    """The folders and the end of a segment, if only a segment of a trial is run."""

    folder: Path
    """Folder of the segment's log, record and observations."""
    checkpoint: Path
    """Folder with the checkpoint from which the script continues, and in which it leaves the next one."""
    until: int
    """Number of epochs at the end of the segment."""


def start(
    plan: Plan, number: int, config: dict[str, Any], *, decides: bool, within: SharedRay | Part | None = None
) -> "RunningTrial":
    """Start a trial and return it. `decides` says whether the search decides at each report if the trial goes on.
    `within` is the Ray that places the trial's workers, or the segment to run; without a Ray, one that the script
    starts is its own."""
    return RunningTrial(plan, number, config, decides=decides, within=within)


class RunningTrial:
    """A trial that was started; only one thread may use it."""

    def __init__(
        self, plan: Plan, number: int, config: dict[str, Any], *, decides: bool, within: SharedRay | Part | None = None
    ) -> None:
        self._plan, self._number, self._config, self._decides = plan, number, config, decides
        self._joined = within if isinstance(within, SharedRay) else None
        self._part = within if isinstance(within, Part) else None
        self._recipe, self._folder = plan.settings, self._part.folder if self._part else plan.trial_folder(number)
        self._closing = ExitStack()
        self._watch = self._closing.enter_context(selectors.DefaultSelector())
        self._reports: list[Report] = []
        self._read = 0
        """Number of reports that `next_report` has looked at."""
        self._undecided: Report | None = None
        self._signalled = False
        self._lines = b""
        self._has_ended = False
        self._end: End | None = None
        self._record: Trial | None = None
        self._folder.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix="run-", dir=short_folder()))  # for sockets, whose paths are short
        asks = decides and not self._recipe.metric_pattern
        self._questions = Questions(temporary / "search", self._watch) if asks else None
        task = self._task(temporary, decided_by(temporary / "search", self._recipe.metric) if asks else {})
        self._kills = cgroup.memory_kills()
        self._began, self._clock_began = time.time(), time.monotonic()
        self._supervisor = subprocess.Popen(
            SUPERVISOR, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self._supervisor.stdin and self._supervisor.stdout  # noqa: S101, PT018 (pipes)
        self._stdin, self._stdout = self._supervisor.stdin, self._supervisor.stdout
        self._watch.register(self._stdout, selectors.EVENT_READ, self._read_supervisor)
        self._send(json.dumps(asdict(task)).encode() + b"\n")

    def _task(self, temporary: Path, asking: dict[str, str]) -> Task:
        storage = self._folder / "storage"
        storage.mkdir(exist_ok=True)
        (port,) = self._closing.enter_context(held_ports(1))
        secret = trial_environment.secret_variables()
        command = [word.replace(PORT, str(port)).replace("{storage}", str(storage)) for word in self._plan.command]
        observer = {**observed_by(self._folder, 0), **asking}
        public = {**self._plan.variables, **observer}
        ray = self._joined.variables(command[0], public) if self._joined else own_ray(temporary)
        return Task(
            command=space.replaced(command, {**self._config, **self._of_population()}),
            folder=self._plan.script_folder,
            variables=trial_environment.of_trial(self._plan, observer) | ray,
            log=str(self._folder / LOG),
            secrets=[*secret.values(), *secrets_of(os.environ).values()],
            pattern=self._recipe.metric_pattern,
            temporary=[str(temporary), str(storage), *([] if self._part else [str(self._folder / CHECKPOINT)])],
            grace_seconds=GRACE_SECONDS,
        )

    def _of_population(self) -> dict[str, Any]:
        """Return a population's other placeholders: number of epochs, and the folder to continue from, now made."""
        if not self._recipe.is_population:
            return {}
        part = self._part
        checkpoint, until = (part.checkpoint, part.until) if part else (self._folder / CHECKPOINT, self._recipe.epochs)
        checkpoint.mkdir(exist_ok=True)
        return {"epochs": until, CHECKPOINT: str(checkpoint)}

    def next_report(self, timeout_seconds: float | None = None) -> Report | None:
        """Return the next report that needs a decision; None if the trial has ended. An earlier report without an
        answer goes on. So do the reports of a trial on which nobody decides, and those from the last epoch on. Raise
        TimeoutError if no report comes in time."""
        self.answer(goes_on=True)
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        while True:
            while self._read < len(self._reports):
                self._undecided = self._reports[self._read]
                self._read += 1
                if self._decides and self._undecided.number < self._recipe.epochs:
                    return self._undecided
                self.answer(goes_on=True)
            if self._has_ended:
                return None
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError
            self._wait(deadline)

    def answer(self, *, goes_on: bool) -> None:
        """Answer the report that `next_report` returned last: let the trial go on, or tell the trial to end."""
        report, self._undecided = self._undecided, None
        if report is None:
            return
        if self._questions:
            self._questions.answer(report.number, goes_on=goes_on)
        elif not goes_on and not self._has_ended_by_now():  # it does not ask, and has trained on meanwhile
            self._signal()

    def end(self) -> Trial:
        """End the trial if it has not ended, write its record, and return the record. A trial that waits for an answer
        is told to stop; it has GRACE_SECONDS until SIGTERM, and the same time again until SIGKILL."""
        if self._record is None:
            self._end_processes()
            self._kill_what_is_left()
            self._record = record.of(self._ended())
            self._record.write(self._folder)
            self._close()
        return self._record

    def abandon(self) -> None:
        """End the trial at once, without a record, because its result is no longer wanted."""
        self._stdin.close()
        self._await(GIVE_UP_SECONDS)
        self._kill_what_is_left()
        self._close()

    def _end_processes(self) -> None:
        self.answer(goes_on=False)
        if self._is_told_to_stop:
            self._await(GRACE_SECONDS)
        if not self._has_ended_by_now():
            self._signal()
            self._await(GRACE_SECONDS + GIVE_UP_SECONDS)

    @property
    def _is_told_to_stop(self) -> bool:
        return self._questions is not None and self._questions.has_told_to_stop

    def _signal(self) -> None:
        """Have the supervisor end the trial by SIGTERM, then SIGKILL."""
        if not self._signalled:
            self._signalled = True
            self._send(END)

    def _send(self, line: bytes) -> None:
        with suppress(BrokenPipeError):  # it was killed
            self._stdin.write(line)
            self._stdin.flush()

    def _has_ended_by_now(self) -> bool:
        if not self._has_ended:
            self._wait(time.monotonic())
        return self._has_ended

    def _await(self, seconds: float) -> None:
        """Wait for the end of the trial, for at most `seconds`."""
        deadline = time.monotonic() + seconds
        while not self._has_ended and time.monotonic() < deadline:
            self._wait(deadline)

    def _wait(self, deadline: float | None) -> None:
        """Wait for the next event of the trial, until the deadline at most, and handle it."""
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        if self._questions and self._questions.has_new:
            left = min(POLL_SECONDS, left) if left is not None else POLL_SECONDS
        for key, _ in self._watch.select(left):
            key.data()
        if self._questions and (report := self._questions.next()):
            self._reports.append(report)

    def _read_supervisor(self) -> None:
        part = os.read(self._stdout.fileno(), LONGEST_LINES)
        self._lines += part
        *lines, self._lines = self._lines.split(b"\n")
        for line in lines:
            self._take(json.loads(line))
        if not part:
            self._watch.unregister(self._stdout)
            self._has_ended = True

    def _take(self, line: dict[str, Any]) -> None:
        if "code" in line:
            self._end = End(**line)
        else:
            self._reports.append(Report(number=len(self._reports) + 1, value=line["report"], at=line["at"]))

    def _kill_what_is_left(self) -> None:
        """End the session of a supervisor that did not tell how its trial ended: it was killed, or waits for ever."""
        if self._end is None:
            process_session.end_session(self._supervisor.pid)

    def _ended(self) -> EndedTrial:
        """Return what is known of the trial when it has ended."""
        # Of a supervisor that was killed: its trial was, then, too
        end = self._end or End(code=-9, at=time.monotonic(), printed=0, error="", ended_on_request=True)
        signalled = self._signalled and end.ended_on_request
        return EndedTrial(
            number=self._number,
            workers=self._recipe.trial_workers,
            epochs_asked=self._recipe.epochs,
            config=self._config,
            metric=self._recipe.metric,
            pattern=self._recipe.metric_pattern,
            began=self._began,
            clock_began=self._clock_began,
            clock_ended=end.at,
            code=end.code,
            ended_by_search=self._is_told_to_stop or signalled,
            signalled=signalled,
            printed=end.printed,
            matches=end.matches,
            memory_kills=cgroup.memory_kills() - self._kills,
            error=end.error,
            reports=self._reports,
            seen=observation_files.read(self._folder),
        )

    def _close(self) -> None:
        self._stdin.close()
        self._stdout.close()
        with suppress(subprocess.TimeoutExpired):
            self._supervisor.wait(GIVE_UP_SECONDS)
        if self._questions:
            self._questions.close()
        self._closing.close()
        for pattern in LEFT_BY_OBSERVER:
            for path in self._folder.glob(pattern):
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def tell(plan: Plan, trial: Trial, ended: int | None = None) -> None:
    """Write to the run's progress, beside the result, that a trial has ended. `ended` is the number of trials that have
    ended, including this one; without it, the records in the run's folder are counted."""
    recipe, folder = plan.settings, Path(plan.folder)
    is_fixed = not recipe.is_population or plan.arm == "ray"
    ended = ended or sum(1 for _ in (folder / TRIALS).glob(f"*/{RECORD}"))
    Progress(folder).write(
        "trial", trial=trial.number, ended=ended, trials=recipe.search_trials if is_fixed else None,
        state=trial.state, metric=recipe.metric, value=trial.metric,
    )  # fmt: skip
