"""cli.tiers: a tier that did not run is no green one."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from cli import tiers
from cli.setup.project import ROOT

REPORT = """
<testsuites><testsuite>
<testcase classname="tests.unit.test_a" name="a" time="1.4"/>
<testcase classname="tests.unit.test_a" name="b" time="2.2"><failure message="m"/></testcase>
<testcase classname="tests.unit.test_a" name="c"><error message="m"/></testcase>
<testcase classname="tests.training.test_b.TestX" name="d"><skipped message="m"/></testcase>
<testcase classname="tests.training.test_c" name="e"><skipped message="slow: m"/></testcase>
<testcase classname="tests.training.test_c" name="f"><skipped message="late: m"/></testcase>
</testsuite></testsuites>
"""


def test_tests_are_counted_by_tier(tmp_path: Path) -> None:
    """An error in a fixture is a failure; what was left out is not what could not run."""
    report = tmp_path / "report.xml"
    report.write_text(REPORT, encoding="utf-8")
    counts = tiers.count(report)

    training = Counter({"skipped": 1, "left out": 1, "late": 1})
    assert counts == {"unit": Counter(passed=1, failed=2), "training": training}
    assert [line.split() for line in tiers.table(counts, tiers.seconds(report)).splitlines()] == [
        ["tier", "passed", "failed", "skipped", "late", "left", "out", "seconds"],
        ["training", "0", "0", "1", "1", "1", "0"],
        ["unit", "1", "2", "0", "0", "0", "4"],
    ]
    assert tiers.late(report) == ["tests.training.test_c: 1"]


def test_each_failure_is_named_with_its_reason(tmp_path: Path) -> None:
    """CI prints them last, where a log that was cut still has them."""
    report = tmp_path / "report.xml"
    report.write_text(REPORT.replace('"m"/></t', '"m\n n"/></t', 1), encoding="utf-8")

    assert tiers.failed(report) == [
        "failure: tests.unit.test_a::b: m n",  # not prose: of this test
        "error: tests.unit.test_a::c: m",
    ]


def test_a_tier_all_skipped_or_absent_did_not_run() -> None:
    """Only those that need more than a package index, or for which there was no time, may be skipped as a whole."""
    counts = {"unit": Counter(passed=3, failed=1), "training": Counter(skipped=4), "cluster": Counter(skipped=2)}
    counts["search"] = Counter(late=2)

    assert tiers.not_run(["apiserver", "cluster", "image", "program", "search", "training", "unit"], counts) == [
        "program",
        "training",
    ]


def test_a_tier_is_a_folder_that_holds_tests(tmp_path: Path) -> None:
    """Helpers beside them and empty folders are none."""
    for name in ("unit/test_a.py", "program/test_b.py", "policy/helper.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()

    assert tiers.tiers_of(tmp_path) == ["program", "unit"]


def test_no_test_has_a_second_try() -> None:
    """One that passes then has failed: what it depends on is to be found."""
    files = [ROOT / name for name in (".ci/run", "rwi", "pyproject.toml")]
    files += (ROOT / ".github/workflows").glob("*.yml")

    assert [] == [file.name for file in files if re.search("last-failed|--lf|reruns|flaky", file.read_text("utf-8"))]
