"""Spot capacity as rows of texts, the same in the table and on the page, and the points of its picture. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compare.in_short import is_disturbed
from compare.schema import Comparison, SpotArm
from compare.spot import CHEAPER, DEARER, HOPELESS, NO_START, best_seconds
from compare.words import enumerated
from report.curve import ratio
from report.figures import MISSING
from report.ratios import UNCHANGED, UNDECIDED
from training.contract.arms import RAYSTART, counted
from training.machine.command_line import rwi

HEADINGS = ("on spot", "checkpoint", "expected s", "on demand s", "cost ratio", "pays below /h")
VERDICTS = {CHEAPER: "worth it", DEARER: "not worth it", UNCHANGED: "within 5 % of the cost on demand"}
"""Words for the decision on a cost ratio. Other decisions have the words *not decided*."""
POINTS = 80
ROOM = 1.15
"""Factor by which the axis of rates is longer than the last rate that is marked."""


def rows(comparison: Comparison) -> list[list[str]]:
    """Return a row for each arm, with the columns of `HEADINGS`; empty if nothing is known of spot."""
    arms = comparison.spot.arms if comparison.spot else {}
    return [_row(name, arms[name], comparison) for name in comparison.shown_arms() if name in arms]


def _row(name: str, arm: SpotArm, comparison: Comparison) -> list[str]:
    interval, passed = arm.checkpoint_epochs, comparison.passed
    return [
        name,
        f"every {counted(interval, passed) if interval > 1 else passed}" if interval else "none",
        MISSING if arm.seconds is None else f"{arm.seconds:,.1f}",
        f"{arm.on_demand_seconds:,.1f}",
        ratio(arm.cost_ratio),
        f"{arm.stops_paying_at:.3g}",
    ]


def notes(comparison: Comparison) -> list[str]:
    """Return for which arms spot is worth it, and what is known of restarts, or why nothing asked for is known."""
    spot = comparison.spot
    if spot is None:
        return [f"Spot: {comparison.reasons['spot']}."] if "priceSpotFactor" in comparison.settings else []
    named: dict[str, list[str]] = {}
    for name, arm in spot.arms.items():
        named.setdefault(UNDECIDED if is_disturbed(comparison) else _verdict(arm), []).append(name)
    verdicts = [f"{verdict} for {enumerated(arms)}" for verdict, arms in named.items()]
    rate = f"{spot.interruptions_per_hour:g} interruptions per hour of one worker"
    why = ", because others may have slowed the runs" if is_disturbed(comparison) else ""
    texts = [f"Spot at {spot.factor:g} of the price and {rate} is {', '.join(verdicts)}{why}: expected, not measured."]
    if unknown := [name for name in comparison.shown_arms() if name not in spot.arms and name != RAYSTART.name]:
        texts.append(f"Of {enumerated(unknown)} {NO_START}.")
    texts.append(
        "A restart counts as long as a start, without the time to read a checkpoint or to wait for another machine;"
        f" `{rwi('bench recovery')}` measures a resume of Ray."
    )
    if hopeless := [name for name, arm in spot.arms.items() if arm.seconds is None]:
        texts.append(f"So often interrupted, {enumerated(hopeless)} would take over {HOPELESS:,.0f} times as long.")
    if scratch := [name for name, arm in spot.arms.items() if arm.course.checkpoint_seconds is None]:
        texts.append(
            f"Without checkpoints an interrupted run starts from scratch: {_of_checkpoints(scratch, comparison)}."
        )
    return texts


def _verdict(arm: SpotArm) -> str:
    """Return the words for the decision on an arm. An arm that would hardly ever end costs more, because no price of
    spot is that low."""
    if arm.cost_ratio is None:
        return VERDICTS[DEARER] if arm.seconds is None else UNDECIDED
    return VERDICTS.get(arm.cost_ratio.decision, UNDECIDED)


def _of_checkpoints(arms: Sequence[str], comparison: Comparison) -> str:
    """Return how the time of checkpoints of these arms could be measured, or why it cannot be."""
    if "checkpointEpochs" not in comparison.recipe:
        return "what a script saves, and whether it resumes, is not known"
    if comparison.settings.get("target") == "ray":
        return "on target `ray` no run has storage"
    return f"set `storage` and `checkpointEpochs 1` to measure what a checkpoint of {enumerated(arms)} takes"


@dataclass(frozen=True)
class Curves:
    """Cost on spot ÷ cost on demand, as a function of the interruptions per hour of one worker."""

    rates: list[float]
    ratios: Mapping[str, list[float]]
    """The cost ratio at each of `rates`, by arm."""
    stops: Mapping[str, float]
    """The rate of interruptions from which on spot costs more than on demand, by arm."""
    own: float
    """The rate of interruptions that the stack's settings have."""


def curves(comparison: Comparison) -> Curves | None:
    """Return the lines of the picture, from no interruptions to a rate beyond all that is marked; None if nothing is
    known."""
    spot = comparison.spot
    if spot is None:
        return None
    stops = {name: arm.stops_paying_at for name, arm in spot.arms.items()}
    last = ROOM * max(*stops.values(), spot.interruptions_per_hour) or 1.0
    rates = [last * point / POINTS for point in range(POINTS + 1)]
    ratios = {
        name: [spot.factor * best_seconds(arm.course, arm.machines * rate) / arm.on_demand_seconds for rate in rates]
        for name, arm in spot.arms.items()
    }
    return Curves(rates, ratios, stops, spot.interruptions_per_hour)
