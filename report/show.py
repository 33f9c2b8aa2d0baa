"""Shows results that are kept: a list that marks changes, any two side by side, the page of one. It writes nothing."""

import webbrowser
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from compare import measures
from compare.schema import ProjectedPoint
from compare.words import factor
from report import curve, figures, terminal
from report.change import Change, changes, how_decided, made_differently, show_difference, speedup_change
from report.errors import HistoryError, ShowError
from report.figures import MISSING
from report.stored import PAGE, Stored, choose, publish_again, stored_results
from report.table import aligned, wrap
from training.contract.provenance import PROJECT
from training.machine.command_line import rwi

SHARED = "verdict.oversubscription"
FREE = {
    *("workers", "workersCurve", "repeats", "wideArm", "nativeArm", "keepBaseline", "minikubeNodes"),
    *("budgetMinutes", "runTimeoutMinutes", "priceCpuHour", "priceGibHour", "priceGpuHour", "priceSpotFactor"),
    *("interruptionsPerHour", "trackingUri"),
}
"""Settings in which a later measurement may differ from the one whose projection is checked. None of these settings
changes what a run with a given number of workers does."""


def history(stack: str, wanted: Sequence[str]) -> int:
    """Print the results of a stack, or two of these results side by side. Return the exit status."""
    terminal.write(side_by_side(PROJECT, stack, *wanted) if wanted else listed(PROJECT, stack))
    return 0


def open_page(stack: str, wanted: str, *, path_only: bool) -> int:
    """Open the page of a result in the browser, or print its path if there is no browser. Return the exit status.
    Raises ShowError if the page is missing."""
    result = choose(stored_results(PROJECT, stack)[0], wanted, stack)
    path = result.folder / PAGE
    if not path.is_file():
        again = publish_again(result.folder, stack)
        raise ShowError(f"{path} is missing: remove {result.folder} and publish again with `{again}`")
    if path_only or not webbrowser.open(path.resolve().as_uri()):
        terminal.write(str(path))
    return 0


def listed(project: Path, stack: str) -> str:
    """Return the list of all results of a stack, oldest first, with numbers. Below each are its speedup and how it
    differs from the result before."""
    results, problems = _results(project, stack)
    rows = [["#", "measured (UTC)", "commit", "recipe", "answer"]]
    rows += [[str(number), *_cells(result)] for number, result in enumerate(results, start=1)]
    heading, *lines = aligned(rows, text_columns=range(1, 5)).splitlines()
    noted = [
        "\n".join([line, *(wrap(f"     {note}", indent="     ") for note in _notes(number, results))])
        for number, line in enumerate(lines, start=1)
    ]
    return "\n".join([heading, *noted, *_scores(results), *(wrap(problem, indent="  ") for problem in problems)])


def _scores(results: Sequence[Stored]) -> list[str]:
    """Return the lines that compare projected speedups with speedups that were measured later, and how many of these
    lay inside the projected band.

    Only results are compared that were made with the same settings but for the workers, and whose workers shared no
    CPUs. If several results projected or measured the same, the last projection and the last measurement count, so that
    each projection counts once.
    """
    scores: dict[tuple[int, int], tuple[list[str], bool]] = {}
    for number, result in enumerate(results, start=1):
        for workers, speedup in curve.measured_points(result.comparison).items():
            for before, point in islice(_said_of(workers, result, results[: number - 1]), 1):
                is_inside = point.lower <= speedup.median <= point.upper
                band = f"{point.lower:.2f}× to {point.upper:.2f}× (#{before})"
                row = [str(number), str(workers), factor(speedup), band, "inside" if is_inside else "OUTSIDE"]
                scores[before, workers] = row, is_inside
    if not scores:
        return []
    heading, rows = ["#", "workers", "measured", "said before", ""], [row for row, _ in scores.values()]
    rows = [heading, *sorted(rows, key=lambda row: int(row[0]))]
    inside = sum(is_inside for _, is_inside in scores.values())
    total = f"projections: {inside} of {len(scores)} measured later inside their 90 % band"
    return ["", aligned(rows, text_columns=(2, 3, 4)), total]


def _said_of(workers: int, result: Stored, earlier: Sequence[Stored]) -> Iterator[tuple[int, ProjectedPoint]]:
    """Yield earlier results' projected points for this number of workers, with the result's number, newest first."""
    for number, before in reversed([*enumerate(earlier, start=1)]):
        projection = None if SHARED in result.comparison.reasons else before.comparison.projection
        if projection and workers > projection.measured[-1]:
            differences = made_differently(before.comparison, result.comparison)
            settings = before.comparison.settings.items() ^ result.comparison.settings.items()
            if all(text.startswith("workers ") for text in differences) and {key for key, _ in settings} <= FREE:
                yield from ((number, point) for point in projection.points if point.workers == workers)


def side_by_side(project: Path, stack: str, first: str, second: str) -> str:
    """Return the text that shows two results side by side, in the order in which the user named them."""
    results, _ = _results(project, stack)
    before, after = (choose(results, wanted, stack) for wanted in (first, second))
    both = before.comparison, after.comparison
    rows = [["", "", "A", "B", "change", ""]]
    rows += [_row(change) for change in changes(*both)]
    differences = made_differently(*both)
    return "\n".join(
        [
            f"A  {_title(before)}",
            f"B  {_title(after)}",
            wrap("made with other: " + "; ".join(differences) if differences else "made with the same", indent="  "),
            "",
            aligned(rows, text_columns=(0, 1, 5)),
            "",
            wrap(how_decided(*both)),
            wrap(f"A: {both[0].verdict}", indent="   "),
            wrap(f"B: {both[1].verdict}", indent="   "),
        ]
    )


def _results(project: Path, stack: str) -> tuple[list[Stored], list[str]]:
    results, problems = stored_results(project, stack)
    if not results:
        raise HistoryError(
            "\n".join([f"stack {stack} has no results in results/{stack}/ yet: `{rwi('up', stack)}`", *problems])
        )
    return results, problems


def _cells(result: Stored) -> list[str]:
    edition = f".{result.edition}" if result.edition > 1 else ""
    commit, answer = result.commit or MISSING, result.comparison.answer
    return [f"{result.measured_at:%Y-%m-%d %H:%M:%S}", commit, result.recipe + edition, answer]


def _notes(number: int, results: Sequence[Stored]) -> Iterator[str]:
    """Yield the speedup of a result, end to end first, because the answer follows from that, and how the result
    differs from the one before."""
    comparison = results[number - 1].comparison
    whole, steps = (
        figures.text(comparison.ratios.get(name), measures.ratio(name)) for name in ("endToEndSpeedup", "speedup")
    )
    yield f"speedup: end to end {whole}, steps only {steps}"
    if number > 1:
        before = results[number - 2].comparison
        change = _loud(speedup_change(before, comparison))
        yield "; ".join([f"against #{number - 1}, steps only: {change}", *made_differently(before, comparison)])


def _loud(change: Change) -> str:
    return change.decision.upper() if change.is_decided else change.decision


def _title(result: Stored) -> str:
    return f"{result.name}, {result.measured_at:%Y-%m-%d %H:%M:%S} UTC, commit {result.commit or 'not recorded'}"


def _row(change: Change) -> list[str]:
    sides = [figures.text(side, change.entry, single="") for side in (change.before, change.after)]
    return [change.title, change.arm, *sides, show_difference(change), _loud(change)]
