"""Measures every adversary and prints what was expected and what came of it; exit code 1 where these differ.

TRY_PYTHON=…/python python -m tests.script.adversaries --kept .state/adversaries half_ keras_
"""

import argparse
import random
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.script.adversaries.case import Case
from tests.script.adversaries.measure import ArmFailedError, got, missing, problems, row
from tests.script.adversaries.table import BEYOND, CASES


def main() -> int:
    """Print a line a case as it comes, and how many are as they should be."""
    parser = argparse.ArgumentParser(prog="python -m tests.script.adversaries", description=__doc__)
    parser.add_argument("only", nargs="*", help="parts of names; without any: all")
    parser.add_argument("--kept", type=Path, help="folder of runs that are not made again while nothing has changed")
    parser.add_argument("--at-once", type=int, default=2, help="cases that are run at a time")
    parser.add_argument("--seconds", type=float, help="none begins later; in random order, so that each has its day")
    given = parser.parse_args()
    cases = [case for case in (*CASES, *BEYOND) if not given.only or any(part in case.name for part in given.only)]
    began, bad, late = time.monotonic(), 0, list[str]()
    if given.seconds is not None:
        random.shuffle(cases)

    def in_time(case: Case) -> tuple[str, bool] | None:
        is_late = given.seconds is not None and time.monotonic() - began > given.seconds
        return None if is_late else tried(case, given.kept)

    with ThreadPoolExecutor(given.at_once) as pool:
        for case, came in zip(cases, pool.map(in_time, cases), strict=True):
            if not came:
                late.append(case.name)
                continue
            line, is_good = came
            print(line, flush=True)
            bad += not is_good
    ran = len(cases) - len(late)
    print(f"{ran - bad} of {ran} as expected, in {time.monotonic() - began:.0f} s")
    if late:
        print(f"{len(late)} were not run, for lack of time: {', '.join(sorted(late))}")
    return 1 if bad else 0


def tried(case: Case, kept: Path | None) -> tuple[str, bool]:
    """The line of a case, and whether it is as it should be."""
    if why := missing(case):
        return f"{case.name:<38} skipped: {why}", True
    try:
        with tempfile.TemporaryDirectory(prefix="adversary-") as folder:
            came = got(case, Path(folder) / "run", kept)
    except ArmFailedError as error:
        return row(case, None, [str(error)[-600:]]), False
    said = problems(case, came)
    return row(case, came, said), not said


if __name__ == "__main__":
    sys.exit(main())
