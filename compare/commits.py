"""What a commit did to the whole times of a script's arms: those of base and head, measured in turns. Pure.

Ratios, head ÷ base, are taken of neighbouring runs of one arm. Their intervals are those of `repeats auto`, because it
is looked after each repeat whether they decide. The level is shared between the arms (Bonferroni): of two commits that
take equally long, about one comparison of twenty says of any arm that it changed.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from compare.intervals import WHENEVER, Rule, corrected, estimate, least_visible
from compare.schema import Estimate
from training.contract.arms import ARMS, BASELINE, RAY, WIDE
from training.contract.codec import ResultError, decode
from training.contract.repeats import FIRST_REPEATS

SCHEMA_VERSION = 1
NAME = "commits.json"
LONGEST_BYTES = 200_000
"""Size of the largest comparison file that is read, in bytes."""
LONGEST_TEXT, LONGEST_FAILURE = 300, 4000
"""How many characters are kept of a text, and of the reason of a failure."""
MOST_ARGUMENTS = 50
FASTER, SLOWER, UNDECIDED = "faster", "slower", "not decided"
DECIDED, TIME_UP, MOST_REPEATS = "decided", "its time was up", "most repeats"
"""Reasons why a comparison of commits ended."""
ALTERNATIVES = (BASELINE.name, WIDE.name)
NO_CHANGE, FAILED, WRONG_CALL, IS_SLOWER = 0, 1, 2, 3
"""Exit statuses of the command. WRONG_CALL is the status that click uses."""


class CommitsError(ValueError):
    """A file that holds no valid comparison of commits. The message says why."""


@dataclass(frozen=True, kw_only=True)
class Commit:
    """One of the two compared commits, as git names it."""

    name: str
    """The name of the commit as the user typed it."""
    sha: str
    subject: str


@dataclass(frozen=True, kw_only=True)
class ArmChange:
    """The times of one arm under both commits."""

    base_seconds: list[float]
    """Whole time of each run of the base. Runs of the same repeat have the same index in both lists."""
    head_seconds: list[float]
    base_steps: int | None
    """Optimizer steps of a run; None if no step was seen."""
    head_steps: int | None
    ratio: Estimate | None
    """Time with the head ÷ time with the base; None with fewer than two repeats."""
    visible: float | None
    """The smallest change that this number of runs, with this noise, shows in nine of ten comparisons: 0.12 is 12 %."""


@dataclass(frozen=True, kw_only=True)
class Against:
    """Ray's whole time ÷ that of an alternative, under each commit. This ratio does not decide anything in this
    comparison."""

    alternative: str
    before: Estimate
    after: Estimate


@dataclass(frozen=True, kw_only=True)
class CommitComparison:
    """The whole comparison of two commits, which the option `--json` writes to a file."""

    schema_version: int
    base: Commit
    head: Commit
    script: str
    """Path of the script in the repository."""
    arguments: list[str]
    """Arguments of the script, with `…` instead of what looks like a secret."""
    workers: int
    cpu_model: str
    busy: str
    """What other programs took of the machine meanwhile, in words; "" if that was not noticeable."""
    minutes: float
    """The time that the comparison may take, in minutes."""
    ended: str
    """Why the comparison ended: `decided`, `its time was up`, or `most repeats`."""
    confidence: float
    """Confidence of each interval. This level is so high that all intervals together hold with 95 %."""
    arms: dict[str, ArmChange]
    absent: dict[str, str]
    """Arms that were not measured, and why: most often they are not possible with this script."""
    failed: dict[str, str]
    """What failed, and why: the name of an arm, or `base`, `head` or `both` if the commits as a whole failed."""
    against: list[Against]
    notes: list[str]
    """Remarks on the comparison, for example on files that a checkout lacks."""

    @classmethod
    def from_json(cls, text: str) -> "CommitComparison":
        """Return the comparison that a file's text holds. Anybody may have written the file. Raises CommitsError if it
        is not valid."""
        if len(text.encode()) > LONGEST_BYTES:
            raise CommitsError(f"it has more than {LONGEST_BYTES:,} bytes")
        try:
            comparison: CommitComparison = decode(cls, json.loads(text), "the comparison")
        except (ResultError, ValueError, RecursionError, OverflowError) as error:
            raise CommitsError(f"no comparison of commits: {str(error)[:LONGEST_TEXT]}") from None
        if comparison.schema_version != SCHEMA_VERSION:
            raise CommitsError(f"its schemaVersion is {comparison.schema_version}, and {SCHEMA_VERSION} is read")
        names = {*comparison.arms, *comparison.absent, *(each.alternative for each in comparison.against)}
        if unknown := names - set(ARMS):
            raise CommitsError(f"{str(min(unknown))[:50]!r} is no arm")
        shas = (comparison.base.sha, comparison.head.sha)
        if not all(re.fullmatch("[0-9a-f]{40}([0-9a-f]{24})?", sha) for sha in shas):
            raise CommitsError("a commit's hash is none")
        return comparison

    @property
    def slower(self) -> list[str]:
        """Return the arms that the head made slower, with confidence."""
        return [arm for arm, change in self.arms.items() if decision(change) == SLOWER]

    @property
    def status(self) -> int:
        """Return the exit status."""
        return FAILED if self.failed or not self.arms else IS_SLOWER if self.slower else NO_CHANGE


def rule(arms: int) -> Rule:
    """Return the rule by which this number of arms is decided: all statements about the arms together hold with 95
    %."""
    return replace(WHENEVER, confidence=corrected(WHENEVER.confidence, max(1, arms)))


def decision(change: ArmChange) -> str:
    """Return `faster`, `slower`, `no measurable difference` or `not decided`. With fewer than four repeats nothing is
    decided."""
    few = len(change.base_seconds) < FIRST_REPEATS
    return UNDECIDED if change.ratio is None or few else change.ratio.decision


def arm_change(
    base: Sequence[float], head: Sequence[float], by: Rule, steps: tuple[int | None, int | None] = (None, None)
) -> ArmChange:
    """Return the change of an arm's whole time from base to head. Runs of the same repeat have the same index in both
    lists."""
    ratios = [after / before for before, after in zip(base, head, strict=True)]
    return ArmChange(
        base_seconds=list(base),
        head_seconds=list(head),
        base_steps=steps[0],
        head_steps=steps[1],
        ratio=estimate(ratios, (FASTER, SLOWER), by) if len(ratios) > 1 else None,
        visible=least_visible(ratios, by),
    )


def undecided(seconds: Mapping[str, tuple[list[float], list[float]]], by: Rule) -> list[str]:
    """Return the arms to measure once more. `seconds`: the whole times with the base and with the head, by arm."""
    return [arm for arm, (base, head) in seconds.items() if decision(arm_change(base, head, by)) == UNDECIDED]


def against(arms: Mapping[str, ArmChange], by: Rule) -> list[Against]:
    """Return Ray's time ÷ that of each alternative, under both commits, over the repeats that both arms have."""
    return [
        Against(
            alternative=name,
            before=_ratio(arms[RAY.name].base_seconds, arms[name].base_seconds, by),
            after=_ratio(arms[RAY.name].head_seconds, arms[name].head_seconds, by),
        )
        for name in ALTERNATIVES
        if {name, RAY.name} <= arms.keys() and arms[name].base_seconds and arms[RAY.name].base_seconds
    ]


def _ratio(above: Sequence[float], below: Sequence[float], by: Rule) -> Estimate:
    """Return the ratio of two arms' times over the repeats that both arms have. An arm that is decided is not measured
    further, so these are the first repeats."""
    return estimate([mine / other for mine, other in zip(above, below, strict=False)], None, by)
