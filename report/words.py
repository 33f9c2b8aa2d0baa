"""The words that the table and the page share: break-even, the projection, the verdict's details. Pure."""

import json

from compare.answer import MOST_EPOCHS
from compare.in_short import RATIOS
from compare.schema import BreakEven, Comparison
from compare.verdict import DETAILS, doubt_of
from training.contract.arms import counted

NOT_KNOWN = "not known"
OPEN_END = f"or more; the upper end is {NOT_KNOWN}"
AHEAD_NOW = ", though Ray is ahead now"
STATES = {"finished": "finished", "stopped": "were stopped", "failed": "failed"}
"""Words for what became of trials, by state."""


def break_even(comparison: Comparison) -> str:
    """Return from which number of epochs on Ray takes less time than each alternative: a certain number, a probable
    one, that there is none, or that it is not known."""
    epochs = comparison.break_even_epochs
    if epochs is not None:
        return counted(epochs, comparison.passed)
    if never := [name for name, meets in comparison.break_even.items() if _is_never(meets, comparison.repeats)]:
        return none(comparison.passed) + AHEAD_NOW * all(_is_ahead_now(comparison, name) for name in never)
    probable = [meets.probably if meets else None for meets in comparison.break_even.values()]
    known = [number for number in probable if number is not None]
    is_probable = known and len(known) == len(probable)
    return f"probably {counted(max(known), comparison.passed)}, not certain" if is_probable else NOT_KNOWN


def none(passed: str) -> str:
    """Return the words for a break-even that does not exist. They are used only if the whole interval says so; if a few
    runs do not show a break-even, it is *not known*."""
    return f"none up to {MOST_EPOCHS:,} {passed}s"


def break_even_with(comparison: Comparison, name: str) -> str:
    """Return the break-even with one alternative in words, also that Ray is ahead now and does not stay so."""
    text = break_even_against(comparison.break_even[name], comparison.repeats, comparison.passed)
    return text + AHEAD_NOW * (text == none(comparison.passed) and _is_ahead_now(comparison, name))


def _is_ahead_now(comparison: Comparison, name: str) -> bool:
    """Return whether Ray takes less time than an alternative over the trained epochs, with 95 % confidence."""
    ratio = comparison.ratios.get(RATIOS["clocks"].get(name, ""))
    return ratio is not None and ratio.lower is not None and ratio.lower > 1


def break_even_against(meets: BreakEven | None, repeats: int, passed: str = "epoch") -> str:
    """Return a break-even with one alternative in words, with its 95 % interval. `passed`: the word for an epoch."""
    if _is_never(meets, repeats):
        return none(passed)
    if meets is None or (meets.probably is None and repeats == 1):
        return NOT_KNOWN
    if meets.probably is None:
        return f"{NOT_KNOWN}, {meets.possibly:,} {passed}s or more"
    if meets.surely == 1:
        return f"from the first {passed} on"
    interval = f"{meets.possibly or 0:,} " + (f"to {meets.surely:,}" if meets.surely else OPEN_END)
    return f"about {counted(meets.probably, passed)} ({'one repeat' if repeats == 1 else interval})"


def _is_never(meets: BreakEven | None, repeats: int) -> bool:
    """Return whether it is certain that Ray never stays ahead, which it cannot be with one repeat."""
    return repeats > 1 and meets is not None and meets.possibly is None


def doubt(comparison: Comparison) -> str:
    """Return why the projection may be far off; "" if nothing indicates it."""
    names = {name.removeprefix("verdict."): why for name, why in comparison.reasons.items()}
    return doubt_of(comparison.checks.get("machineQuiet"), names)


def details(comparison: Comparison, without: str = "") -> list[str]:
    """Return the sentences of details that stand below the verdict, except the one named `without`."""
    texts = [comparison.reasons.get(f"verdict.{name}") for name in DETAILS if name != without]
    return [f"{text}." for text in texts if text]


def distribution(comparison: Comparison) -> list[tuple[str, str]]:
    """Return how the ranks of a script that makes none were made, what was proved of them, and what the user has to
    write, each with a label; empty if this project made no ranks."""
    ranks = comparison.distribution
    if ranks is None:
        return []
    return [*ranks.arms.items(), ("proved", ranks.proof.removeprefix("proved: ")), ("to write", ranks.write)]


def search(comparison: Comparison) -> list[str]:
    """Return sentences that say what a search found and what became of its trials; empty if nothing was searched."""
    search = comparison.search
    if search is None:
        return []
    trials = [f"{search.trials[state]} {what}" for state, what in STATES.items()]
    texts = [f"Of all runs' trials {', '.join(trials)}."]
    if search.best_config is not None and search.best_metric is not None:
        config = ", ".join(f"{name} {value}" for name, value in json.loads(search.best_config).items())
        texts.insert(0, f"Best {comparison.recipe.get('metric') or 'metric'}: {search.best_metric:.4g} with {config}.")
    return texts
