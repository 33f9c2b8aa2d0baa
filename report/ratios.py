"""The ratios as rows with a word or a sign each, and footnotes: the same in the terminal and on the page. Pure.

As benchstat has it, but with the interval, and without one sign for two things: `=` is no measurable difference, `~` is
not decided.
"""

from dataclasses import dataclass

from compare import measures
from compare.in_short import is_disturbed
from compare.intervals import ENOUGH_TO_ESTIMATE
from compare.quiet import MORE_DO_NOT_HELP
from compare.ray_data import GAIN
from compare.schema import Comparison, Estimate
from report import words
from report.figures import MISSING, figure
from training.contract.repeats import MOST_AUTO_REPEATS, MOST_REPEATS

UNCHANGED, UNDECIDED = "no measurable difference", "not decided"
SIGNS = {UNCHANGED: "=", UNDECIDED: "~"}
"""Signs for decisions that take more than one word. Other decisions stand as words."""
MARKS = "¹²³⁴⁵⁶⁷⁸⁹"
EQUAL = "= no measurable difference: the whole interval lies within ±5 %"
BREAK_EVEN = "from there on Ray is ahead"


@dataclass(frozen=True, kw_only=True)
class Row:
    """A ratio as a row of the table, in texts."""

    name: str
    """Name of the ratio, as in the stack's outputs."""
    title: str
    median: str
    """Median with × if the ratio is a quotient; a dash if the ratio was not measured."""
    interval: str = ""
    ends: str = ""
    """Lowest and highest repeat."""
    says: str = ""
    """What the ratio says of Ray: `faster`, `slower`, `=`, or `~` with the mark of a footnote."""
    meaning: str
    why: str = ""
    """Why the ratio was not measured."""


def rows(comparison: Comparison) -> list[Row]:
    """Return a row for each ratio of the measured arms, then the break-even. Ratios that no setting asked for are left
    out.

    For a script that nothing distributes, the rows say how many times as fast Ray could be at most.
    """
    if comparison.bound:
        return [_at_most(comparison, name, ratio) for name, ratio in comparison.bound.at_most.items()]
    marks = _marks(comparison)
    shown = []
    for each in measures.ratios_of(comparison.workload, comparison.gpus):
        value, named = comparison.ratios.get(each.name), {"name": each.name, "title": each.title}
        if value:
            text = figure(value, each)
            says = SIGNS.get(value.decision, value.decision) + marks.get(each.name, "")
            median = text.median + ("×" if each.unit == "×" else "")
            meaning = each.meaning
            if each.name == GAIN and says in (each.words or ()):  # it is not Ray that is compared there
                says, meaning = "", f"{each.above} / {each.below}: Data {says}"
            row = Row(**named, median=median, interval=text.range, ends=text.ends, says=says, meaning=meaning)
            shown.append(row)
        elif {each.above, each.below} <= set(comparison.arms) and each.otherwise not in measures.NOT_ASKED:
            why = comparison.reasons.get(each.name, "")
            shown.append(Row(**named, median=MISSING, meaning=each.meaning, why=why))
    return [*shown, _break_even(comparison), *_trial_length(comparison)]


def footnotes(comparison: Comparison) -> list[str]:
    """Return the footnotes that explain the signs in the rows; empty if each row has a word."""
    decisions = [value.decision for value in comparison.ratios.values() if value]
    texts = dict(zip(_marks(comparison).values(), _open(comparison).values(), strict=True))
    signs = [EQUAL] if UNCHANGED in decisions else []
    return [*signs, *(f"~{mark} not decided: {text}" for mark, text in texts.items())]


def why_open(value: Estimate, comparison: Comparison) -> str:
    """Return what would decide a ratio that is not decided."""
    number, most = value.repeats_to_decide, MOST_AUTO_REPEATS if comparison.auto else MOST_REPEATS
    text = f"{number} repeats would probably decide" if number else f"more than {most} repeats would be needed"
    if value.n < ENOUGH_TO_ESTIMATE:  # their spread says too little of how many would
        text = f"measure at least {number} repeats"
    text = MORE_DO_NOT_HELP if is_disturbed(comparison) else text
    return f"one repeat has no interval; {text}" if value.n == 1 else text


def _at_most(comparison: Comparison, name: str, ratio: Estimate) -> Row:
    clock = measures.ratio("endToEndSpeedup")
    text, is_lost = figure(ratio, clock), ratio.upper is not None and ratio.upper < 1
    meaning = f"{name} / the least that Ray takes, end to end"
    title = f"At most, against {comparison.arms[name].title}"
    return Row(
        name=f"atMost.{name}", title=title, median=f"{text.median}×", interval=text.range, ends=text.ends,
        says="slower" if is_lost else "", meaning=meaning,
    )  # fmt: skip


def _break_even(comparison: Comparison) -> Row:
    epochs = comparison.break_even_epochs
    meaning = BREAK_EVEN if epochs else words.break_even(comparison)
    why = comparison.reasons.get("breakEvenEpochs", "")
    median = MISSING if epochs is None else str(epochs)
    title = f"Break-even {comparison.passed}s"
    return Row(name="breakEvenEpochs", title=title, median=median, meaning=meaning, why=why)


def _trial_length(comparison: Comparison) -> list[Row]:
    """Return the row of the break-even in the length of a trial, in seconds; empty if nothing was searched."""
    if comparison.search is None:
        return []
    seconds, name = comparison.search.break_even_trial_seconds, "breakEvenTrialSeconds"
    median = MISSING if seconds is None else f"{seconds:.2f}"
    why = comparison.reasons.get(name, "")
    meaning = BREAK_EVEN if seconds is not None else words.NOT_KNOWN
    return [Row(name=name, title="Break-even seconds of a trial", median=median, meaning=meaning, why=why)]


def _open(comparison: Comparison) -> dict[str, str]:
    """Return what would decide each ratio that is not decided, by the ratio's name, in the order of the rows."""
    ratios = {
        each.name: comparison.ratios.get(each.name) for each in measures.ratios_of(comparison.workload, comparison.gpus)
    }
    return {
        name: why_open(value, comparison) for name, value in ratios.items() if value and value.decision == UNDECIDED
    }


def _marks(comparison: Comparison) -> dict[str, str]:
    """Return the footnote's mark for each ratio that is not decided; "" if all of these have the same footnote."""
    texts = _open(comparison)
    different = list(dict.fromkeys(texts.values()))
    return {name: MARKS[different.index(text)] if len(different) > 1 else "" for name, text in texts.items()}
