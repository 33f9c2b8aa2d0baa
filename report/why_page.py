"""What `rwi why` found as one HTML file, by the rules of `report.html`: loads nothing, links nowhere.

It decides nothing: what is certain, and what may be said of it, is in `compare.why` and `report.why`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from compare.why import INPUT_READY, NO_EXCHANGE, THREADS, ArmWhy, Cause, Effect, Why
from report import plots, step_parts
from report import why as words
from report.html import templates
from report.pictures import Panel, drawn
from report.plots import Gain
from report.step_parts import milliseconds
from training.contract.arms import counted

LABELS = {
    INPUT_READY: "input ready",
    NO_EXCHANGE: "no exchange of gradients",
    "between": "nothing between steps",
    "save": "no torch.save",
    "report": "no ray.train.report",
    "collective": "no collectives beside DDP",
}
"""Names of the changes, in the picture and its table."""
AT_MOST, ABOUT = "At most this is gained", "; with other threads about this"


@dataclass(frozen=True)
class Row:
    """A row of an arm's table. Times are in milliseconds; a field without a value is ""."""

    what: str
    step: str = ""
    step_range: str = ""
    gain: str = ""
    gain_range: str = ""
    says: str = ""
    detail: str = ""


@dataclass(frozen=True)
class Section:
    """What the page says of one arm."""

    arm: str
    where: str
    of_rank: Sequence[str]
    causes: Sequence[str]
    nothing: str
    """Text that stands in place of the causes, if no cause is certain."""
    not_tried: Sequence[str]
    gains: Panel | None
    rows: Sequence[Row]


def render(why: Why) -> str:
    """Return the page of what `rwi why` found, as HTML."""
    parts = step_parts.large({arm: of_arm.parts for arm, of_arm in why.arms.items() if of_arm.parts})
    bars = drawn("Where a step's time goes", lambda: plots.step_parts(parts)) if parts else None
    made_at = datetime.fromisoformat(why.made_at)
    return (
        templates()
        .get_template("why.html.j2")
        .render(
            why=why,
            warning=words.warning(why.busy) if why.busy else "",
            workers=counted(why.workers, "worker"),
            made_at=f"{made_at.day} {made_at:%B %Y, %H:%M} UTC",
            sections=[_section(arm, of_arm) for arm, of_arm in why.arms.items()],
            bars=bars,
            distribution=words.distributions(why.distribution),
            lacks_values="…" in why.command,
        )
    )


def _section(arm: str, why: ArmWhy) -> Section:
    shown = [(_of_effect(name, effect, why), _row(name, effect, why)) for name, effect in why.effects.items()]
    shown += [_of_clock(cause) for cause in why.causes if cause.name not in why.effects]
    shown.sort(key=lambda each: -each[0].seconds)
    gains = [gain for gain, _ in shown]
    note = f"{AT_MOST}{ABOUT * any(name.startswith(THREADS) for name in why.effects)}."
    as_is = Row("as it is", milliseconds(why.step_seconds), says=counted(why.rounds, "round"))
    return Section(
        arm=arm,
        where=words.where(why),
        of_rank=words.of_rank(why),
        causes=words.causes(why),
        nothing="" if why.causes else words.nothing(why),
        not_tried=words.not_tried(why),
        gains=drawn(f"What each change would gain of a step of {arm}", lambda: plots.gains(arm, gains), note)
        if gains
        else None,
        rows=[as_is, *(row for _, row in shown)],
    )


def _of_effect(name: str, effect: Effect, why: ArmWhy) -> Gain:
    step, is_certain = why.step_seconds, effect.decision in ("faster", "slower")
    ends = step - effect.upper, step - effect.lower
    return Gain(_label(name), step - effect.seconds, *ends, "certain" if is_certain else "not certain")


def _row(name: str, effect: Effect, why: ArmWhy) -> Row:
    gain = _of_effect(name, effect, why)
    return Row(
        what=gain.what,
        step=milliseconds(effect.seconds),
        step_range=_range(effect.lower, effect.upper),
        gain=_signed(gain.seconds),
        gain_range=_range(gain.lower, gain.upper),
        says=effect.decision,
        detail="" if gain.how == "certain" else words.at_most(effect),
    )


def _of_clock(cause: Cause) -> tuple[Gain, Row]:
    gain = Gain(_label(cause.name), cause.seconds, cause.lower, cause.upper, "by the clock")
    times = {"gain": milliseconds(cause.seconds), "gain_range": _range(cause.lower, cause.upper)}
    return gain, Row(what=gain.what, says=gain.how, detail="not tried", **times)


def _label(name: str) -> str:
    if name.startswith(THREADS):
        return f"{counted(int(name.removeprefix(THREADS)), 'compute thread')} a rank"
    return LABELS[name]


def _range(lower: float, upper: float) -> str:
    return f"{_signed(lower)} to {_signed(upper)}"


def _signed(seconds: float) -> str:
    return milliseconds(seconds).replace("-", "\N{MINUS SIGN}")
