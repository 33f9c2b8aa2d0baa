"""One run of one arm of a search: a driver that starts the trials, observed, and what came of them as a result.

The driver is this project's own program and runs in its environment; each trial is the user's command in theirs.
"""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from training.contract import provenance
from training.contract.arms import ARMS
from training.contract.provenance import PROJECT
from training.contract.result import TrainingResult
from training.launch import foreign_command
from training.launch.entry import Request
from training.launch.environment import secrets_of
from training.launch.foreign_command import MOST_PRINTED, End
from training.launch.usage import Usage
from training.machine import cgroup
from training.workloads.script import commands, left_files, plain, proving
from training.workloads.script.commands import ArmCommand
from training.workloads.script.plain import Proof
from training.workloads.script.printed import Printed, missing_module
from training.workloads.script.recipe import variables
from training.workloads.script.resolve import ResolvedScript, resolve
from training.workloads.search import population, site, space, summary, trial_environment
from training.workloads.search.brought import Brought
from training.workloads.search.detail import Trial
from training.workloads.search.plan import PORT, TRIALS, Plan
from training.workloads.search.recipe import SearchRecipe, of_trial
from training.workloads.search.space import Space

DRIVER = "training.workloads.search.driver"
MASTER_PORT = "--master-port"
NO_RECORD = "whoever ran it was ended before it"
MOST_SHOWN = 20
"""Most failed trials that a run's log names."""
CLOCKS_APART_SECONDS = 1.0
"""Seconds by which the clocks of two nodes may differ."""
DRAWN_EACH = 4
"""Most configurations that are drawn in advance for each trial, where nobody knows how many will be tried."""


class SearchError(ValueError):
    """A search that ended badly; the message says how, and stands below what the search printed."""


def launch(request: Request, arm: str) -> TrainingResult | None:
    """Make the trials of an arm and return its result; of several pods, only the first returns a result. Raise
    SearchError, ScriptError, PythonError or ApartError if the search fails."""
    assert isinstance(request.recipe, SearchRecipe)  # noqa: S101 (the workload's own)
    place, host = site.here(request), provenance.host()
    resolved = resolve(place.recipe(request.recipe), place.image)
    secret = trial_environment.secret_variables()
    proof = _proved(resolved, arm, place, secret)
    command = trial_command(resolved, arm, place.folder).within(proof.environment if proof else {})
    plan = plan_of(resolved, command, arm, place)
    print(f"in {plan.script_folder}: {command}", flush=True)
    shutil.rmtree(Path(plan.folder) / TRIALS, ignore_errors=True)
    printed = Printed({**secret, **secrets_of(os.environ)})
    usage, killed, before = Usage(), cgroup.memory_kills(), left_files.look(Path(plan.script_folder))
    try:
        end = foreign_command.run(
            [sys.executable, "-m", DRIVER, str(plan.write()), "--", *_flags(arm)],
            str(PROJECT),
            place.variables(),
            place.cpus(plan),
            printed.pass_on,
        )
    finally:  # where it was interrupted, too
        population.remove_checkpoints(Path(plan.folder))
    if end.code and cgroup.memory_kills() > killed:
        raise SearchError(f"the system ended the search in the arm {arm}: it needs more memory than it may have")
    _refuse_failure(end, printed, plan)
    ended_trials = place.trials(plan)
    if ended_trials is None:
        return None
    ended = place.ended(end)
    trials = _trials(plan, ended, ended_trials)
    _refuse_other_clocks(ended, ended_trials)
    _print_failures(trials, ended_trials, plan)
    _refuse_all_failed(trials, ended_trials, resolved, arm)
    result = summary.result(
        summary.EndedSearch(
            resolved=resolved, plan=plan, command=str(command), end=ended, trials=trials, host=host,
            throttled_seconds=usage.throttled(), left_files=tuple(left_files.since(before, Path(plan.script_folder))),
            brought={each.trial.number: each for each in ended_trials},
            proof=plain.but(proof, _not_proved(plan)),
        )
    )  # fmt: skip
    return replace(result, recipe=request.recipe.to_dict(), ray_head=place.head())


def _proved(resolved: ResolvedScript, arm: str, place: site.ThisMachine, secret: Mapping[str, str]) -> Proof | None:
    """Return what was proved about the ranks of a trial, by running the first trial's configuration; None if trials are
    not split into ranks. The plan of the ranks is written into the run's folder. Raise SearchError if the script can't
    be split into ranks."""
    assert isinstance(resolved.recipe, SearchRecipe)  # noqa: S101 (the workload's own)
    recipe, _ = of_trial(resolved.recipe, arm)
    of_one = replace(resolved, recipe=recipe)
    if not of_one.splits:
        return None
    (first,) = Space.parse(recipe.search_space).draw(recipe.seed, 1)
    own = replace(resolved.script, arguments=tuple(space.replaced(resolved.script.arguments, first)))
    needed, hidden = {**variables(recipe.environment), **secret}, {**secret, **secrets_of(os.environ)}
    proof = proving.proved(site.OfProof(), replace(of_one, script=own), needed, hidden.values(), place.folder)
    print(proof.words, flush=True)
    if not proof.works:
        raise SearchError(f"a trial can't have several workers: {proof.words}\n  pulumi config set trialWorkers 1")
    return proof


