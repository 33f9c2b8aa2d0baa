"""What is proved of tables of scripts that train in one process: by the `run.py` next to them, or that of PyTorch's, in
a user's Python."""

import json
import os
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
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


@contextmanager
def of_table(
    request: pytest.FixtureRequest, folder: Path, scripts: Path, python: str
) -> Iterator[dict[Case, "Future[dict[str, Any]]"]]:
    """What is proved of the cases that this session's tests ask for."""
    called = [getattr(item, "callspec", None) for item in request.session.items if item.path == request.path]
    cases = [each.params["case"] for each in called if each and "case" in each.params]
    with proving(cases, folder, scripts, python) as answers:
        yield answers


def differences(name: str, answer: Mapping[str, Any], more: Mapping[str, Any]) -> list[str]:
    """How an answer is not the one that the table has for a script: the outcome is its folder's name."""
    expected = {"outcome": name.partition("/")[0], **more}
    got = {key: answer.get(key) for key in expected}
    return [] if got == expected else [f"{got}, not {expected}: {answer}"]


def marked(cases: Sequence[Case], quick: Collection[Case]) -> list[Any]:
    """The cases as parameters; slow tests but for some."""
    return [
        pytest.param(case, marks=[] if case in quick else [pytest.mark.slow], id=f"{case[0]}-{case[1]}")
        for case in cases
    ]
