"""The answer, by one rule over whole clocks: is Ray worth it, against everything that one would do instead? Pure.

R(E) is an alternative's whole clock at E epochs divided by Ray's, within a repeat, with the 95 % t interval of its
logarithms. *Worth it*: R(epochs) lies above 1 for each alternative. *Worth it from E epochs on*: so does R of an epoch
alone, and from E on every R stays above 1. *Not worth it here*: R(epochs) lies below 1.05 for one of them. Else it is
not decided. The control is no alternative: Ray contains it, and could never win.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from compare.clock import break_even, ratios_at, ratios_per_epoch, seconds_to_target
from compare.intervals import MARGIN
from compare.measurement import Measurement
from compare.ratios import clock_pairs, estimate
from compare.schema import Answer, BreakEven, Claim, Estimate
from training.contract.arms import ARMS


@dataclass(frozen=True)
class Contest:
    """Ray's end-to-end time compared with one alternative's."""

    against: str
    """The alternative, in words."""
    now: Estimate | None
    """R at the epochs that were trained."""
    per_epoch: Estimate | None
    """R of an epoch alone; None where no step was timed."""
    meets: BreakEven | None

    @property
    def is_won(self) -> bool:
        """Whether Ray takes less from start to result, with 95 % confidence."""
        return _lower(self.now) > 1

    @property
    def is_lost(self) -> bool:
        """Whether Ray gains less than what would matter, with 95 % confidence."""
        return self.now is not None and self.now.upper is not None and self.now.upper < MARGIN

    @property
    def epochs_to_win(self) -> int | None:
        """The epochs from which on Ray takes less, with 95 % confidence; None if there are none, or if not known."""
        if _lower(self.per_epoch) <= 1 or self.meets is None:
            return None
        return self.meets.surely

    @property
    def longer_cannot_win(self) -> bool:
        """Whether an epoch alone gains less than what would matter, too, with 95 % confidence."""
        return self.per_epoch is not None and self.per_epoch.upper is not None and self.per_epoch.upper < MARGIN


def compare_clocks(measurement: Measurement, claim: Claim | None) -> dict[str, Contest]:
    """Ray against each alternative that was measured, by the alternative's name; none where Ray was not.

    Where only the result is known to be the same, by the time until it was reached; where less is known, by the whole
    clocks as they are, which decide nothing.
    """
    if measurement.subject is None:
        return {}
    by_alternative = {}
    for name in measurement.alternatives:
        against, per_epoch, meets = ARMS[name].words(measurement.recipe), None, None
        if claim == "same result":
            now: Estimate | None = estimate(_to_target(measurement, name, measurement.subject))
        else:
            pairs = clock_pairs(measurement, name, measurement.subject)
            ratios = ratios_at(pairs, measurement.epochs_trained[0])
            now = estimate(ratios) if ratios else None
            if claim == "same work":
                of_epoch, meets = ratios_per_epoch(pairs), break_even(pairs)
                per_epoch = estimate(of_epoch) if of_epoch else None
            elif now:
                now = replace(now, decision="", repeats_to_decide=None)
        by_alternative[name] = Contest(against=against, now=now, per_epoch=per_epoch, meets=meets)
    return by_alternative


def _to_target(measurement: Measurement, above: str, below: str) -> list[float]:
    """Ratios of the seconds until the target, of runs that all reached it."""
    pairs = [
        [seconds_to_target(repeat[arm].result, measurement.target) or 0.0 for arm in (above, below)]
        for repeat in measurement.repeats
    ]
    return [first / second for first, second in pairs]


DECIDES: tuple[Claim, ...] = ("same work", "same result")
"""Claims under which anything is decided."""


def answer(contests: Sequence[Contest], claim: Claim | None) -> Answer:
    """Return the answer for runs that may be compared. *Not decided* if a clock was not measured, or if the arms are
    not known to have done the same."""
    if not contests or claim not in DECIDES or any(each.now is None for each in contests):
        return "Not decided"
    if all(each.is_won for each in contests):
        return "Worth it"
    if epochs_to_win(contests) is not None:
        return "Worth it from"
    return "Not worth it here" if any(each.is_lost for each in contests) else "Not decided"


def epochs_to_win(contests: Sequence[Contest]) -> int | None:
    """Return the epochs from which on Ray takes less than each alternative; None if never, or if not known."""
    epochs = [each.epochs_to_win for each in contests]
    known = [number for number in epochs if number is not None]
    return max(known) if known and len(known) == len(epochs) else None


def repeats_to_decide(contests: Sequence[Contest]) -> int | None:
    """Return the repeats that would probably decide what is open; None if more than 100 were needed."""
    numbers = [each.now.repeats_to_decide for each in contests if each.now and not (each.is_won or each.is_lost)]
    known = [number for number in numbers if number is not None]
    return max(known) if known and len(known) == len(numbers) else None


def _lower(value: Estimate | None) -> float:
    return value.lower if value and value.lower is not None else 0.0
