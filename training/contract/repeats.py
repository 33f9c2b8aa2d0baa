"""How many repeats a measurement has: a number that was chosen before, or as many as it takes."""

from dataclasses import dataclass

AUTO = "auto"
"""As many as it takes."""
FIRST_REPEATS = 4
"""To begin with: so many decide what lies clearly apart."""
MOST_REPEATS = 100
"""That can be chosen."""
MOST_AUTO_REPEATS = 12
"""Of `auto`. Its confidence is made for it (`compare.intervals`), so it is no setting: chosen afterwards it would be
worth nothing."""
GOES_ON = "goes on"
"""Of a measurement that is not decided: its next update adds repeats."""
NOT_BESIDE_AUTO = ("keepBaseline", "workersCurve")
"""Settings with which `auto` is refused."""
AT_A_TIME_VARIABLE = "RAY_WORTH_IT_REPEATS_AT_A_TIME"
"""Of the environment: how many it adds. `rwi up` looks after each, and goes on by itself."""


@dataclass(frozen=True)
class Repeats:
    """How many there are in any case, and how many there may be: the same, unless there are as many as it takes."""

    least: int
    most: int
    is_auto: bool = False


AS_MANY_AS_IT_TAKES = Repeats(FIRST_REPEATS, MOST_AUTO_REPEATS, is_auto=True)
