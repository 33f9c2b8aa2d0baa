"""What is proved of tables of scripts that train in one process: by the `run.py` next to them, or that of PyTorch's, in
a user's Python."""

import json
import os
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests import leftovers

Case = tuple[str, int]
"""A script's name in its table, and the number of ranks."""


@contextmanager
def proving(
    cases: Sequence[Case], folder: Path, scripts: Path, python: str, mutant: str = "", **variables: str
) -> Iterator[dict[Case, Any]]:
    """What is proved of each case, one after the other, while tests wait for the first ones."""
    answers: dict[Case, Future[dict[str, Any]]] = {case: Future() for case in cases}
    around = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    around |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", **variables}
    run = next(each for each in (scripts / "run.py", scripts.parent / "plain/run.py") if each.exists())
    command = [python, str(run), *([mutant] if mutant else [])]
    pipe = subprocess.PIPE
    with (
        leftovers.ahead("plain scripts"),
        subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=folder, env=around) as process,
    ):
        assert process.stdin is not None
        process.stdin.write(json.dumps([[str(scripts / f"{name}.py"), workers] for name, workers in cases]))
        process.stdin.close()
        reader = Thread(target=_read, args=(process, answers))
        reader.start()
        yield answers
        process.kill()
        reader.join()


def _read(process: "subprocess.Popen[str]", answers: dict[Case, "Future[dict[str, Any]]"]) -> None:
    assert process.stdout is not None
    assert process.stderr is not None
    for answer, line in zip(answers.values(), process.stdout, strict=False):
        answer.set_result(json.loads(line))
    error = "" if all(answer.done() for answer in answers.values()) else process.stderr.read()
    for answer in answers.values():
        if not answer.done():
            answer.set_exception(RuntimeError(error))


@dataclass(frozen=True)
class Table:
    """What is to be proved of scripts, which are in a folder for each outcome, and which mutants must be seen."""

    scripts: Path
    python: str
    expected: Mapping[str, Mapping[str, Any]]
    """What is proved of each script, besides its outcome."""
    mutants: Mapping[str, Sequence[str]]
    """Scripts of which each mutant says another thing."""

    def problems(self, name: str, answer: Mapping[str, Any]) -> list[str]:
        """How an answer is not the one that is expected, or the script has left something in its folder."""
        expected = {"outcome": name.partition("/")[0], **self.expected[name], "left": []}
        got = {key: answer.get(key) for key in expected}
        return [] if got == expected else [f"{got}, not {expected}: {answer}"]

    @contextmanager
    def proved(self, request: pytest.FixtureRequest, folder: Path) -> Iterator[dict[Case, "Future[dict[str, Any]]"]]:
        """What is proved of the cases that this session's tests ask for."""
        called = [getattr(item, "callspec", None) for item in request.session.items if item.path == request.path]
        cases = [each.params["case"] for each in called if each and "case" in each.params]
        with proving(cases, folder, self.scripts, self.python) as answers:
            yield answers

    def unseen(self, mutant: str, folder: Path) -> list[str]:
        """Scripts of which a mutant ought to say another thing, and does not."""
        names = self.mutants[mutant]
        with proving([(name, 2) for name in names], folder, self.scripts, self.python, mutant) as answers:
            return [name for name in names if not self.problems(name, answers[name, 2].result())]

    def unlisted(self) -> set[str]:
        """Scripts that are in the folders or in the table, and not in both."""
        there = {f"{path.parent.name}/{path.stem}" for path in self.scripts.glob("*/*.py")}
        return set(self.expected) ^ {name for name in there if not name.startswith("other/")}


def marked(cases: Sequence[Case], quick: Collection[Case]) -> list[Any]:
    """The cases as parameters; slow tests but for some."""
    return [
        pytest.param(case, marks=[] if case in quick else [pytest.mark.slow], id=f"{case[0]}-{case[1]}")
        for case in cases
    ]
