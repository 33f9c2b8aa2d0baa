"""A comparison as aligned text, 80 columns wide: answer, arms, ratios with their interval, verdict, reasons. Pure."""

import textwrap
from collections.abc import Mapping, Sequence

from compare import measures
from compare.bound import NOT_DISTRIBUTED
from compare.comparison import OF_CURVE
from compare.curve import NOT_ASKED
from compare.entries import Measure
from compare.projection import sentences
from compare.quiet import NO_RAY_PODS, ONE_RAY_RUN
from compare.schema import ArmSummary, Comparison
from compare.words import names_by_reason
from report import clocks, curve, ratios, spot, step_parts, words
from report.figures import MISSING, figure, is_shown, unit
from training.contract.arms import ARMS, RAYDATA, RAYSTART, counted
from training.contract.workload import named

WIDTH = 80
OF_INPUT = ("firstBatchSeconds", "dataWaitSeconds")
"""Measures that are shown if an arm reads through Ray Data."""
OF_VERDICT = ("longer", "bound", "distribution", "spot")
"""Parts of the comparison that may be missing without a remark, because the verdict or a line of their own says why."""
_NO_BREAK = "\N{NO-BREAK SPACE}"
SHADES = dict(zip(clocks.PARTS, "▒█░▓·", strict=True))
"""The character that stands for each part of the whole time in a bar."""


def render(comparison: Comparison) -> str:
    """Return the whole text of a comparison, without a newline at the end."""
    parts = [
        wrap(comparison.answer),
        _heading(comparison),
        _clocks(comparison),
        _arms(comparison),
        _ratios(comparison),
        wrap(comparison.verdict),
    ]
    parts += [
        # The estimate has lines of its own below.
        "\n".join(wrap(f"- {text}", indent="  ") for text in words.details(comparison, "model")),
        _distribution(comparison),
        "\n".join(map(wrap, words.search(comparison))),
        _step_parts(comparison),
        _curve(comparison),
        _spot(comparison),
        _checks(comparison),
        _projection(comparison),
    ]
    parts += [_remarks(comparison)]
    return "\n\n".join(part for part in parts if part)


def _clocks(comparison: Comparison) -> str:
    """Return the report's first pictures as text: the lines as numbers, and bars of where each arm's time went."""
    if not comparison.arms:
        return ""
    shown, of_arms = clocks.clocks(comparison), clocks.parts(comparison)
    rows = clocks.rows(comparison, shown)
    left = aligned(rows).splitlines()
    width = WIDTH - 2 - max(map(len, left))
    longest = max(sum(of_arm.values()) for of_arm in of_arms.values())
    bars = [_bar(of_arm, width / longest if longest else 0.0) for of_arm in of_arms.values()]
    seen = [f"{shade} {part}" for part, shade in SHADES.items() if any(shade in bar for bar in bars)]
    lines = [f"{text.ljust(len(left[0]))}  {bar}".rstrip() for text, bar in zip(left, ["", *bars], strict=True)]
    means = "The last column has medians of the repeats, the others geometric means." * (comparison.repeats > 1)
    fixed = f"Fixed: {clocks.fixed_words(comparison.passed)}."
    sentences = [fixed, means, clocks.break_even_words(comparison)] if shown else []
    what = "time" if comparison.has_equal_epochs else "time of a whole run"
    return "\n".join([*lines, _legend(seen, what), *_titles(comparison), *map(wrap, filter(None, sentences))])


def _titles(comparison: Comparison) -> list[str]:
    """Return a line for each arm that says what ran."""
    titles = [[name, comparison.arms[name].title] for name in comparison.shown_arms()]
    return [wrap(line, indent="  ") for line in aligned(titles, (0, 1)).splitlines()]


def _legend(seen: Sequence[str], what: str) -> str:
    """Return the legend of the bars: each part with its character. A line never ends within the name of a part."""
    named = "  ".join(map(unbroken, seen))
    return wrap(f"Where the {what} went: {named}", indent="  ")


def _bar(seconds: Mapping[str, float], scale: float) -> str:
    """Return a bar in which each part has the characters that its time needs; the whole is right to half of one."""
    bar, ended = "", 0.0
    for part, shade in SHADES.items():
        ended += seconds[part]
        bar += shade * (round(ended * scale) - len(bar))
    return bar


def _arms(comparison: Comparison) -> str:
    every = measures.measures_of(comparison.workload, comparison.unit)
    columns = [each for each in every if each.column and is_shown(comparison, each)]
    shown = [(name, comparison.arms[name]) for name in comparison.shown_arms()]
    rows = [["arm", *(each.column for each in columns)]]
    rows += [[name, *(_cell(summary, each) for each in columns)] for name, summary in shown]
    lines = [_line(each, shown) for each in every if each.least is not None and is_shown(comparison, each)]
    waits = [_line(each, shown) for each in every if each.name in OF_INPUT and RAYDATA.name in comparison.arms]
    return "\n".join([aligned(rows), *waits, *lines])


def _line(each: Measure, arms: Sequence[tuple[str, ArmSummary]]) -> str:
    """Return one sentence with the values of a measure for all arms."""
    cells = [(name, _cell(summary, each)) for name, summary in arms]
    of_arms = (f"{name} {cell}{unit(each) if cell != MISSING else ''}" for name, cell in cells)
    return wrap(f"{each.title}: {', '.join(of_arms)}.")


