"""Builders of searches for tests: runs of any arm with believable trials, which nobody made."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from compare.comparison import compare
from compare.measurement import Run
from compare.schema import Comparison
from tests.unit.results import COMPARED, as_run, make_context, make_result, quiet_machine
from training.contract.arms import ARMS
from training.contract.recipe import canonical
from training.contract.result import Amount, Reported, SearchOutcome, Seconds, Steps, StepSeconds, TrainingResult
from training.workloads.cnn.recipe import CnnRecipe
from training.workloads.search.detail import SearchDetail, Trial
from training.workloads.search.recipe import SearchRecipe

ALL = COMPARED
RECIPE = SearchRecipe(
    script="mine/train.py",
    script_arguments="--lr {lr} --width {width} --epochs {epochs}",
    search_space='{"lr":{"log":[0.001,0.1]},"width":{"choice":[16,32,64]}}',
    search_trials=8,
    metric="accuracy",
    epochs=9,
    workers=2,
)
STRETCH = {"baseline": 1.0, "wide": 0.8, "native": 1.1, "ray": 1.1}
"""Length of a trial, by that of the baseline's."""
BETWEEN = {"baseline": 0.0, "wide": 0.0, "native": 0.1, "ray": 1.0}
"""Seconds between two trials of a slot."""
STARTUP = {"baseline": 0.5, "wide": 0.5, "native": 1.5, "ray": 12.0}
SPREAD = {"baseline": (0, 1, -1, 0), "wide": (1, 0, 0, -1), "native": (-1, 0, 1, 0), "ray": (0, -1, 1, 1)}
"""Percent by which all times of a repeat are longer."""
END = 0.5
"""Seconds after the last trial."""
BEGAN = 1_740_830_400.0
METRICS = (0.81, 0.93, 0.86, 0.79, 0.95, 0.9, 0.84, 0.88)
"""Last values of the trials, in their order; of more trials they begin again, a little worse."""


def make_trials(
    arm: str,
    repeat: int = 1,
    recipe: SearchRecipe = RECIPE,
    *,
    trial_seconds: float = 4.0,
    stretch: float | None = None,
    failed: Sequence[int] = (),
    stopped: Mapping[int, int] | None = None,
) -> list[Trial]:
    """The trials of a run, one after the other in each slot; of those stopped by number the epochs that they made."""
    longer = 1 + SPREAD[arm][(repeat - 1) % 4] / 100
    length, between = trial_seconds * (stretch or STRETCH[arm]) * longer, BETWEEN[arm] * longer
    free, trials = [BEGAN + STARTUP[arm] * longer] * ARMS[arm].processes(recipe), []
    for number in range(recipe.search_trials):
        slot = free.index(min(free))
        epochs = (stopped or {}).get(number, recipe.epochs)
        began, ended = free[slot], free[slot] + length * epochs / recipe.epochs
        free[slot] = ended + between
        state = "failed" if number in failed else "finished" if epochs == recipe.epochs else "stopped"
        trials.append(_trial(number, state, began, ended, epochs))
    return trials


