"""How many repeats a measurement has: a number that was chosen before, or as many as it takes."""

from dataclasses import dataclass

AUTO = "auto"
"""Value of the setting `repeats` for as many repeats as a decision needs."""
FIRST_REPEATS = 4
"""Repeats with which `auto` begins: this many decide between arms that lie clearly apart."""
MOST_REPEATS = 100
"""Most repeats that can be chosen as a number."""
MOST_AUTO_REPEATS = 12
"""Most repeats of `auto`. The confidence of its intervals is computed for this number (`compare.intervals`), so the
number is no setting: chosen after a look at results it would make the intervals worthless."""
GOES_ON = "goes on"
"""State of a measurement that is not decided yet: its next update adds repeats."""
NOT_BESIDE_AUTO = ("keepBaseline", "workersCurve")
"""Settings with which `auto` is refused."""
AT_A_TIME_VARIABLE = "RAY_WORTH_IT_REPEATS_AT_A_TIME"
"""Environment variable with the number of repeats that `auto` adds in one update. `rwi up` adds them one by one, looks
at the result after each, and goes on by itself."""


@dataclass(frozen=True)
class Repeats:
    """The least and the largest number of repeats. They differ only if there are as many as a decision needs."""

    least: int
    most: int
    is_auto: bool = False


AS_MANY_AS_IT_TAKES = Repeats(FIRST_REPEATS, MOST_AUTO_REPEATS, is_auto=True)
