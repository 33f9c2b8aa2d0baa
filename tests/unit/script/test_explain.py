"""An arm that gave nothing is one clear message: what was seen, its last lines, what usually helps."""

from pathlib import Path
from typing import Any

import pytest

from infra.places.local import guard
from tools.tryout import explain
from tools.tryout.run_arm import Outcome
from training.launch.foreign_command import MOST_PRINTED
from training.workloads.script.recognise import Script


def script(*modules: str) -> Script:
    """One that imports these."""
    return Script(path=Path("/mine/train.py"), kind="other", modules=frozenset(modules), arguments=())


def outcome(printed: str = "", code: int = 0, **more: Any) -> Outcome:
    """An arm that saw no step."""
    values: dict[str, Any] = {
        "arm": "ray",
        "seconds": 1.0,
        "seen": [],
        "printed_bytes": len(printed),
        "trace": "",
        "end": {},
    }
    return Outcome(code=code, printed=printed, **(values | more))


@pytest.mark.parametrize(
    ("printed", "help_"),
    [
        ("ModuleNotFoundError: No module named 'ray'", "pip install 'ray[train]'"),
        ("ModuleNotFoundError: No module named 'mine'", "PYTHON=… names the interpreter"),
        ("AssertionError: Torch not compiled with CUDA enabled", "torch.cuda.is_available()"),
        ("RuntimeError: No CUDA GPUs are available", "asks for a GPU"),
        ("ValueError: ProcessGroupNCCL is only supported with GPUs", "'gloo'"),
        ("urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>", "download first"),
        ("- [socket.h:89]: Failed to find IP address. system error:Network is unreachable", "XGBoost before 3.0"),
        ("train.py: error: unrecognized arguments: --num-workers 0", "its own --help"),
        ("AttributeError: 'NoneType' object has no attribute 'to_directory'", "read it only where there is one"),
        ("KeyError: 'WORLD_SIZE'", "with a default"),
        ("ValueError: PerReplica", "tf-keras"),
        ("Exception: The current node timed out during startup. This could", "keep this machine busy"),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'data.csv'", "absolute paths"),
    ],
)
def test_a_failure_has_its_last_lines_and_what_usually_helps(printed: str, help_: str) -> None:
    """By the words that it ended with."""
    said = explain.problem(outcome(f"Traceback\n{printed}\n", 1), script("torch"), 90)

    assert "exit code 1" in said
    assert help_ in said
    assert f"| {printed[:40]}" in said


def test_a_run_out_of_time_says_where_it_was() -> None:
    """The innermost lines of a rank; and what gives it longer."""
    said = explain.problem(
        outcome("last words", guard.DEADLINE, trace='  File "train.py", line 7 in wait'), script(), 30
    )

    assert "did not end within 30 s" in said
    assert "line 7 in wait" in said
    assert "LIMIT=60" in said


def test_a_flood_is_no_failure_of_its_exit_code() -> None:
    """It was ended because it prints."""
    said = explain.problem(outcome("x" * 10, guard.ABANDONED, printed_bytes=MOST_PRINTED + 1), script("torch"), 90)

    assert "printed more than 64 MiB" in said


@pytest.mark.parametrize(
    ("modules", "end", "words"),
    [
        ((), {}, "imported no framework that trains"),
        (("torch",), {}, "without a step that can be seen"),
        (("torch",), {"left": 2}, "left 2 processes in the background"),
        (("torch",), {"processes": 500}, "more than 400 processes"),
    ],
)
def test_an_end_without_a_step(modules: tuple[str, ...], end: dict[str, int], words: str) -> None:
    """Exit code 0 is not enough."""
    assert words in explain.problem(outcome(end=end), script(*modules), 90)


def test_torchrun_speaks_after_the_script() -> None:
    """The script's own traceback is shown, not that of its launcher."""
    printed = (
        "Traceback (most recent call last):\n  mine\nValueError: mine\nTraceback (most recent call last):\n  torchrun\n"
    )
    said = explain.last_lines(printed + "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n=====\n")

    assert "ValueError: mine" in said.splitlines()[-1]


def test_a_traceback_that_names_its_rank_is_the_scripts_own() -> None:
    """PyTorch writes the rank before each line once a process has joined the others."""
    printed = "[rank0]: Traceback (most recent call last):\n[rank0]: RuntimeError: Connection closed by peer\n"
    printed += "Traceback (most recent call last):\n  torchrun\n    raise ChildFailedError(\n"

    assert "[rank0]: RuntimeError: Connection closed by peer" == explain.last_lines(printed).splitlines()[-1]
    assert "a rank ended before the others" in explain.problem(outcome(printed, 1), script("torch"), 90)
