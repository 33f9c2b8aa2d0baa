"""The data that is compared: finished runs, sorted into the repeats that they form, with the settings. Pure.

`measure` sorts them, and refuses what was not trained alike; what is known of them as a whole is in the `Measurement`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

from training.contract.arms import ARMS, RAY, counted
from training.contract.codec import ResultError
from training.contract.recipe import Recipe
from training.contract.result import NOT_MEASURED, Steps, Summary, TrainingResult
from training.contract.workload import Target, Workload, named
from training.machine.command_line import again

NO_REPEAT = "no repeat has a run of every arm"


class CompareError(ValueError):
    """Runs that must not be compared, or a comparison that cannot be read."""


@dataclass(frozen=True)
class Run:
    """One finished run."""

    name: str
    """Name of the run, for example `ray-2`."""
    repeat: int
    """Number of the repeat, counted from 1."""
    result: TrainingResult
    """The result of the run. The long series in this result may be empty."""
    path: str = ""
    """Path of the run's `result.json`, relative to the project."""
    sha256: str = ""

    @classmethod
    def from_summary(cls, name: str, repeat: int, summary: dict[str, Any]) -> "Run":
        """Return the run that a `TrainingResult.summary()` describes. Raises CompareError if the summary is of another
        version, or not whole."""
        try:
            stored = Summary.from_dict(summary)
        except ResultError as error:
            raise CompareError(f"{name}: {error}; run `{again('up')}` to measure again") from None
        return cls(name, repeat, stored.result, stored.path, stored.sha256)

    @property
    def arm(self) -> str:
        """Return the arm's name."""
        return self.result.arm

    @property
    def started(self) -> float:
        """Return the start of the run, in seconds since the epoch (1970)."""
        return datetime.fromisoformat(self.result.started_at).timestamp()

    @property
    def ended(self) -> float:
        """Return the end of the run, in seconds since the epoch."""
        return self.started + self.result.seconds.wall


Repeat = dict[str, Run]
"""The runs of one repeat, by arm: every arm has a run."""


@dataclass(frozen=True, kw_only=True)
class Reserved:
    """CPUs, bytes and GPUs that a run or a pod reserves, whether they are used or not."""

    cpus: float = 0.0
    memory_bytes: float = 0.0
    gpus: int = 0


@dataclass(frozen=True, kw_only=True)
class Prices:
    """Prices of an hour of a CPU, of a GiB of memory and of a GPU. A price that is not set is None."""

    cpu_hour: float | None = None
    gib_hour: float | None = None
    gpu_hour: float | None = None


NO_PRICES = Prices()


class SpotTerms(NamedTuple):
    """What spot capacity costs, and how often it is taken away."""

    factor: float
    """Price of spot capacity ÷ the price on demand."""
    interruptions_per_hour: float
    """How many times in an hour one worker is interrupted."""


@dataclass(frozen=True, kw_only=True)
class Context:
    """Settings of the measurement. `recipe` is the recipe of the stack, for repeat 1. `oversubscription` says in words
    what is oversubscribed; it is None if nothing is."""

    recipe: Recipe
    target: str
    repeats: int
    """The number of repeats that the measurement is to have; with `repeats auto` the number so far."""
    is_auto: bool = False
    """Whether the setting is `repeats auto`, with which the results decide when the measurement ends."""
    key: str = ""
    """Hash that identifies what is measured. All runs of the measurement share this hash."""
    arms: tuple[str, ...]
    """The arms of the measurement, by name."""
    curve: tuple[int, ...] = ()
    """Other numbers of workers that Ray was measured with."""
    absent: Mapping[str, str] = field(default_factory=dict)
    """Why each of the other arms is not measured, by the arm's name."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """The settings of the stack that differ from their defaults, as texts. Secret settings are left out."""
    oversubscription: str | None = None
    run_timeout_minutes: float = math.inf
    """A run that takes longer than these minutes is ended."""
    worker_memory_bytes: float = 0.0
    ray_overhead: Reserved = field(default_factory=Reserved)
    """What a Ray run on a cluster reserves beside its workers: the head and the submitter."""
    idle_ray: Reserved = field(default_factory=Reserved)
    """What Ray's pods reserve while the other arms run."""
    workers_gone_seconds: float | None = None
    """Seconds after a Ray run within which the workers of Ray are gone; None if the workers stay."""
    prices: Prices = field(default_factory=Prices)
    spot: SpotTerms | None = None

    def at(self, workers: int) -> "Context":
        """Return this context with another number of workers. Reservations are computed from that number."""
        return replace(self, recipe=replace(self.recipe, workers=workers))


