"""An arm that gave nothing is one clear message: what was seen, its last lines, what usually helps."""

from pathlib import Path
from typing import Any

import pytest

from infra.places.local import guard
from tests.golden import Wording
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
        ("RuntimeError: nccl2 requires at least one CUDA device", "'gloo'"),
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


def test_a_run_out_of_time_says_where_it_was(wording: Wording) -> None:
    """The innermost lines of a rank; and what gives it longer."""
    said = explain.problem(
        outcome("last words", guard.DEADLINE, trace='  File "train.py", line 7 in wait'), script(), 30
    )

    assert "line 7 in wait" in said  # not prose: a traceback
    assert "LIMIT=60" in said
    wording("try", said)


def test_a_flood_is_no_failure_of_its_exit_code(wording: Wording) -> None:
    """It was ended because it prints."""
    said = explain.problem(outcome("x" * 10, guard.ABANDONED, printed_bytes=MOST_PRINTED + 1), script("torch"), 90)

    assert "64 MiB" in said
    wording("try", said)


@pytest.mark.parametrize(
    ("modules", "end"),
    [
        pytest.param((), {}, id="no framework"),
        pytest.param(("torch",), {}, id="no step"),
        pytest.param(("torch",), {"left": 2}, id="processes left"),
        pytest.param(("torch",), {"processes": 500}, id="too many processes"),
    ],
)
def test_an_end_without_a_step(wording: Wording, modules: tuple[str, ...], end: dict[str, int]) -> None:
    """Exit code 0 is not enough."""
    wording("try", explain.problem(outcome(end=end), script(*modules), 90))


def test_torchrun_speaks_after_the_script() -> None:
    """The script's own traceback is shown, not that of its launcher."""
    printed = (
        "Traceback (most recent call last):\n  mine\nValueError: mine\nTraceback (most recent call last):\n  torchrun\n"
    )
    said = explain.last_lines(printed + "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n=====\n")

    assert "ValueError: mine" in said.splitlines()[-1]


def test_a_traceback_that_names_its_rank_is_the_scripts_own(wording: Wording) -> None:
    """PyTorch writes the rank before each line once a process has joined the others."""
    printed = "[rank0]: Traceback (most recent call last):\n[rank0]: RuntimeError: Connection closed by peer\n"
    printed += "Traceback (most recent call last):\n  torchrun\n    raise ChildFailedError(\n"

    assert printed.splitlines()[1] == explain.last_lines(printed).splitlines()[-1]
    wording("try", explain.problem(outcome(printed, 1), script("torch"), 90))
