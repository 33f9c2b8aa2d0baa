"""Estimates how long a measurement will probably take, or says what to run first to know that.

It reads files of this machine and asks no cluster: earlier runs of the stack, else what `./rwi try` took.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cli.tryout.typed import KEYS, Typed
from compare.words import enumerated
from infra import budget, estimate, run_history
from infra.estimate import Estimate, Wanted
from infra.run_history import Basis
from infra.settings.key import LOCAL
from infra.settings.settings import Settings
from report.terminal import columns
from training.contract import timed
from training.contract.arms import counted
from training.contract.timed import Timed
from training.machine.command_line import rwi


class Expected:
    """Estimates a measurement with these settings from the durations of earlier runs."""

    def __init__(self, settings: Settings, overrides: Mapping[str, str] | None = None) -> None:
        self._settings, self._request, self._overrides = settings, estimate.wanted(settings), overrides or {}
        self._basis = run_history.known(settings, self._request)

    def seconds_of_arms(self) -> dict[str, float]:
        """Return the mean seconds of a run by arm, or by arm and workers in a workers' curve (`ray-w4`). Arms without
        known runs are left out."""
        own = self._request.recipe.workers
        runs = {side: estimate.runs_of(side, self._request, self._basis.runs) for side in self._request.sides}
        return {
            side.arm if side.workers == own else f"{side.arm}-w{side.workers}": sum(run.wall for run in of_side)
            / len(of_side)
            for side, of_side in runs.items()
            if of_side
        }

    def text(self) -> str:
        """Return the estimate of the whole measurement, runs that are kept included, or why there is none."""
        settings, request = self._settings, self._request
        arms = f"{_up_to(request, 1, 'repeat')} of {counted(len(request.sides), 'arm')}"
        first = f"stack {settings.stack}: {arms}, {_up_to(request, len(request.sides), 'run')}"
        estimated = estimate.estimate(request, self._basis.runs)
        if estimated is None:
            return f"{first}\n{unknown(settings, request, self._basis, self._overrides)}"
        lines = [first, f"by {self._basis.words}", "", shown(request, estimated)]
        if settings.target not in LOCAL:
            lines.append("not in it: what the cluster, its image and its pods take to come up")
        limit_seconds = budget.seconds_of(settings)
        if limit_seconds is not None and settings.run.repeats.is_auto:
            lines.append(
                f"beyond the first {request.repeats} a repeat begins only if it would probably end within budgetMinutes"
                f" {settings.run.budget_minutes}"
            )
        elif limit_seconds is not None and estimated.total.high <= limit_seconds:
            lines += budget.advice(settings, request, self._basis.runs, estimated)
        return "\n".join(lines)


def shown(request: Wanted, estimated: Estimate) -> str:
    """Return the table of the estimate, with the seconds of each phase of a run, and the total."""
    rows = [
        (
            each.side.name,
            _up_to(request),
            *map(str, (each.startup, each.rest, each.whole)),
            _known(each.known_runs),
        )
        for each in estimated.sides
    ]
    title = ("arm", "runs", "start-up", "after it", "a run", "from")
    lines = [f"  {line}" for line in columns(title, rows)]
    lines.append(f"  before the first run: {estimated.once}; between runs: {estimated.between:.1f} s")
    return "\n".join([*lines, f"in all {estimated.total}"])


def _up_to(request: Wanted, of_each: int = 1, noun: str = "") -> str:
    """Return `of_each` times the repeats, with the noun: a number, or a range if their number is not fixed."""
    least, most = request.repeats * of_each, request.most_repeats * of_each
    number = counted(most, noun) if noun else str(most)
    return number if least == most else f"{least} to {number}"


def _known(runs: int) -> str:
    return counted(runs, "run") + ("" if runs > 1 else f", ±{100 * estimate.OF_ONE_RUN:.0f} % assumed")


def unknown(settings: Settings, request: Wanted, basis: Basis, overrides: Mapping[str, str]) -> str:
    """Return why there is no estimate, and the command that measures what is lacking. The command contains the values
    of this call, because without them it would measure something else."""
    lacking = estimate.missing(request, basis.runs)
    what = "nothing" if len(lacking) == len(request.sides) else "not everything"
    first = f"no estimate: {what} was run yet with these settings; {enumerated(lacking)} would be new"
    other = _otherwise(settings, [each for each in basis.runs if each.arm in lacking])
    again = any(key not in KEYS for key in other)  # `./rwi try` would be as it was
    show = _one_repeat if again else _to_run
    return "\n".join([first, *_to_measure(settings, other), show(settings, overrides)])


def _otherwise(settings: Settings, known: Sequence[Timed]) -> dict[str, object]:
    """Return the values, by key, in which the most similar known run differs from these; empty if none is known."""
    differing = [(timed.differences(each, settings.recipe), each) for each in known]
    keys, nearest = min(differing, key=lambda keys_and_run: len(keys_and_run[0]), default=([], None))
    return {key: nearest.recipe[key] for key in keys} if nearest else {}


def _to_measure(settings: Settings, other: Mapping[str, object]) -> list[str]:
    if not other:
        return []
    own = settings.recipe.to_dict()
    had = [f"{key} {value}, here it is {own.get(key)}" for key, value in other.items()]
    return [f"what was run had {enumerated(had)}"]


def _one_repeat(settings: Settings, overrides: Mapping[str, str]) -> str:
    line = rwi("up", settings.stack, {**overrides, "repeats": "1"})
    return f"one repeat shows how long it takes, and its runs are kept:\n  {line}"


def _to_run(settings: Settings, overrides: Mapping[str, str]) -> str:
    recipe = settings.recipe.to_dict()
    if "measureSteps" not in recipe:  # nothing can be ended after some steps
        return _one_repeat(settings, overrides)
    line = Typed.of_keys(settings.explicit).line("try")
    bounded = "" if "{epochs}" in recipe["scriptArguments"] else (
        "\nIt ends every arm after about 20 steps. How many steps a whole training makes is known if it makes fewer "
        "(--steps 1000), or if you set measureSteps"
    )  # fmt: skip
    return f"about 20 steps of every arm show it:\n  {line}{bounded}"