def trial_command(resolved: ResolvedScript, arm: str, folder: Path) -> ArmCommand:
    """Return the command of a trial. Raise SearchError if the script can't be started so in this arm. `folder` is the
    folder of the run, which has the plan of a plain script's ranks."""
    assert isinstance(resolved.recipe, SearchRecipe)  # noqa: S101 (the workload's own)
    recipe, of_script = of_trial(resolved.recipe, arm)
    if resolved.in_pods:
        resolved = replace(resolved, python=sys.executable)
    of_each = {"storage": "{storage}", **({"epochs": "{epochs}"} if recipe.is_population else {})}
    command = replace(resolved, recipe=recipe).arms(of_each, plan=str(folder / plain.PLAN))[of_script]
    if command.absent:
        raise SearchError(f"a trial can't be started in the arm {arm}: {command.absent}")
    return command


def plan_of(resolved: ResolvedScript, command: ArmCommand, arm: str, place: site.ThisMachine) -> Plan:
    """Return the plan of a run. Configurations are drawn here, by the seed alone, so that every arm has the same."""
    recipe, own = resolved.recipe, ARMS[arm]
    assert isinstance(recipe, SearchRecipe)  # noqa: S101 (the workload's own)
    drawn = recipe.search_algorithm == "random"
    plan = Plan(
        arm=arm,
        slots=own.processes(recipe),
        threads=own.compute_threads(recipe),
        folder=str(place.folder),
        script_folder=str(commands.folder(resolved.script)),
        command=_with_port(command.command),
        variables=place.variables_of_trials(command, variables(recipe.environment)),
        recipe=recipe.to_dict(),
        configurations=Space.parse(recipe.search_space).draw(recipe.seed, _to_draw(recipe, arm)) if drawn else None,
    )
    return place.planned(plan)


def _to_draw(recipe: SearchRecipe, arm: str) -> int:
    """Return how many configurations are drawn in advance. Arms that stop trials train as many epochs as a population
    does, and so make more trials; if the drawn configurations are not enough, Optuna draws more."""
    if not recipe.is_population or ARMS[arm].start == "ray":
        return recipe.search_trials
    count = Space.parse(recipe.search_space).count
    return int(min(count, recipe.search_trials * min(DRAWN_EACH, recipe.segments)))


def _with_port(command: tuple[str, ...]) -> list[str]:
    """Return the command with a placeholder for torchrun's port, as each of the trials at a time needs its own."""
    before = ("", *command)
    return [PORT if earlier == MASTER_PORT else word for earlier, word in zip(before, command, strict=False)]


def _flags(arm: str) -> list[str]:
    """Return this process's own flags for a driver that starts Ray with them; [] for any other driver."""
    return sys.argv[1:] if ARMS[arm].start == "ray" else []


def _trials(plan: Plan, end: End, ended: Sequence[Brought]) -> list[Trial]:
    """Return the records of all trials, ordered by number; a trial that left no record has failed."""
    records = {each.trial.number: each.trial for each in ended}
    return [records.get(number) or _lost(plan, number, end) for number in range(plan.trials_made)]


def _lost(plan: Plan, number: int, end: End) -> Trial:
    drawn = plan.configurations or []
    configuration = drawn[number] if number < len(drawn) else {}
    return Trial(
        number=number, config=configuration, state="failed", began=end.ended, ended=end.ended, epochs=None, points=[],
        metric=None, weights=None, exit_code=0, why=NO_RECORD,
    )  # fmt: skip


def _refuse_failure(end: End, printed: Printed, plan: Plan) -> None:
    if printed.count > MOST_PRINTED:
        raise SearchError(f"it printed more than {MOST_PRINTED // 2**20} MiB and was ended")
    if end.processes > foreign_command.MOST_PROCESSES:
        raise SearchError(f"it started more than {foreign_command.MOST_PROCESSES} processes, and was ended")
    if end.code:
        how = f"exit code {end.code}" if end.code > 0 else f"signal {-end.code}"
        raise SearchError(f"the search ended with {how} in the arm {plan.arm}; its last lines are above")


def _refuse_other_clocks(end: End, ended: Sequence[Brought]) -> None:
    """Raise SearchError if a node's clock puts a trial outside the run: all its times would be wrong by as much."""
    for each in ended:
        apart = max(end.began - each.trial.began, each.trial.ended - end.ended)
        if apart > CLOCKS_APART_SECONDS:
            raise SearchError(
                f"the clock of node {each.node} is wrong by {apart:.1f} s or more: by it trial {each.trial.number} was "
                "not within the run. Synchronise the nodes' clocks (NTP)"
            )


def _not_proved(plan: Plan) -> str:
    """Return the first note of a trial on work that no step of the proof had; "" if there is none."""
    texts = (plain.not_proved(plan.trial_folder(number)) for number in range(plan.trials_made))
    return next(filter(None, texts), "")


def _print_failures(trials: Sequence[Trial], ended: Sequence[Brought], plan: Plan) -> None:
    """Print why trials failed, including those that left no record. The last lines of logs are printed for trials in
    pods, whose logs are deleted with them, or for the first trial if all failed."""
    lines = {each.trial.number: each.lines for each in ended}
    failed = [trial for trial in trials if trial.state == "failed"]
    shown = failed if plan.in_pods else failed[:1] if len(failed) == len(trials) else []
    for trial in failed[:MOST_SHOWN]:
        log = lines.get(trial.number, []) if trial in shown else []
        print("\n".join([*log, f"trial {trial.number} failed: {trial.why}"]), flush=True)


def _refuse_all_failed(trials: Sequence[Trial], ended: Sequence[Brought], resolved: ResolvedScript, arm: str) -> None:
    if any(trial.state != "failed" for trial in trials):
        return
    first = trials[0]
    log = next((each.lines for each in ended if each.trial.number == first.number), [])
    module = missing_module("\n".join(log).encode())
    helps = f". {resolved.where_to_install(module)}" if module else ""
    raise SearchError(f"all {len(trials)} trials failed in the arm {arm}, the first because {first.why}{helps}")
