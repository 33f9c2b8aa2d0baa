"""Break the product's promises, one at a time, and say of which the tests notice it.

    python -m tests.mutants                             # all of them: some minutes
    python -m tests.mutants compare arms-not-in-turn    # those of a file, and one by its name

Nothing here is changed: each is applied to a copy, which has what is not committed, too. Its tests have to pass there
before.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from tests.mutants.mutants import PROJECT, Mutant, NotAppliedError, mutants, sources

KILLED = "killed"
LONGEST_SECONDS = 300


class Outcome(NamedTuple):
    """What became of a mutant, and the test that noticed it or what is wrong."""

    what: str
    detail: str = ""


class Copies:
    """Copies of the project, as many as mutants run at once."""

    def __init__(self, folder: Path, number: int) -> None:
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        files = subprocess.check_output(listed, cwd=PROJECT, text=True).split("\0")
        self._free: SimpleQueue[Path] = SimpleQueue()
        for index in range(number):
            copy = folder / str(index)
            for file in files:
                if file and (PROJECT / file).is_file():
                    (copy / file).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(PROJECT / file, copy / file)
            for ignored in (".venv", ".tools"):
                if (PROJECT / ignored).exists():
                    (copy / ignored).symlink_to((PROJECT / ignored).resolve())
            self._free.put(copy)

    def run(self, tests: tuple[str, ...], changed: tuple[str, str] | None = None) -> tuple[int, str]:
        """Return the exit code of these tests in a copy with that file changed, and what pytest printed."""
        copy = self._free.get()
        try:
            if changed:
                (copy / changed[0]).write_text(changed[1], encoding="utf-8")
            return _pytest(copy, tests)
        finally:
            if changed:
                shutil.copy2(PROJECT / changed[0], copy / changed[0])
            self._free.put(copy)


def _pytest(copy: Path, tests: tuple[str, ...]) -> tuple[int, str]:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--tb=line", *tests]
    try:
        done = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return -1, f"not ended after {LONGEST_SECONDS} s"
    return done.returncode, done.stdout + done.stderr


def _last_line(printed: str) -> str:
    return next(reversed(printed.strip().splitlines()), "")


def _problem(copies: Copies, tests: tuple[str, ...]) -> str:
    """Return what is wrong with these tests while nothing is; "" if they pass."""
    code, printed = copies.run(tests)
    return "" if code == 0 and " passed" in printed else _last_line(printed)


def _try(copies: Copies, texts: dict[str, str], broken: dict[tuple[str, ...], str], mutant: Mutant) -> Outcome:
    try:
        changed = mutant.applied(texts)
    except NotAppliedError as error:
        return Outcome("DOES NOT APPLY", str(error))
    if why := broken[mutant.tests]:
        return Outcome("TESTS FAIL WITHOUT IT", why)
    code, printed = copies.run(mutant.tests, changed)
    if code == 0:
        return Outcome("SURVIVED", f"{mutant.promise} Not held by {' '.join(mutant.tests)}")
    noticed = re.search(r"^FAILED (.+?)(?: - |$)", printed, re.MULTILINE)
    if code == 1 and noticed:
        return Outcome(KILLED, noticed[1])
    return Outcome("TESTS DID NOT RUN", _last_line(printed))


def main() -> int:
    """Exit code 0 where every mutant is killed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="of a mutant, or of a file of them; none: all")
    parser.add_argument("--at-once", type=int, default=2, metavar="N")
    given = parser.parse_args()
    chosen, killed = mutants(given.names), 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(given.at_once) as pool:
        copies = Copies(Path(folder), given.at_once)
        sets = list(dict.fromkeys(mutant.tests for mutant in chosen))
        try:
            broken = dict(zip(sets, pool.map(partial(_problem, copies), sets), strict=True))
            outcomes = pool.map(partial(_try, copies, sources(), broken), chosen)
            for mutant, outcome in zip(chosen, outcomes, strict=True):
                print(f"{outcome.what:8}  {mutant.name}  {outcome.detail}", flush=True)
                killed += outcome.what == KILLED
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)
            return 130
    print(f"{killed} of {len(chosen)} killed")
    return int(killed < len(chosen))


if __name__ == "__main__":
    sys.exit(main())
