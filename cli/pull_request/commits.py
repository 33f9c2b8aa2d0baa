"""A comparison of two commits of a user's repository in words: for the terminal, and as a comment. It posts nothing.

Whoever wrote the file that the comment is made from may be a pull request's code: every text of it is escaped and cut.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from cli.pull_request.comment import quoted, safe
from compare.commits import (
    DECIDED,
    LONGEST_TEXT,
    MOST_REPEATS,
    TIME_UP,
    UNDECIDED,
    ArmChange,
    CommitComparison,
)
from compare.commits import decision as decision_of
from compare.intervals import CONFIDENCE
from compare.schema import Estimate
from compare.words import factor
from report.terminal import columns
from training.contract.arms import counted
from training.contract.repeats import FIRST_REPEATS

MARKER = "<!-- ray-worth-it: commits -->"
LIMIT_BYTES = 60_000
TITLE = ("arm", "base", "head", "head ÷ base", "", "runs each")
OF_RAY = ("Ray's whole time ÷ that of", "base", "head")
MOST_ITEMS = 20
"""Most items that are shown of a list which somebody else may have written."""


def headline(comparison: CommitComparison) -> str:
    """Return the most important finding of a comparison of commits."""
    if not comparison.arms:
        minutes = f": nothing ended within its {comparison.minutes:g} minutes" * (comparison.ended == TIME_UP)
        return f"No comparison{minutes}."
    decisions: dict[str, list[str]] = {}
    for arm, change in comparison.arms.items():
        decisions.setdefault(decision_of(change), []).append(arm)
    changed = [f"{word}: {', '.join(decisions[word])}" for word in ("slower", "faster") if word in decisions]
    if changed:
        other = any(change.base_steps != change.head_steps for change in comparison.arms.values())
        return f"Changed. {'; '.join(changed)}.{' The numbers of steps differ, too.' * other}"
    return "Not decided." if UNDECIDED in decisions else "No measurable difference."


def rows(comparison: CommitComparison) -> list[tuple[str, ...]]:
    """Return a table row for each arm, with the columns of TITLE."""
    return [
        (arm, _seconds(change.base_seconds), _seconds(change.head_seconds), _ratio(change.ratio), _word(change),
         str(len(change.base_seconds)))
        for arm, change in comparison.arms.items()
    ]  # fmt: skip


def rows_of_ray(comparison: CommitComparison) -> list[tuple[str, ...]]:
    """Return a table row for each alternative to Ray, with the columns of OF_RAY."""
    return [(each.alternative, _ratio(each.before), _ratio(each.after)) for each in comparison.against[:MOST_ITEMS]]


def remarks(comparison: CommitComparison) -> list[str]:
    """Return sentences below the table."""
    machine = f"{counted(comparison.workers, 'worker')}, {comparison.cpu_model}"
    texts = [f"{comparison.script}: {machine}. {_ended(comparison)}".strip()]
    if comparison.arms:
        texts.insert(0, _how_sure(comparison.confidence))
    if comparison.busy:
        texts.append(f"The machine was not quiet: {comparison.busy}.")
    for arm, change in comparison.arms.items():
        if change.base_steps != change.head_steps:
            before, after = (steps or "unknown" for steps in (change.base_steps, change.head_steps))
            steps = f"{arm}: base made {before} optimizer steps a run, head {after}"
            texts.append(f"{steps}: not their speed alone decides how long a run takes.")
    texts += [f"{arm}: absent, {why}." for arm, why in comparison.absent.items()]
    return [*texts, *(f"{note}." for note in comparison.notes[:MOST_ITEMS])]


def _how_sure(confidence: float) -> str:
    return (
        "Whole times, from start to exit: medians, and ratios whose intervals hold together in "
        f"{100 * CONFIDENCE:.0f} %: of equal commits about one comparison in twenty says that any arm changed. The "
        f"arms share that level, so each interval is one of {100 * confidence:.2f} %."
    )


def _ended(comparison: CommitComparison) -> str:
    if comparison.ended == DECIDED:
        return f"Every arm{' that did not fail' * bool(comparison.failed)} is decided." * bool(comparison.arms)
    if comparison.ended == TIME_UP:
        return f"Its {comparison.minutes:g} minutes were over: what is not decided by then may be with more --minutes."
    return "It ended after as many repeats as it may have." * (comparison.ended == MOST_REPEATS)


def _seconds(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f} s" if values else "unknown"


def _ratio(ratio: Estimate | None) -> str:
    """Return the ratio as text, with its interval if there are enough repeats: with few it may end at millions."""
    if ratio is None:
        return "unknown"
    return factor(ratio if ratio.n >= FIRST_REPEATS else replace(ratio, lower=None))


def _word(change: ArmChange) -> str:
    word = decision_of(change)
    if word != UNDECIDED:
        return word
    if len(change.base_seconds) < FIRST_REPEATS:
        return f"{word}: it takes {FIRST_REPEATS} runs of each"
    return f"{word}: a change of {100 * (change.visible or 0.0):.0f} % would probably have been seen"


def in_words(comparison: CommitComparison) -> str:
    """Return the text of the comparison for a terminal."""
    tables = [columns(TITLE, rows(comparison))] if comparison.arms else []
    tables += [columns(OF_RAY, rows_of_ray(comparison))] if comparison.against else []
    failed = [f"{name} failed: {why}" for name, why in comparison.failed.items()]
    return "\n".join([headline(comparison), *(line for table in tables for line in ["", *table]), "",
                      *remarks(comparison), *failed])  # fmt: skip


def commits_comment(comparison: CommitComparison) -> str:
    """Return the text of the comment. If it is longer than LIMIT_BYTES, only its headline is left."""
    base, head = comparison.base, comparison.head
    lines = [MARKER, "## What this changes in the training", "", f"**{_cut(headline(comparison))}**", ""]
    lines += [f"- {name}: `{each.sha[:12]}` {_cut(each.subject)}" for name, each in (("base", base), ("head", head))]
    lines += ["", *_table(TITLE, rows(comparison))] if comparison.arms else []
    lines += ["", *_table(OF_RAY, rows_of_ray(comparison))] if comparison.against else []
    lines += ["", *(f"- {_cut(text)}" for text in remarks(comparison))]
    for name, why in list(comparison.failed.items())[:MOST_ITEMS]:
        lines += ["", f"{_cut(name)} failed:", "", *quoted(why)]
    text = "\n".join(lines) + "\n"
    if len(text.encode()) <= LIMIT_BYTES:
        return text
    return (
        "\n".join(lines[: lines.index("", 3)])
        + "\n\nThe rest is in the run's artifact: it is too long for a comment.\n"
    )


def _table(title: Sequence[str], of_rows: Sequence[Sequence[str]]) -> list[str]:
    cells = [title, ["---"] * len(title), *([_cut(cell) for cell in row] for row in of_rows)]
    return [f"| {' | '.join(row)} |" for row in cells]


def _cut(text: str) -> str:
    return safe(text if len(text) <= 2 * LONGEST_TEXT else f"{text[: 2 * LONGEST_TEXT]}…")
