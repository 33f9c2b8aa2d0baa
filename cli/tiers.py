"""Reads what `rwi test --slow` ran. Fails when a tier of tests has none that passed, and when a test was left out. The
files of tests for which CI had no time are named."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

from cli.setup.project import ROOT, ToolError, run_main
from training.machine.command_line import rwi

# They need a control plane's programs; docker, minikube and the plugins; docker; a Prometheus and Ray's dashboard; a
# whole cluster's programs. Their tests say what is absent.
MAY_BE_SKIPPED = frozenset({"apiserver", "cluster", "image", "metrics", "platform"})
LEFT_OUT = "slow: "  # how the reason begins of a test that `./rwi test` leaves out: tests/conftest.py
LATE = "late: "  # and of one that would have begun after `--begin-until`
MOST_WHY = 1000  # characters of why a test failed


def tiers_of(tests: Path) -> list[str]:
    """Return the folders that contain tests."""
    return sorted(folder.name for folder in tests.iterdir() if folder.is_dir() and any(folder.glob("test_*.py")))


def cases(report: Path) -> list[ElementTree.Element]:
    """Return the tests of pytest's JUnit file."""
    return list(ElementTree.parse(report).iter("testcase"))  # noqa: S314 - pytest wrote it just now


def tier_of(case: ElementTree.Element) -> str:
    """Return the name of the folder of one test, `other` if it is not in a folder of tests."""
    path = case.get("classname", "").split(".")
    return path[1] if path[0] == "tests" and len(path) > 1 else "other"


def count(report: Path) -> dict[str, Counter[str]]:
    """Count the outcomes of each tier's tests, from pytest's JUnit file."""
    counts: dict[str, Counter[str]] = {}
    for case in cases(report):
        counts.setdefault(tier_of(case), Counter())[outcome(case)] += 1
    return counts


def seconds(report: Path) -> dict[str, float]:
    """Return the total seconds of the tests in each tier: more than elapsed, since several run at a time."""
    sums: dict[str, float] = {}
    for case in cases(report):
        sums[tier_of(case)] = sums.get(tier_of(case), 0) + float(case.get("time", 0))
    return sums


def failed(report: Path) -> list[str]:
    """Return a line for each failed test, with the beginning of its message, for the end of a long log."""
    lines = []
    for case in cases(report):
        for kind in ("failure", "error"):
            for problem in case.findall(kind):
                why = " ".join(problem.get("message", "").split())[:MOST_WHY]
                lines.append(f"{kind}: {case.get('classname')}::{case.get('name')}: {why}")
    return lines


def late(report: Path) -> list[str]:
    """Return the files with tests for which there was no time, each with the number of these tests."""
    files = Counter(case.get("classname", "") for case in cases(report) if outcome(case) == "late")
    return [f"{file}: {count}" for file, count in sorted(files.items())]


def outcome(case: ElementTree.Element) -> str:
    """Return the outcome of one test."""
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    skipped = case.find("skipped")
    if skipped is None:
        return "passed"
    why = skipped.get("message", "")
    return "left out" if why.startswith(LEFT_OUT) else "late" if why.startswith(LATE) else "skipped"


def table(counts: dict[str, Counter[str]], sums: dict[str, float]) -> str:
    """Return a table with a line for each tier."""
    kinds = ("passed", "failed", "skipped", "late", "left out")
    lines = ["".join([f"{'tier':<10}", *(f"{kind:>10}" for kind in (*kinds, "seconds"))])]
    for tier, outcomes in sorted(counts.items()):
        numbers = "".join(f"{outcomes[kind]:>10}" for kind in kinds)
        lines.append(f"{tier:<10}{numbers}{sums[tier]:>10.0f}")
    return "\n".join(lines)


def not_run(tiers: list[str], counts: dict[str, Counter[str]]) -> list[str]:
    """Return the tiers in which no test passed, although these tiers may not be skipped and time did not run out."""
    ran = {tier for tier, outcomes in counts.items() if outcomes["passed"] or outcomes["late"]}
    return [tier for tier in tiers if tier not in MAY_BE_SKIPPED | ran]


def main() -> int:
    """Print the table of tests. Raise ToolError if tiers did not run, or tests were left out."""
    parser = argparse.ArgumentParser(prog="python -m cli.tiers", description=__doc__)
    parser.add_argument("report", type=Path, help="pytest's JUnit file")
    report = parser.parse_args().report
    if not report.is_file():
        raise ToolError(f"{report} is not there: pytest did not get to its end")
    counts = count(report)
    print("\n".join([table(counts, seconds(report)), *failed(report)]))
    if without_time := late(report):
        print("\n  ".join(["tests for which there was no time:", *without_time]))
    sys.stdout.flush()
    missing = not_run(tiers_of(ROOT / "tests"), counts)
    if missing:
        raise ToolError(f"no test passed in {', '.join(missing)}: the reasons for skipping are above")
    if left_out := sum(outcomes["left out"] for outcomes in counts.values()):
        raise ToolError(f"{left_out} slow tests were left out; type: {rwi('test --slow')}")
    return 0


if __name__ == "__main__":
    run_main(main)
