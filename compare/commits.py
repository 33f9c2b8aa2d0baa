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
"""Of the file: more is not read."""
LONGEST_TEXT, LONGEST_FAILURE = 300, 4000
"""Characters that are kept of a text, and of what failed."""
MOST_ARGUMENTS = 50
FASTER, SLOWER, UNDECIDED = "faster", "slower", "not decided"
DECIDED, TIME_UP, MOST_REPEATS = "decided", "its time was up", "most repeats"
"""Why it ended."""
ALTERNATIVES = (BASELINE.name, WIDE.name)
NO_CHANGE, FAILED, WRONG_CALL, IS_SLOWER = 0, 1, 2, 3
"""Exit statuses of the command; the third is click's."""


class CommitsError(ValueError):
    """A file that holds no comparison of commits; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Commit:
    """One side, as git names it."""

    name: str
    """As it was typed."""
    sha: str
    subject: str


@dataclass(frozen=True, kw_only=True)
class ArmChange:
    """An arm under both commits."""

    base_seconds: list[float]
    """Whole time of each run; those of one repeat have one place in both lists."""
    head_seconds: list[float]
    base_steps: int | None
    """Optimizer steps of a run; None where none was seen."""
    head_steps: int | None
    ratio: Estimate | None
    """Head ÷ base; None below two repeats."""
    visible: float | None
    """The smallest change that so many runs with this noise show in nine of ten comparisons, as 0.12 for 12 %."""


@dataclass(frozen=True, kw_only=True)
class Against:
    """Ray's whole time ÷ that of an alternative, under each commit; it decides nothing here."""

    alternative: str
    before: Estimate
    after: Estimate


@dataclass(frozen=True, kw_only=True)
class CommitComparison:
    """All that is said of two commits: the file of `--json`."""

    schema_version: int
    base: Commit
    head: Commit
    script: str
    """Path in the repository."""
    arguments: list[str]
    """With `…` instead of what looks like a secret."""
    workers: int
    cpu_model: str
    busy: str
    """What other programs took meanwhile; "" if that was not noticeable."""
    minutes: float
    """The budget."""
    ended: str
    """`decided`, `its time was up`, or `most repeats`."""
    confidence: float
    """Of each interval: so that all of them hold in 95 %."""
    arms: dict[str, ArmChange]
    absent: dict[str, str]
    """Arms that the script cannot have, and why."""
    failed: dict[str, str]
    """Arms that failed, or `both` commits, `base` or `head` as a whole, and why."""
    against: list[Against]
    notes: list[str]
    """What a checkout lacks, and the like."""

    @classmethod
    def from_json(cls, text: str) -> "CommitComparison":
        """Return the comparison in a file that anybody may have written. Raises CommitsError."""
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
    """Return how so many arms are decided: all that is said of them holds together in 95 %."""
    return replace(WHENEVER, confidence=corrected(WHENEVER.confidence, max(1, arms)))


def decision(change: ArmChange) -> str:
    """Return `faster`, `slower`, `no measurable difference` or `not decided`, which fewer than four repeats are."""
    few = len(change.base_seconds) < FIRST_REPEATS
    return UNDECIDED if change.ratio is None or few else change.ratio.decision


def arm_change(
    base: Sequence[float], head: Sequence[float], by: Rule, steps: tuple[int | None, int | None] = (None, None)
) -> ArmChange:
    """Return what an arm's whole times say, those of one repeat at one place."""
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
    """Return the arms to measure once more, by the whole times of base and head of each."""
    return [arm for arm, (base, head) in seconds.items() if decision(arm_change(base, head, by)) == UNDECIDED]


def against(arms: Mapping[str, ArmChange], by: Rule) -> list[Against]:
    """Return Ray's ratio to each alternative under both commits, by the repeats that both arms have."""
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
    """An arm that is decided is measured no further: the repeats that both have are the first ones."""
    return estimate([mine / other for mine, other in zip(above, below, strict=False)], None, by)