class Requested(NamedTuple):
    """What a run of an arm is asked to have: its processes, threads and CPUs."""

    title: str
    """Title of the arm, for example `one process on 2 CPUs`."""
    processes: int
    threads: int
    """Compute threads of each process."""
    cpus: float
    """CPUs of each process: those of its threads, and those of whatever reads its data."""


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """The repeats in which every arm has a run, and what is known of all these runs together."""

    context: Context
    recipe: Recipe
    """The recipe of the stack, for repeat 1."""
    workload: Workload
    repeats: Sequence[Repeat]
    left_out: Mapping[str, str]
    """Why each repeat that is not compared was left out, by `repeats.N`; if all were, also by arm."""
    of_curve: Sequence[Run]
    """The subject's runs with other numbers of workers, made in turns with the others. They belong to no arm."""
    absent: Mapping[str, str]
    """Why each arm that is not in this measurement was not measured, by the arm's name."""
    runs: Sequence[Run]
    """All runs that are compared."""
    by_arm: Mapping[str, Sequence[Run]]
    """The runs of every arm, also of variants, in the order of the repeats; of an arm not measured none."""
    of_subject: Sequence[Run]
    """The runs of the subject."""
    requests: Mapping[str, Requested]
    """What the runs of every arm were asked to have, also for arms that were not measured."""
    arms: Sequence[str]
    """The arms that were measured and are compared, in the order in which they are shown."""
    variants: Sequence[str]
    """Measured arms that are another form of the subject. They are compared with the subject alone: no answer, check or
    claim is about their runs. These runs are in `by_arm`, and in no other field of the measurement."""
    subject: str | None
    """The name of the arm that the question is about; None if that arm was not measured."""
    alternatives: Sequence[str]
    """The measured arms that a user could choose instead of the subject."""
    epochs_trained: Sequence[int]
    """The numbers of epochs after which the runs ended, ascending. There are several if some runs stopped early."""
    has_whole_epochs: bool
    """Whether the runs count their epochs. If they do not, each run as a whole counts as one epoch."""
    passed: str
    """What the compared runs have done: `4 epochs`, `16 trials`, or `the whole run`; "" without runs."""
    common_score: float | None
    """The lowest of the best scores of the runs: every run reached this score, and time to accuracy ends there. None if
    a run has no score."""
    target: Target | None
    """The metric that a script's training has to improve, and its target value; None if there is no such metric."""
    is_target_reached: bool
    """Whether every run reached the value of the setting metricTarget."""

    @property
    def unit(self) -> str:
        """Return the plural name of what runs process, such as `images`: of the settings, else of the workload."""
        return self.workload.unit_in(self.recipe.to_dict())

    def passes(self, number: int) -> str:
        """Return a number of epochs, of trials, or of whole runs, in words."""
        return _passes(number, self.workload if self.has_whole_epochs else None)


