"""Says whether all that failed beside other tests passed when it ran alone: the only failures that CI forgives.

Not enough: that the second run ended well. A test that it skipped, or did not find, has not passed; and where the
first run ended early its other tests never ran.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from xml.etree import ElementTree

from tools.setup.project import ToolError, run_main
from tools.tiers import outcome

COLLECTED = ".collected"  # instead of .xml: the file in which tests/conftest.py leaves how many tests were to run


def outcomes(report: Path) -> dict[str, set[str]]:
    """How each test ended, from pytest's JUnit file: one that fails twice, as in its end, stands there twice."""
    ended: dict[str, set[str]] = {}
    for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314 - pytest wrote it just now
        ended.setdefault(f"{case.get('classname')}::{case.get('name')}", set()).add(outcome(case))
    return ended


def problems(first: Path, second: Path) -> list[str]:
    """Why the first run's failures stay failures; none where each passed in the second."""
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
    """ToolError with each failure that stays one."""
    parser = argparse.ArgumentParser(prog="python -m tools.second_run", description=__doc__)
    parser.add_argument("first", type=Path, help="pytest's JUnit file of all tests")
    parser.add_argument("second", type=Path, help="that of those which had failed")
    options = parser.parse_args()
    if lines := problems(options.first, options.second):
        raise ToolError("\n".join(lines))
    return 0


if __name__ == "__main__":
    run_main(main)
