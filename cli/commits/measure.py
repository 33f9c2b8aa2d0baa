"""`rwi compare-commits`: measures whole runs of each arm of a script, of base and head in turns, until it is decided.

A repeat runs each arm under both commits, one right after the other: base, head, then head, base. An arm is measured no
further once its interval decides. Both commits have the same environment, arguments, folders of equal length and clean
files at each run.
"""

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from cli.commits import request as of_commits
from cli.commits.checkouts import Checkout, checkouts, notes
from cli.commits.request import CommitsRequest
from cli.pull_request.commits import commits_comment, in_words
from cli.setup.project import VENV, ToolError, absolute
from cli.tryout import explain, prove, run_arm
from cli.tryout.known_script import known_script, with_ray
from cli.tryout.others import Others
from cli.tryout.request import Request, read
from cli.why.request import without_secrets
from compare import commits
from compare.commits import DECIDED, MOST_REPEATS, TIME_UP, CommitComparison
from report import terminal
from training.contract.codec import encode, write_whole
from training.contract.repeats import MOST_AUTO_REPEATS
from training.machine import cpu, machine_lock
from training.workloads.script import plain
from training.workloads.script.commands import BY_RAY, IN_ITS_ENVIRONMENT, ArmCommand
from training.workloads.script.environment import SITE
from training.workloads.script.recognise import Script

WARM_UP_STEPS = 8
SIDES = ("base", "head")
BOTH = "both"
NO_PAIR = "it has not run under both commits"
TIMES_AS_LONG, LEAST_LIMIT_SECONDS = 10, 60
"""A run that lasts this many times as long as the longest run of its arm so far, and at least so many seconds, is
ended. It probably hangs, and would use up the time of all other runs."""


@dataclass(kw_only=True)
class Side:
    """A commit that can be run, `base` or `head`."""

    script: Script
    request: Request
    checkout: Checkout
    folder: Path
    """The folder of the files that runs write in addition to files in the checkout."""
    path: str
    """The value of PYTHONPATH."""
    arms: dict[str, ArmCommand]


@dataclass
class Measured:
    """The results of the measurement so far."""

    seconds: dict[str, tuple[list[float], list[float]]] = field(default_factory=dict)
    """By arm: the whole times of base and of head, in seconds."""
    steps: dict[str, list[int | None]] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    longest: dict[tuple[str, int], float] = field(default_factory=dict)
    """Seconds of the longest run so far, by arm and number of steps; 0 steps stands for whole runs."""
    unfinished: str = ""
    """Which run was ended when time was up, and after how long."""
    ended: str = ""


class TimeUpError(Exception):
    """The time for measuring ended during a run."""


def show(request: CommitsRequest) -> int:
    """Compare the commits, print and write the requested results, and return the exit status."""
    comparison = compare_commits(request)
    terminal.write(f"\n{in_words(comparison)}")
    texts = {
        request.json_to: json.dumps(encode(comparison), indent=1, ensure_ascii=False) + "\n",
        request.markdown_to: commits_comment(comparison),
    }
    for path, text in texts.items():
        if path:
            write_whole(absolute(path), text.encode(errors="replace").decode())
    return comparison.status


def compare_commits(request: CommitsRequest) -> CommitComparison:
    """Return the comparison of the script's whole times in both commits. Raise ToolError if neither commit could be
    prepared."""
    machine_lock.hold(lambda text: terminal.write(text, sys.stderr))
    lacking = notes(request.top, request.commits)
    measured, others = Measured(), Others()
    with (
        checkouts(request.top, request.commits) as checked_out,
        tempfile.TemporaryDirectory(prefix="commits-") as folder,
    ):
        python = request.typed.python
        if request.requirements:
            python = of_commits.environment(request.requirements)
        roots = of_commits.of_repository(python or str(VENV / "bin" / "python"), request.top)
        if roots:
            lacking.append(f"the environment has packages of the repository ({', '.join(roots)}): each commit its own")
        sides = {}
        for name in SIDES:
            try:
                sides[name] = _side(request, checked_out[name], python, roots, Path(folder, name))
            except ToolError as error:
                measured.failed[name] = str(error)[: commits.LONGEST_FAILURE]
        if len(measured.failed) == len(SIDES) and len(set(measured.failed.values())) == 1:
            measured.failed = {BOTH: measured.failed["base"]}
        if not measured.failed:
            _present(sides, request, measured)
            with others:
                _measure(sides, measured, time.monotonic() + 60 * request.minutes)
    return _comparison(request, measured, others.in_words(), lacking)


def _side(request: CommitsRequest, checkout: Checkout, python: str, roots: Sequence[str], folder: Path) -> Side:
    """Return a commit with the commands of its arms. Raise ToolError if the script cannot be run there."""
    folder.mkdir()
    typed = replace(request.typed, script=str(checkout.folder / request.script), python=python)
    of_try = read(typed)
    if not of_try.script.resolve().is_relative_to(checkout.folder):
        raise ToolError(f"{request.script} is a link to {of_try.script.resolve()}, which no commit holds")
    script, versions = known_script(of_try)
    by_ray = not set(request.arms).isdisjoint(BY_RAY)
    ray = with_ray(of_try, script, versions, terminal.write) if by_ray else IN_ITS_ENVIRONMENT
    arms, proves = prove.arms(script, of_try, folder, ray)
    if proves and set(request.arms) & set(plain.OF_RANKS):
        arms = prove.after(prove.known(script, proves, of_try, folder), arms)
    path = [str(SITE), *(str(checkout.folder / root) for root in roots)]
    return Side(
        script=script,
        request=of_try,
        checkout=checkout,
        folder=folder,
        path=os.pathsep.join(path),
        arms={arm.arm: arm for arm in arms if arm.arm in request.arms},
    )