def measure(runs: Sequence[Run], context: Context) -> Measurement:
    """Sort finished runs into repeats and the points of the curve, and return the measurement.

    Repeats that lack a run of some arm are left out, with a reason. Raises CompareError, which names the field, if a
    run was not trained with the recipe of `context`, or if a repeat has two runs of an arm.
    """
    runs, context = _without_unmeasured(runs, context)
    of_arms = [run for run in runs if run.arm in context.arms]
    variants = [name for name in context.arms if _is_variant(name, context)]
    runs = [*_counted_alike([run for run in of_arms if run.arm not in variants]),
            *(run for run in of_arms if run.arm in variants)]  # fmt: skip
    of_curve = [run for run in runs if run.arm == RAY.name and run.result.recipe.get("workers") in context.curve]
    wanted = [run for run in runs if run not in of_curve]
    _refuse_different_recipes(wanted, context)
    for workers in context.curve:
        _refuse_different_recipes([run for run in of_curve if workers_of(run) == workers], context.at(workers))
    repeats, left_out = _complete_repeats(wanted, context)
    compared = [{arm: run for arm, run in repeat.items() if arm not in variants} for repeat in repeats]
    measurement = of_repeats(compared, context, left_out, of_curve)
    of_variants = {name: [repeat[name] for repeat in repeats] for name in variants if repeats}
    return replace(measurement, variants=list(of_variants), by_arm={**measurement.by_arm, **of_variants})


def _without_unmeasured(runs: Sequence[Run], context: Context) -> tuple[Sequence[Run], Context]:
    """Return the runs and the context without the arms whose last run says that it measured nothing. The reason that
    this run gives becomes the reason of the absent arm. If only an earlier run of an arm says so, that run alone is
    left out, and so its repeat is not complete."""
    last = {run.arm: run.result.reasons for run in sorted(runs, key=lambda run: run.repeat)}
    why = {arm: reasons[NOT_MEASURED] for arm, reasons in last.items() if NOT_MEASURED in reasons}
    arms = tuple(arm for arm in context.arms if arm not in why)
    measured = [run for run in runs if run.arm not in why and NOT_MEASURED not in run.result.reasons]
    return measured, replace(context, arms=arms, absent={**context.absent, **why})


def _is_variant(arm: str, context: Context) -> bool:
    return ARMS[arm].role(context.recipe.workload) == "variant"


def of_repeats(
    repeats: Sequence[Repeat], context: Context, left_out: Mapping[str, str] | None = None, of_curve: Sequence[Run] = ()
) -> Measurement:
    """Return the measurement of these repeats, which all have the same arms. All of these are compared."""
    runs = [run for repeat in repeats for run in repeat.values()]
    arms = [arm for name, arm in ARMS.items() if repeats and name in repeats[0]]
    workload = named(context.recipe.workload)
    target = workload.target(context.recipe)
    scores = [score for run in runs if (score := best_score(run.result)) is not None]
    reached = [seconds_to_target(run.result, target) is not None for run in runs]
    epochs_trained = sorted({run.result.epochs_completed for run in runs})
    has_whole_epochs = all(run.result.steps.whole_epochs for run in runs)
    by_arm = {name: [repeat[name] for repeat in repeats if name in repeat] for name in ARMS}
    roles = {arm.name: arm.role(workload.name, context.recipe.worker_gpus) for arm in arms}
    subject = next((name for name, role in roles.items() if role == "subject"), None)
    return Measurement(
        context=context,
        recipe=context.recipe,
        workload=workload,
        repeats=repeats,
        left_out=left_out or {},
        of_curve=of_curve,
        absent={name: _why_absent(name, context) for name in ARMS if _is_missed(name, context)},
        runs=runs,
        arms=[arm.name for arm in arms],
        variants=(),
        by_arm=by_arm,
        subject=subject,
        of_subject=by_arm[subject] if subject else [],
        alternatives=[name for name, role in roles.items() if role in ("reference", "alternative")],
        epochs_trained=epochs_trained,
        has_whole_epochs=has_whole_epochs,
        common_score=min(scores) if scores and len(scores) == len(runs) else None,
        target=target,
        is_target_reached=bool(reached) and all(reached),
        requests=requests_of(context.recipe),
        passed=_passes(epochs_trained[0], workload if has_whole_epochs else None) if runs else "",
    )


def requests_of(recipe: Recipe) -> dict[str, Requested]:
    """Return what the runs of every arm are asked for."""
    return {
        name: Requested(arm.words(recipe), arm.processes(recipe), arm.compute_threads(recipe), arm.process_cpus(recipe))
        for name, arm in ARMS.items()
    }