def _heading(comparison: Comparison) -> str:
    recipe = comparison.recipe
    kind = named(comparison.workload)
    trained = kind.words(recipe)
    workers = f"{counted(recipe['workers'], 'worker')} of {recipe['workerCpus']:g} CPU"
    if recipe.get("dataArguments"):
        workers += f" and {recipe.get('dataCpus', 1)} for its data"
    repeats = counted(comparison.repeats, "repeat")
    passes = comparison.passes or counted(recipe[kind.passes_key], kind.passed)
    return f"{trained}\n{passes}, {workers}; medians of {repeats}"


def _cell(summary: ArmSummary, each: Measure) -> str:
    value = summary.measures.get(each.name)
    return figure(value, each).median if value else MISSING


def _ratios(comparison: Comparison) -> str:
    """Return the table of ratios, with the break-even and the footnotes."""
    heading = ["", "median", "95 % interval", "Ray is", ""]
    rows = [[row.name, row.median, row.interval, row.says, row.meaning] for row in ratios.rows(comparison)]
    lines = aligned([heading, *rows], (0, 3, 4)).splitlines()
    indent = " " * (max(map(len, lines)) - max(len(row[-1]) for row in rows))  # where the last column begins
    table = [wrap(line, indent) for line in lines]
    return "\n".join([*table, *map(wrap, ratios.footnotes(comparison))])


def _distribution(comparison: Comparison) -> str:
    """Return how the ranks were made for a script that makes none itself."""
    has_port = comparison.distribution and comparison.distribution.port
    rows = [*words.distribution(comparison), *([("as a diff", "in the report")] if has_port else [])]
    return "\n".join(wrap(f"{label}: {text}.", indent="  ") for label, text in rows)


def _step_parts(comparison: Comparison) -> str:
    """Return the table of where the time of a step goes, by arm; "" without such times."""
    rows = step_parts.rows(comparison)
    return "\n".join([aligned(rows), *map(wrap, step_parts.remarks(comparison))]) if rows else ""


def _curve(comparison: Comparison) -> str:
    """Return a table of Ray's runs with a row for each number of workers: the speedup over the baseline, and the gain
    and the cost compared with the previous number of workers."""
    rows = curve.rows(comparison)
    if not rows:
        return ""
    return f"{aligned([list(curve.HEADINGS), *rows])}\n{wrap(curve.summary(comparison) + '.')}"


def _spot(comparison: Comparison) -> str:
    """Return what each arm costs on spot, and from which rate of interruptions it does not pay; "" without a price."""
    rows = spot.rows(comparison)
    table = [aligned([list(spot.HEADINGS), *rows], text_columns=(0, 1))] if rows else []
    return "\n".join([*table, *map(wrap, spot.notes(comparison))])


def _checks(comparison: Comparison) -> str:
    failed = [name for name, passed in comparison.checks.items() if passed is False]
    unverified = [name for name, passed in comparison.checks.items() if passed is None]
    passed = sum(value is True for value in comparison.checks.values())
    text = f"Fairness: {passed} of {len(comparison.checks)} checks passed"
    text += f"; failed: {', '.join(failed)}" if failed else ""
    return wrap(text + (f"; not verified: {', '.join(unverified)}" if unverified else "") + ".")


def _projection(comparison: Comparison) -> str:
    projection = comparison.projection
    if projection is None:
        return ""
    doubt = words.doubt(comparison)
    about = f"Estimate, {doubt or 'not measured'}; in such a band lie 90 % of the points of published curves:"
    return "\n".join([wrap(about), *(wrap(f"- {text}", "  ") for text in sentences(projection))])


def _remarks(comparison: Comparison) -> str:
    """Return why values are missing, except for the verdict's qualifiers, which stand in the verdict."""
    news = names_by_reason((name, why) for name, why in comparison.reasons.items() if _is_news(name, comparison))
    return "\n".join(wrap(f"{', '.join(names)}: {why}", indent="  ") for why, names in news.items())


def _is_news(name: str, comparison: Comparison) -> bool:
    group, _, rest = name.partition(".")
    why = comparison.reasons[name]
    if name in comparison.absent:
        return name in ARMS and ARMS[name].role(comparison.workload) != "variant"
    if why in {NO_RAY_PODS, ONE_RAY_RUN, NOT_ASKED, *measures.NOT_ASKED, measures.NO_RAY_DATA}:
        return False
    if name in (*OF_CURVE, *OF_VERDICT):  # of the curve its table says it
        return False
    if why in comparison.absent.values() or group == RAYSTART.name:
        return False
    if why == NOT_DISTRIBUTED:
        return name == "claim"
    columns = {each.name for each in measures.measures_of(comparison.workload) if each.column}
    return group in {"checks", "repeats"} or not rest or rest in columns


def aligned(rows: Sequence[Sequence[str]], text_columns: Sequence[int] = (0,)) -> str:
    """Return the rows as lines of columns, two spaces apart. Text is aligned left, and numbers are aligned right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if index in text_columns else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def wrap(text: str, indent: str = "") -> str:
    """Return the text in lines of at most WIDTH characters, in which `unbroken` parts stay whole. The lines after the
    first one are indented."""
    lines = textwrap.fill(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return lines.replace(_NO_BREAK, " ")


def unbroken(part: str) -> str:
    """Return a part of a text for `wrap` which must not end a line within it."""
    return part.replace(" ", _NO_BREAK)
