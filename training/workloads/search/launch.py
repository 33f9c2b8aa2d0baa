"""One run of one arm of a search: a driver that starts the trials, observed, and what came of them as a result.

The driver is this project's own program and runs in its environment; each trial is the user's command in theirs.
"""

import json
import os
import shutil
import sys
from pathlib import Path

from training.contract import provenance
from training.contract.arms import ARMS
from training.contract.provenance import PROJECT
from training.contract.result import TrainingResult
from training.launch import foreign_command
from training.launch.entry import Request
from training.launch.environment import SECRET, secrets_of
from training.launch.foreign_command import MOST_PRINTED, End
from training.launch.usage import Usage
from training.machine import cgroup
from training.workloads.script import commands, left_files
from training.workloads.script.commands import ALONE, ArmCommand
from training.workloads.script.environment import own_ray, variables_of
from training.workloads.script.printed import Printed
from training.workloads.script.recipe import variables
from training.workloads.script.resolve import ResolvedScript, resolve
from training.workloads.search import detail, summary
from training.workloads.search.detail import Trial
from training.workloads.search.plan import PORT, TRIALS, Plan
from training.workloads.search.recipe import SearchRecipe
from training.workloads.search.space import Space
from training.workloads.search.trial import LOG

DRIVER = "training.workloads.search.driver"
MASTER_PORT = "--master-port"
NO_RECORD = "whoever ran it was ended before it"
LOG_LINES = 15


class SearchError(ValueError):
    """A search that ended badly; the message says how, and its output is above it."""


def launch(request: Request, arm: str) -> TrainingResult:
    """Make the trials of an arm and give its result. Raises SearchError, ScriptError and PythonError."""
    recipe = request.recipe
    assert isinstance(recipe, SearchRecipe)  # noqa: S101 (the workload's own)
    resolved, host = resolve(recipe), provenance.host()
    command = trial_command(resolved, arm)
    plan = plan_of(resolved, command, arm, request.result.parent)
    secret: dict[str, str] = json.loads(os.environ.get(SECRET, "{}"))
    script_folder = commands.folder(resolved.script)
    print(f"in {script_folder}: {command}", flush=True)
    shutil.rmtree(Path(plan.folder) / TRIALS, ignore_errors=True)
    printed = Printed({**secret, **secrets_of(os.environ)})
    usage, killed, before = Usage(), cgroup.memory_kills(), left_files.look(script_folder)
    end = foreign_command.run(
        [sys.executable, "-m", DRIVER, str(plan.write()), "--", *_flags(arm)],
        str(PROJECT),
        {**os.environ, "PYTHONUNBUFFERED": "1"},
        plan.threads * plan.slots,
        printed.pass_on,
    )
    if end.code and cgroup.memory_kills() > killed:
        raise SearchError(f"the system ended the search in the arm {arm}: it needs more memory than it may have")
    trials = _trials(plan, end)
    _refuse_failure(end, printed, trials, plan)
    files = tuple(left_files.since(before, script_folder))
    return summary.result(
        summary.EndedSearch(
            resolved=resolved, plan=plan, command=str(command), end=end, trials=trials, host=host,
            throttled_seconds=usage.throttled(), left_files=files,
        )
    )  # fmt: skip


def trial_command(resolved: ResolvedScript, arm: str) -> ArmCommand:
    """Return the command of a trial: that of the script's one process, on all CPUs in an arm that has them for one."""
    of_script = arm if arm in ALONE and resolved.recipe.workers > 1 else ALONE[0]
    return resolved.arms({"storage": "{storage}"})[of_script]


def plan_of(resolved: ResolvedScript, command: ArmCommand, arm: str, folder: Path) -> Plan:
    """Return the plan of a run. Configurations are drawn here, by the seed alone, so that every arm has the same."""
    recipe, own = resolved.recipe, ARMS[arm]
    assert isinstance(recipe, SearchRecipe)  # noqa: S101 (the workload's own)
    drawn = recipe.search_algorithm == "random"
    public = variables_of(command, variables(recipe.environment), folder)
    return Plan(
        arm=arm,
        slots=own.processes(recipe),
        threads=own.compute_threads(recipe),
        folder=str(folder),
        script_folder=str(commands.folder(resolved.script)),
        command=_with_port(command.command),
        variables={name: value for name, value in public.items() if name not in own_ray(folder)},
        recipe=recipe.to_dict(),
        configurations=Space.parse(recipe.search_space).draw(recipe.seed, recipe.search_trials) if drawn else None,
    )


def _with_port(command: tuple[str, ...]) -> list[str]:
    """Return the command with a placeholder for the port of torchrun: trials that run at a time need one each."""
    before = ("", *command)
    return [PORT if earlier == MASTER_PORT else word for earlier, word in zip(before, command, strict=False)]


def _flags(arm: str) -> list[str]:
    """Return this process's own flags, for a driver that starts Ray by them."""
    return sys.argv[1:] if ARMS[arm].start == "ray" else []


def _trials(plan: Plan, end: End) -> list[Trial]:
    """Return the records of all trials by number; one that left none has failed."""
    recipe = plan.settings
    records = {number: detail.read(plan.trial_folder(number)) for number in range(recipe.search_trials)}
    return [record or _lost(plan, number, end) for number, record in records.items()]


def _lost(plan: Plan, number: int, end: End) -> Trial:
    configuration = plan.configurations[number] if plan.configurations else {}
    return Trial(
        number=number, config=configuration, state="failed", began=end.ended, ended=end.ended, epochs=None, points=[],
        metric=None, weights=None, exit_code=0, why=NO_RECORD,
    )  # fmt: skip


def _refuse_failure(end: End, printed: Printed, trials: list[Trial], plan: Plan) -> None:
    if printed.count > MOST_PRINTED:
        raise SearchError(f"it printed more than {MOST_PRINTED // 2**20} MiB and was ended")
    if end.processes > foreign_command.MOST_PROCESSES:
        raise SearchError(f"it started more than {foreign_command.MOST_PROCESSES} processes, and was ended")
    if end.code:
        how = f"exit code {end.code}" if end.code > 0 else f"signal {-end.code}"
        raise SearchError(f"the search ended with {how} in the arm {plan.arm}; its last lines are above")
    if all(trial.state == "failed" for trial in trials):
        first = trials[0]
        log = plan.trial_folder(first.number) / LOG
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:] if log.is_file() else []
        print("\n".join(lines), flush=True)
        raise SearchError(f"all {len(trials)} trials failed in the arm {plan.arm}, the first because {first.why}")