def _present(sides: Mapping[str, Side], request: CommitsRequest, measured: Measured) -> None:
    """Sort the arms into those that both commits have, and those that are absent, with the reason."""
    for arm in request.arms:
        reasons = {name: side.arms[arm].absent for name, side in sides.items() if side.arms[arm].absent}
        if reasons:
            both = len(set(reasons.values())) == 1 and len(reasons) == len(sides)
            measured.absent[arm] = (
                next(iter(reasons.values())) if both else "; ".join(f"{name}: {why}" for name, why in reasons.items())
            )
        else:
            measured.seconds[arm] = ([], [])
            terminal.write(f"{arm}: {sides['head'].arms[arm]}")


def _measure(sides: Mapping[str, Side], measured: Measured, until: float) -> None:
    """Measure until each arm is decided, time is up, or there are as many repeats as the significance level was chosen
    for."""
    by = commits.rule(len(measured.seconds))
    left, longest = list(measured.seconds), 0.0
    try:
        for arm in left:  # a first run reads its packages from the disk, and compiles the commit's modules
            for side in sides.values():
                if arm not in measured.failed:
                    _run(side, arm, measured, until, WARM_UP_STEPS)
        for repeat in range(MOST_AUTO_REPEATS):
            left = [arm for arm in left if arm not in measured.failed]
            began = time.monotonic()
            if not left or began + longest > until:
                measured.ended = TIME_UP if left else DECIDED
                return
            turn = repeat % len(left)
            for arm in [*left[turn:], *left[:turn]]:
                _pair(sides, arm, repeat, measured, until)
            longest = time.monotonic() - began
            left = commits.undecided({arm: measured.seconds[arm] for arm in left}, by)
        measured.ended = MOST_REPEATS if left else DECIDED
    except TimeUpError:
        measured.ended = TIME_UP
    except (ToolError, OSError) as error:  # of git, or of a full disk: what was measured until then is kept
        measured.failed[BOTH] = str(error)[: commits.LONGEST_FAILURE]


def _pair(sides: Mapping[str, Side], arm: str, repeat: int, measured: Measured, until: float) -> None:
    """Run an arm once under both commits. The two times are only recorded together."""
    ran = {}
    for name in SIDES if repeat % 2 == 0 else reversed(SIDES):
        if arm not in measured.failed and (outcome := _run(sides[name], arm, measured, until)):
            ran[name] = outcome
    if len(ran) < len(SIDES):
        return
    for kept, name in zip(measured.seconds[arm], SIDES, strict=True):
        kept.append(ran[name].end["ended"] - ran[name].end["began"])
    measured.steps[arm] = [min((len(rank.step_ends) for rank in ran[name].seen), default=0) or None for name in SIDES]
    base, head = (kept[-1] for kept in measured.seconds[arm])
    terminal.write(f"  {repeat + 1} {arm}: base {base:.2f} s, head {head:.2f} s")


def _run(side: Side, arm: str, measured: Measured, until: float, steps: int = 0) -> run_arm.Outcome | None:
    """Return the outcome of an arm that ran to its end, or for some steps; None if the arm failed. Raise TimeUpError if
    time is up."""
    left = until - time.monotonic()
    if left < 1:
        raise TimeUpError
    side.checkout.clean()
    for name in (arm, "storage"):
        shutil.rmtree(side.folder / name, ignore_errors=True)
    (side.folder / "storage").mkdir()
    longest = measured.longest.get((arm, steps), left)
    limit = min(int(left) + 1, max(LEAST_LIMIT_SECONDS, int(TIMES_AS_LONG * longest)))
    limited = replace(side.request, steps=steps, limit_seconds=limit)
    changed = run_arm.Changed(variables={"PYTHONPATH": side.path})
    outcome = run_arm.run(side.arms[arm], limited, side.folder, side.script.path.parent, changed)
    name = side.checkout.folder.name
    if outcome.hung and limit > left:
        measured.unfinished = f"{arm}: time was up while {name} ran, for {outcome.seconds:.0f} s then"
        raise TimeUpError
    if not outcome.code and not outcome.flooded:
        measured.longest[arm, steps] = max(outcome.seconds, measured.longest.get((arm, steps), 0.0))
        return outcome
    problem = explain.problem(outcome, side.script, limit)
    if outcome.hung:
        problem = f"it was ended after {limit} s; the longest run of this arm took {longest:.1f} s\n{outcome.trace}"
    measured.failed[arm] = f"{name}: {problem}"[: commits.LONGEST_FAILURE]
    terminal.write(f"  {arm}: {name}: {problem}")
    return None


def _comparison(request: CommitsRequest, measured: Measured, busy: str, lacking: Sequence[str]) -> CommitComparison:
    by, arguments = commits.rule(len(measured.seconds)), without_secrets(request.typed.arguments)
    arms = {
        arm: commits.arm_change(base, head, by, (measured.steps[arm][0], measured.steps[arm][1]))
        for arm, (base, head) in measured.seconds.items()
        if base
    }
    return CommitComparison(
        schema_version=commits.SCHEMA_VERSION,
        base=request.commits["base"],
        head=request.commits["head"],
        script=request.script,
        arguments=[each[: commits.LONGEST_TEXT] for each in arguments[: commits.MOST_ARGUMENTS]],
        workers=request.typed.workers or 2,
        cpu_model=cpu.model(),
        busy=busy,
        minutes=request.minutes,
        ended=measured.ended,
        confidence=by.confidence,
        arms=arms,
        absent=measured.absent
        | {arm: NO_PAIR for arm in measured.seconds if arm not in arms and arm not in measured.failed},
        failed=measured.failed,
        against=commits.against(arms, by),
        notes=[*lacking, *filter(None, [measured.unfinished])],
    )
