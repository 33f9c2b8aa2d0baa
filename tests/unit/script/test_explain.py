"""An arm that gave nothing is one clear message: what was seen, its last lines, what usually helps."""

from pathlib import Path
from typing import Any

import pytest

from cli.tryout import explain
from cli.tryout.run_arm import Outcome
from infra.places.local import guard
from tests.golden import Wording
from tests.unit.script.test_facts import rank
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
        ("ModuleNotFoundError: No module named 'mine'", "--python … names the interpreter"),
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


OF_RAY = (
    'Traceback (most recent call last):\n  File "/x/site-packages/ray/train/v2/local.py", line 7, in f\n    raise\n'
)
LIBRARY = (
    'Traceback (most recent call last):\n  File "/x/site-packages/torch/distributed/c10d.py", line 7, in f\n    do()\n'
)


@pytest.mark.parametrize(
    ("printed", "code", "expected"),
    [
        ("AssertionError: Torch not compiled with CUDA enabled", 1, True),
        ("ValueError: ProcessGroupNCCL is only supported with GPUs, no GPUs found!", 1, True),
        ("train.py: error: unrecognized arguments: --num-workers 0", 2, True),
        ("ModuleNotFoundError: No module named 'mine'", 1, True),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'data.csv'", 1, True),
        ("KeyError: 'x'", 1, True),
        (f"{LIBRARY}KeyError: 'x'", 1, True),
        ("    loader = make(args.rows)\n             ^^^^^^^^^^^^^^^\nValueError: no rows", 1, True),
        # What has to do with one rank, with Ray, or with the machine as it is now
        ("KeyError: 'WORLD_SIZE'", 1, False),
        ("    assert dist.get_world_size() >= 2\n           ^^^^^^^^^^^^^^^^^^^^^^^^^^^\nAssertionError", 1, False),
        ("AssertionError: at least two ranks are needed", 1, False),
        ("no NVIDIA driver on your system\n    start(2)\nValueError: pipeline needs 2 ranks", 1, False),
        ("ValueError: environment variable RANK expected, but not set", 1, False),
        (f"{OF_RAY}RuntimeError: not in local mode", 1, False),
        ("MemoryError", 1, False),
        ("", 137, False),
        ("KeyError: 'x'", 0, False),
        ("KeyError: 'x'", guard.DEADLINE, False),
    ],
)
def test_what_fails_in_every_arm(printed: str, code: int, expected: bool) -> None:
    """A failure of the first arm that is not its own doing: the others are not tried."""
    assert expected == explain.fails_in_every_arm(outcome(f"{printed}\n", code))


@pytest.mark.parametrize(
    ("printed", "hints"),
    [
        ("FileNotFoundError: [Errno 2] No such file or directory: 'data/a.csv'", True),
        ("[rank0]: FileNotFoundError: [Errno 2] No such file or directory: 'a.csv'", True),
        ("tail: cannot open 'a.csv' for reading: No such file or directory", True),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/data/a.csv'", False),
        ("tail: cannot open '/data/a.csv' for reading: No such file or directory", False),
    ],
)
def test_an_absolute_path_is_missing_in_every_folder(printed: str, *, hints: bool) -> None:
    """So the folder in which an arm starts is no hint."""
    traceback = f'Traceback (most recent call last):\n  File "/mine/a.py", line 1, in <module>\n{printed}\n'

    assert hints == ("absolute paths" in explain.helps(traceback))
    assert explain.fails_in_every_arm(outcome(traceback, 1)) or "rank" in printed


def test_a_script_that_trained_first_may_train_elsewhere() -> None:
    """It failed after a step, so another arm may say more."""
    assert not explain.fails_in_every_arm(outcome("KeyError: 'x'", 1, seen=[rank(0, 1)]))


def test_a_run_out_of_time_says_where_it_was(wording: Wording) -> None:
    """The innermost lines of a rank; and what gives it longer."""
    said = explain.problem(
        outcome("last words", guard.DEADLINE, trace='  File "train.py", line 7 in wait'), script(), 30
    )

    assert "line 7 in wait" in said  # not prose: a traceback
    assert "--limit 60" in said
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