def _trial(number: int, state: str, began: float, ended: float, epochs: int) -> Trial:
    last = METRICS[number % len(METRICS)] - 0.001 * (number // len(METRICS))
    points = [[(ended - began) * each / epochs, last * (1 - 0.5**each)] for each in range(1, epochs + 1)]
    is_failed = state == "failed"
    return Trial(
        number=number,
        config={"lr": 0.001 * (number + 1), "width": (16, 32, 64)[number % 3]},
        state=state,
        began=began,
        ended=ended,
        epochs=0 if is_failed else epochs,
        points=[] if is_failed else points,
        metric=None if is_failed else points[-1][1],
        weights=None if is_failed else f"{number:064x}",
        exit_code=1 if is_failed else 0,
        why="it raised ValueError" if is_failed else "",
    )


def make_search(
    arm: str, repeat: int = 1, recipe: SearchRecipe = RECIPE, trials: Sequence[Trial] = (), **changes: Any
) -> TrainingResult:
    """One whole, valid result of a search; what is not said of `make_trials` replaces a field of TrainingResult."""
    own = {key: changes.pop(key) for key in ("trial_seconds", "stretch", "failed", "stopped") if key in changes}
    trials = trials or make_trials(arm, repeat, recipe, **own)
    slots = ARMS[arm].processes(recipe)
    began, ended = min(each.began for each in trials), max(each.ended for each in trials)
    train, startup = ended - began, began - BEGAN
    result = make_result(arm, repeat, CnnRecipe(workers=recipe.workers, worker_cpus=recipe.worker_cpus))
    workers = [replace(worker, amount=len(trials) // slots) for worker in result.workers]
    ends = sorted(each.ended for each in trials)
    gaps = [after - before for before, after in zip([began, *ends], ends, strict=False)]
    finished = sorted((each for each in trials if each.state == "finished"), key=lambda each: each.ended)
    made = replace(
        result,
        workload="search",
        recipe=ARMS[arm].settings(recipe) | {"seed": recipe.seed + repeat - 1},
        world_size=slots,
        epochs_completed=len(trials),
        seconds=Seconds(
            train=train, startup=startup, phases={}, warmup=0.0, validation=0.0, evaluation=None, report=None,
            wall=startup + train + END,
        ),
        steps=Steps(
            timed=len(trials), per_epoch=1, exchanged_bytes=None, trace=gaps,
            seconds=StepSeconds(mean=train / len(trials), p50=gaps[0], p95=max(gaps), max=max(gaps)),
        ),
        amount=Amount(unit="trials", timed=len(trials), per_second=len(trials) / train, per_step=1),
        scores={recipe.metric: max(each.metric or 0.0 for each in finished)} if finished else {},
        reported={recipe.metric: _best_so_far(finished)} if finished else {},
        curve=[], schedule=[], work={}, checks={}, workers=workers,
        did=did(trials),
        search=outcome(trials, slots),
        detail=SearchDetail(kind="keras", command="python train.py", folder="mine", slots=slots, trials=list(trials)),
        machine=quiet_machine(startup + train),
        reasons={"seconds.evaluation": "part of a trial", "search.bestConfig": "no trial finished"},
    )  # fmt: skip
    return replace(made, **changes)


def did(trials: Sequence[Trial]) -> dict[str, str]:
    """The work of a run, a word a trial."""

    def words(values: Sequence[object]) -> str:
        pairs = zip(trials, values, strict=True)
        return " ".join("failed" if trial.state == "failed" else str(value) for trial, value in pairs)

    return {
        "configurations": " ".join(canonical(trial.config) for trial in trials),
        "epochs": words([trial.epochs for trial in trials]),
        "weights": words([(trial.weights or "")[-12:] for trial in trials]),
        "metric": words([trial.metric for trial in trials]),
    }


def outcome(trials: Sequence[Trial], slots: int) -> SearchOutcome:
    """The trials summed up, as a run does."""
    states = [trial.state for trial in trials]
    seconds = sum(trial.seconds for trial in trials)
    began, ended = min(trial.began for trial in trials), max(trial.ended for trial in trials)
    last = sorted(trial.ended for trial in trials)[-slots:]
    idle = sum(ended - each for each in last)
    finished = [trial for trial in trials if trial.state == "finished"]
    best = max(finished, key=lambda trial: trial.metric or 0.0, default=None)
    return SearchOutcome(
        finished=states.count("finished"),
        stopped=states.count("stopped"),
        failed=states.count("failed"),
        epochs_trained=sum(trial.epochs or 0 for trial in trials),
        trial_seconds=seconds / len(trials),
        between_trials_seconds=max(0.0, (slots * (ended - began) - seconds - idle) / len(trials)),
        best_config=canonical(best.config) if best else None,
        best_metric=best.metric if best else None,
    )


def _best_so_far(finished: Sequence[Trial]) -> list[Reported]:
    points: list[Reported] = []
    for trial in finished:
        value = max(trial.metric or 0.0, points[-1].value if points else 0.0)
        points.append(Reported(seconds=trial.ended - BEGAN, value=value))
    return points


def make_searches(
    repeats: int = 4,
    arms: Sequence[str] = ALL,
    recipe: SearchRecipe = RECIPE,
    of_arms: Mapping[str, dict[str, Any]] | None = None,
    **changes: Any,
) -> list[Run]:
    """Every run of a measurement, interleaved; `of_arms`: changes of one arm's runs, by its name."""
    return [
        as_run(make_search(arm, repeat, recipe, **{**changes, **(of_arms or {}).get(arm, {})}), repeat)
        for repeat in range(1, repeats + 1)
        for arm in arms
    ]


def compared(runs: Sequence[Run], recipe: SearchRecipe = RECIPE, **context: Any) -> Comparison:
    """The comparison of such runs, with all arms unless it is said."""
    repeats = max(run.repeat for run in runs)
    own: dict[str, Any] = {"arms": ALL, "repeats": repeats} | context
    return compare(runs, replace(make_context(arms=own["arms"]), recipe=recipe, **own))
