"""What a try says of a script that nothing distributes: the least that Ray could take, by single runs. They have no
interval, so `./rwi up` decides. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from cli.tryout import show
from cli.tryout.run_arm import Outcome
from compare.answer import MOST_EPOCHS
from compare.bound import STARTS_DIFFER, least_of, shared_of
from compare.intervals import MARGIN
from compare.run_numbers import Clock
from compare.stopping import first_after
from compare.words import enumerated, shown_seconds
from training.contract.arms import ARMS, counted
from training.machine.command_line import rwi
from training.workloads.script.commands import RAY_START
from training.workloads.script.facts import ArmFacts
from training.workloads.script.ray_start import PORTS
from training.workloads.script.recipe import ScriptRecipe


@dataclass(frozen=True, kw_only=True)
class Tried:
    """The times of the arms that were tried, and a lower bound of Ray's time."""

    alternatives: Mapping[str, Clock]
    """Times of the arms without Ray, by a description of the arm."""
    least: Clock
    start: float
    """Seconds of Ray's start."""
    trainer: str
    passed: str
    """The unit in which a time grows: `epoch`, `round`, `step`, or "" if only the time of whole runs is known."""
    passes: tuple[int, ...]
    """The numbers of epochs or steps for which times are shown."""


def tried(
    outcomes: Mapping[str, Outcome], seen: Mapping[str, ArmFacts], workers: int, named_epochs: int | None
) -> Tried | None:
    """Return the times of arms that ended well; None if an arm is missing that the lower bound needs."""
    start = outcomes.get(RAY_START)
    if start is None or start.ray_start is None or "baseline" not in outcomes:
        return None
    alone = {name: outcome for name, outcome in outcomes.items() if name != RAY_START}
    of_alone = [seen[name] for name in alone if name in seen]
    are_timed = len(of_alone) == len(alone) and all(each.step_seconds for each in of_alone)
    passed = "" if not are_timed else "epoch" if all(each.steps_per_epoch for each in of_alone) else "step"
    clocks = {name: _clock(outcome, seen.get(name), passed) for name, outcome in alone.items()}
    seconds, imports = start.seconds - start.ray_start.import_seconds, start.ray_start.import_seconds
    # What lies before the first step and after the last was timed once, and reads much from the disk for the first time
    baseline = clocks["baseline"] if not passed else Clock(0, imports, clocks["baseline"].per_epoch)
    least = least_of(baseline, seconds, shared_of(baseline.whole, imports), workers)
    words = {name: ARMS[name].words(ScriptRecipe(workers=workers)) for name in clocks}
    numbers = {"epoch": show.passes(seen, named_epochs), "step": {}, "": {1: ""}}[passed]
    return Tried(
        alternatives={words[name]: clock for name, clock in clocks.items()},
        least=least.clock,
        start=least.start,
        trainer=start.ray_start.trainer,
        passed=next(iter(numbers.values()), passed).removesuffix("s"),
        passes=tuple(numbers),
    )


def _clock(outcome: Outcome, facts: ArmFacts | None, passed: str) -> Clock:
    if facts is None or not passed:
        return Clock(1, outcome.seconds, None)
    step = facts.step_seconds or 0.0
    steps = facts.steps_per_epoch or 1 if passed == "epoch" else 1
    return Clock(0, max(0.0, outcome.seconds - facts.steps * step), steps * step)


def open_from(bound: Tried) -> int | None:
    """Return the fewest epochs or steps at which Ray could be worth it over all alternatives; None if none are."""

    def is_open(passes: int) -> bool:
        ray = bound.least.at(passes)
        others = [clock.at(passes) for clock in bound.alternatives.values()]
        return ray is not None and all(other is not None and other >= MARGIN * ray for other in others)

    return first_after(0, is_open) if bound.passed else None


def in_words(bound: Tried, workers: int) -> str:
    """Return a text with the time of each alternative, the least time of Ray, and from how many epochs or steps on Ray
    could be worth it."""
    start, number_of = shown_seconds(bound.start), counted(workers, "worker")
    lines = [
        f"nothing distributes it yet. Whatever is written to do that, with {number_of} Ray takes at least {start}, its"
        f" start with workers that do nothing less {100 * STARTS_DIFFER:.0f} % by which starts differ, and 1/{workers}"
        " of what one process takes after its imports; by these single runs:"
    ]
    for number in bound.passes:
        of = f"with {counted(number, bound.passed)} " if bound.passed else ""
        times = [f"{name} takes {shown_seconds(clock.at(number))}" for name, clock in bound.alternatives.items()]
        lines.append(f"  {of}{enumerated([*times, f'Ray at least {shown_seconds(bound.least.at(number))}'])}")
    if not bound.passed:
        lines.append("  no step was seen, so these are whole runs; what longer ones take is not known")
    if bound.passed:
        epochs = open_from(bound)
        never = f"  up to {MOST_EPOCHS:,} {bound.passed}s it is not worth it"
        lines.append(f"  it could be worth it from {counted(epochs, bound.passed)} on" if epochs else never)
    lines += [f"to write where it could be: {PORTS[bound.trainer]}", ""]
    return "\n".join([*lines, f"No answer yet: each arm ran once. `{rwi('up')}` measures whole trainings, and answers"])
