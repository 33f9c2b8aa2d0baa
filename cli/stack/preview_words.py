"""Describes in one or two sentences what an update will do with the runs of a stack. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from cli.stack.remaining import Remaining, in_words
from cli.stack.update import Update, repeat_of, side_of

_MOST_VALUES = 4
"""Number of differing settings that are shown with their values; of any more, only the names are shown."""


def words(update: Update, stack: str, known: Mapping[str, float]) -> str:
    """Return a description of a preview that has ended; "" if it has no runs. `known`: seconds of a run by arm, as far
    as they are known."""
    if not update.planned:
        return ""
    kept, beside = len(update.planned) - len(update.to_make), update.others
    changed = _changed(update)
    left_out = f"; {_runs(len(update.left_out))} left out, with files that stay" if update.left_out else ""
    if not update.to_make:
        text = f"nothing to measure: all {_runs(kept)} are there{left_out}"
        text = f"{changed}: {text}" if changed else text
        return text + (f"; {beside} other resources change" if beside else "")
    has_estimate = {side_of(run) for run in update.to_make} <= known.keys()  # as what `./rwi preview` says next
    seconds = Remaining(known).seconds(update, 0.0) if has_estimate else None
    about = f", {in_words(seconds)}" if seconds is not None else ""
    resources = f"; before that {beside} other resources" if beside else ""
    stay = f"; {_runs(kept)} kept" if kept else ""
    if update.replaced or changed:
        why = changed or "code, versions, machine or other settings changed"
        results = f"; earlier results stay in results/{stack}" if update.replaced else ""
        return f"{why}: {_counts(update)}{about}{stay}{left_out}{results}{resources}"
    if kept or update.existing:
        return f"continues: {_counts(update)}{about}{stay}{left_out}{resources}"
    return f"a new measurement: {_runs(len(update.to_make))}{about}{resources}"


def _counts(update: Update) -> str:
    """Return how many runs are measured again, are additional, or were not reached by an earlier update."""
    repeated = [run for run in update.to_make if run in update.existing]
    first = [run for run in update.to_make if run not in update.existing]
    counts = {"repeated": len(repeated), "added" if _is_complete(update) else "missing": len(first)}
    of_each = [(number, what) for what, number in counts.items() if number]
    (number, what), *more = of_each
    return ", ".join([f"{_runs(number)} {what}", *(f"{number} {what}" for number, what in more)])


def _changed(update: Update) -> str:
    """Return the settings that differ between earlier and planned runs, and changes to repeats and arms, which are not
    part of a recipe."""
    shown = [f"{key} {before} → {after}" for key, (before, after) in update.differences.items()]
    texts = [*shown[:_MOST_VALUES], *list(update.differences)[_MOST_VALUES:]]
    if _is_complete(update):
        before, after = _repeats(update.existing), _repeats(update.planned)
        texts += [f"repeats {before} → {after}"] if before != after else []
        sides_before, sides_after = ({side_of(run): None for run in runs} for runs in (update.existing, update.planned))
        texts += [f"with {side}" for side in sides_after if side not in sides_before]
        texts += [f"without {side}" for side in sorted(sides_before) if side not in sides_after]
    return ", ".join(texts)


def _is_complete(update: Update) -> bool:
    """Return whether the existing runs are all of the last measurement: any others are then newly asked for."""
    return update.compared_repeats == _repeats(update.existing) > 0


def _repeats(runs: set[str] | Mapping[str, bool]) -> int:
    return max(map(repeat_of, runs), default=0)


def _runs(number: int) -> str:
    return f"{number} run{'s' if number != 1 else ''}"
