"""`rwi sweep workers="1 2 3"`: measures the same under several settings, in one stack, and writes one report.

Every point is an ordinary measurement, published like any other. What was measured is kept whatever happens to the
rest; the same command goes on where it stopped, and tries again what failed.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from cli.look.update import alone
from cli.setup.project import DEFAULT_STACK, ROOT, SWEEP_PREFIX, ToolError, say, stack_text, target_of
from cli.stack import config as stack_config
from cli.stack import settings as stack_settings
from cli.stack.lines import plain
from cli.sweep.engine import SweepStack, UpdateFailedError, UpdateInterruptedError
from cli.sweep.plan import key_of, parse_axes, points_of
from compare.measurement import CompareError
from compare.schema import Comparison
from infra.places.place import choose
from report import sweep as reports
from report import terminal
from report.errors import PageError, PublishError
from report.publish import publish
from report.stored import PAGE
from report.sweep import Sweep
from report.tracking import track
from training.contract import provenance
from training.contract.arms import ARMS
from training.contract.codec import write_whole
from training.contract.recipe import WORKLOADS
from training.contract.workload import named

FOLDER = "sweeps"
TEXT = "report.txt"


def sweep(typed: Mapping[str, str], origin: str, base: Mapping[str, str], *, keep: bool) -> int:
    """Run or continue a sweep over the values `typed`, by key. Return 0 if every point was measured.

    All points share the settings of the stack `origin`, and `base`. With `keep` the stack's resources stay at the end.
    """
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # its lines stand among pulumi's
    settings = stack_text(origin)
    target = base.get("target", target_of(settings))
    requested = _requested(parse_axes(typed), origin, settings, base, target)
    for point in requested.points:  # before anything is made: the last of them would fail after hours
        stack_settings.load(requested.stack, {**base, **point.settings})
    folder, current = _find_or_begin(origin, requested)
    stack = SweepStack(current.stack, settings, target)
    try:
        with alone(target):
            current = _measure_all(current, folder, stack)
    except UpdateInterruptedError:
        say(f"interrupted. The same command goes on where this stopped; stack {current.stack} is kept until then")
        return 130
    finally:
        page = write_report(Sweep.read(folder), folder)
    if not keep:
        _remove(stack)
    else:
        _say_how_to_destroy(current.stack)
    terminal.write((folder / TEXT).read_text(encoding="utf-8") + f"\n{page}")
    return 0 if current.is_complete else 1


def _requested(
    axes: Mapping[str, list[str]], origin: str, settings: str, base: Mapping[str, str], target: str
) -> Sweep:
    both = sorted(axes.keys() & base.keys())
    if both:
        raise ToolError(f"{', '.join(both)}: both swept over and given by --set")
    shared = {
        "stack": origin,
        "settings": settings,
        "dependencies": "".join(provenance.dependencies_hash(named(name).packages) for name in WORKLOADS),
        "host": provenance.host().fingerprint() if choose(target).trains_here else "",
        **{f"{arm} {name}": provenance.code_hash(arm, name) for arm in ARMS for name in WORKLOADS},
    }
    return Sweep(
        stack=SWEEP_PREFIX + origin,
        key=key_of(axes, base, shared),
        axes=dict(axes),
        base=dict(base),
        points=points_of(axes),
    )


def _find_or_begin(stack: str, requested: Sweep) -> tuple[Path, Sweep]:
    """Return an unfinished sweep of this checkout with the same request and the same code, and its folder; otherwise
    begin a new one."""
    sweeps = ROOT / "results" / requested.stack / FOLDER
    for folder in sorted(sweeps.glob(f"*-{requested.key[:8]}"), reverse=True):
        earlier = Sweep.read(folder)
        if earlier.key == requested.key and not earlier.is_complete:
            done = sum(point.result is not None for point in earlier.points)
            say(f"sweep of {stack}: goes on, {done} of {len(earlier.points)} settings are measured")
            return folder, earlier
    folder = sweeps / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{requested.key[:8]}"
    requested.write(folder)
    say(f"sweep of {stack}: {len(requested.points)} settings, in stack {requested.stack}")
    return folder, requested


def _measure_all(sweep: Sweep, folder: Path, stack: SweepStack) -> Sweep:
    """Measure the points that were not measured yet. If a point fails, record its error and continue with the next."""
    for index, point in enumerate(sweep.points):
        if point.result is not None:
            continue
        say(f"setting {index + 1} of {len(sweep.points)}: {point.label}")
        try:
            comparison = Comparison.from_json(stack.measure({**sweep.base, **point.settings}))
            measured = replace(point, result=_published(comparison, sweep.stack), error=None)
        except (UpdateFailedError, CompareError, PublishError) as error:
            say(f"{point.label} failed: {error}")
            measured = replace(point, error=str(error))
        sweep = sweep.with_point(index, measured)
        sweep.write(folder)
    return sweep


def _published(comparison: Comparison, stack: str) -> str:
    """Publish a comparison, and return the name of the folder of its result."""
    try:
        folder = publish(comparison, stack, ROOT)
    except PageError as error:  # a sweep goes by the numbers
        say(f"warning: {error}")
        folder = error.folder
    track(comparison, folder, stack, ROOT)
    return folder.name


def write_report(sweep: Sweep, folder: Path) -> Path:
    """Write the text and the HTML page of a sweep, as far as it was measured, and return the path of the page."""
    from report.sweep_page import render

    numbers = reports.numbers(sweep, ROOT)
    write_whole(folder / TEXT, reports.text(sweep, numbers))
    write_whole(folder / PAGE, render(sweep, numbers))
    return folder / PAGE


def _remove(stack: SweepStack) -> None:
    try:
        stack.remove()
    except (UpdateFailedError, UpdateInterruptedError) as error:
        say(str(error) or "interrupted while destroying")
        _say_how_to_destroy(stack.name)


def _say_how_to_destroy(stack: str) -> None:
    config = stack_config.copy_path(stack).relative_to(ROOT)
    line = plain(f"pulumi destroy --stack {stack} --config-file {config}", DEFAULT_STACK)
    say(f"stack {stack} is kept. To destroy it: {line}")
