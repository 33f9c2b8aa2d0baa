"""When a measurement with `repeats auto` ends. Pure: what is decided in, whether another repeat could add to it out."""

from collections.abc import Sequence

from compare.answer import DECIDES, Contest
from compare.intervals import WHENEVER
from compare.schema import Answer, Claim, Ending
from compare.value import Missing


def ending(answer: Answer, contests: Sequence[Contest], claim: Claim | None, repeats: int) -> Ending:
    """Return why a measurement ends after so many whole repeats, at least `FIRST_REPEATS`; "goes on" if it does not.

    An answer may come while more can still be learned of it: after *Not worth it here* it goes on until it is known
    whether longer training changes that, if an epoch alone can be compared.
    """
    if claim not in DECIDES or not contests or any(isinstance(each.now, Missing) for each in contests):
        return "nothing to decide"
    if answer in ("Worth it", "Worth it from"):
        return "decided"
    if any(each.is_lost and (each.longer_cannot_win or isinstance(each.per_epoch, Missing)) for each in contests):
        return "decided"
    return "most repeats" if repeats >= WHENEVER.most_repeats else "goes on"
