"""Describes in one or two sentences what an update will do with the runs of a stack. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from tools.stack.remaining import Remaining, in_words
from tools.stack.update import Update

_MOST_DIFFERENCES = 4


def words(update: Update, stack: str, known: Mapping[str, float]) -> str:
    """Describe a preview that has ended; "" if it has no runs.

    Args:
        update: The preview's steps.
        stack: Name of the stack.
        known: Seconds of a run by arm, as far as known.
    """
    if not update.planned:
        return ""
    missing, kept = len(update.to_make), len(update.planned) - len(update.to_make)
    if not missing:
        text = f"nothing to measure: all {_runs(kept)} are there"
        return text + (f"; {update.others} other resources change" if update.others else "")
    seconds = Remaining(known).seconds(update, 0.0)
    about = f", {in_words(seconds)}" if seconds is not None else ""
    beside = f"; before that {update.others} other resources" if update.others else ""
    if update.replaced:
        stay = f"; {_runs(kept)} kept" if kept else ""
        return (
            f"{_why(update)}: {_runs(missing)} repeated{about}{stay}; earlier results stay in results/{stack}{beside}"
        )
    if kept:
        return f"continues: {_runs(missing)} missing{about}; {_runs(kept)} kept{beside}"
    return f"a new measurement: {_runs(missing)}{about}{beside}"


def _why(update: Update) -> str:
    """The settings that differ; what else there is is in no recipe."""
    known = [f"{key} {before} → {after}" for key, (before, after) in update.differences.items()]
    if not known:
        return "code, versions, machine or other settings changed"
    more = [f"{len(known) - _MOST_DIFFERENCES} more"] if len(known) > _MOST_DIFFERENCES else []
    return ", ".join([*known[:_MOST_DIFFERENCES], *more])


def _runs(number: int) -> str:
    return f"{number} run{'s' if number != 1 else ''}"
