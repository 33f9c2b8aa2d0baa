"""Checks that all tests that failed next to others passed when run alone: the only failures that CI tolerates.

A successful second run is not enough: a test that it skipped or did not collect has not passed, and if the first run
ended early, its other tests never ran.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from xml.etree import ElementTree

from cli.setup.project import ToolError, run_main
from cli.tiers import outcome

COLLECTED = ".collected"  # instead of .xml: the file in which tests/conftest.py leaves how many tests were to run


def outcomes(report: Path) -> dict[str, set[str]]:
    """Read each test's outcomes from pytest's JUnit file: a test that also fails at its teardown is there twice, and
    one that began and has no result is there without its name, as if it had passed."""
    ended: dict[str, set[str]] = {}
    cases = ElementTree.parse(report).iterfind(".//testcase[@name]")  # noqa: S314 - pytest wrote it just now
    for case in cases:
        ended.setdefault(f"{case.get('classname')}::{case.get('name')}", set()).add(outcome(case))
    return ended


def problems(first: Path, second: Path) -> list[str]:
    """Return why the first run's failures remain failures; empty if each passed in the second."""
    ran, again = outcomes(first), outcomes(second)
    collected = first.with_suffix(COLLECTED)
    count = int(collected.read_text(encoding="utf-8")) if collected.is_file() else None
    early = [] if count is not None and len(ran) >= count else [f"only {len(ran)} of {count or 'all'} tests ran"]
    failed = [name for name, ended in ran.items() if "failed" in ended]
    return early + [
        f"{name}: {' and '.join(sorted(again[name])) if name in again else 'not run'} the second time"
        for name in failed
        if again.get(name) != {"passed"}
    ]


def main() -> int:
    """Raise ToolError with each failure that remains."""
    parser = argparse.ArgumentParser(prog="python -m cli.second_run", description=__doc__)
    parser.add_argument("first", type=Path, help="pytest's JUnit file of all tests")
    parser.add_argument("second", type=Path, help="that of those which had failed")
    options = parser.parse_args()
    if lines := problems(options.first, options.second):
        raise ToolError("\n".join(lines))
    return 0


if __name__ == "__main__":
    run_main(main)