def _counted_alike(runs: Sequence[Run]) -> list[Run]:
    """Return the runs, each counted as one epoch if any of them lacks epoch boundaries."""
    if all(run.result.steps.whole_epochs for run in runs):
        return list(runs)
    return [replace(run, result=_as_one(run.result)) for run in runs]


def _as_one(result: TrainingResult) -> TrainingResult:
    steps = result.steps.per_epoch * result.epochs_completed
    as_one: Steps = replace(result.steps, per_epoch=steps, whole_epochs=False, gaps=0)
    return replace(result, epochs_completed=min(1, result.epochs_completed), steps=as_one)


def _refuse_different_recipes(runs: Sequence[Run], context: Context) -> None:
    """Raise CompareError if a run was not trained as the stack asks; the error names the first field that differs.

    `seed` must be the seed of the run's repeat. A setting that an arm ignores may be absent or different in its runs.
    """
    recipe = context.recipe.to_dict()
    free = {key for key, setting in context.recipe.settings().items() if not setting.metadata["decides"]}
    for run in runs:
        wanted = recipe | {"seed": context.recipe.seed + run.repeat - 1}
        run_recipe = run.result.recipe
        for key in sorted((set(wanted) | set(run_recipe)) - free - set(ARMS[run.arm].ignores)):
            if run_recipe.get(key) != wanted.get(key):
                raise CompareError(
                    f"recipes differ in `{key}`: {run.name} was trained with {run_recipe.get(key)!r} and the "
                    f"comparison needs {wanted.get(key)!r}; run `{again('up')}` to measure all arms with one recipe"
                )


def _complete_repeats(runs: Sequence[Run], context: Context) -> tuple[list[Repeat], dict[str, str]]:
    """Return the repeats that have a run of every arm, in order, and why the others are left out. Raise CompareError
    if a repeat has two runs of an arm."""
    repeats: dict[int, Repeat] = {number: {} for number in range(1, context.repeats + 1)}
    for run in sorted(runs, key=lambda run: (run.repeat, context.arms.index(run.arm))):
        present = repeats.setdefault(run.repeat, {}).setdefault(run.arm, run)
        if present is not run:
            raise CompareError(f"repeat {run.repeat} has two runs of {run.arm}: {present.name} and {run.name}")
    lacking = {number: [arm for arm in context.arms if arm not in repeats[number]] for number in sorted(repeats)}
    reasons = {f"repeats.{n}": f"left out: no run of {' and '.join(arms)}" for n, arms in lacking.items() if arms}
    if len(reasons) == len(lacking):
        reasons |= dict.fromkeys(context.arms, NO_REPEAT)
    return [repeats[number] for number, arms in lacking.items() if not arms], reasons


def workers_of(run: Run) -> int:
    """Return the number of workers in the run's recipe."""
    return int(run.result.recipe["workers"])


def best_score(result: TrainingResult) -> float | None:
    """Return the highest score of all epochs, of the score that training follows; None if no epoch has a score."""
    return max((point.score for point in result.curve), default=None)


def seconds_to_target(result: TrainingResult, target: Target | None) -> float | None:
    """Return seconds from a run's start until it first reported a value that reaches the target, or None."""
    points = result.reported.get(target.name, []) if target else []
    return next((point.seconds for point in points if target and target.is_reached(point.value)), None)


def _passes(number: int, counting: Workload | None) -> str:
    """Return a number of passes in the words of the workload, such as `4 epochs`. With None for the workload a pass is
    a whole run."""
    if counting:
        return counted(number, counting.passed)
    return "the whole run" if number <= 1 else f"{number} times as many steps"


def _is_missed(name: str, context: Context) -> bool:
    """Return whether an arm was expected and not measured. A variant is only measured if a setting asks for it, so it
    is never missed."""
    return name not in context.arms and not _is_variant(name, context)


def _why_absent(name: str, context: Context) -> str:
    return context.absent.get(name) or f"{ARMS[name].switch or name} is off"
