"""A run of a script: what it prints reaches the log without secrets, and how it failed is one message."""

import io
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.golden import Wording
from tests.limits import LONGEST_SECONDS
from training.contract.provenance import PROJECT
from training.launch import entry
from training.launch.environment import IN_OTHER_IMAGE
from training.launch.foreign_command import End
from training.machine import cgroup
from training.workloads.script import launch, resolve
from training.workloads.script import printed as printed_module
from training.workloads.script.printed import Printed
from training.workloads.script.recipe import ScriptRecipe
from training.workloads.script.recognise import Script
from training.workloads.script.resolve import ResolvedScript


def end(code: int = 0, processes: int = 3) -> End:
    """Of a command."""
    return End(code=code, began=0.0, ended=1.0, left=0, processes=processes)


def resolved(**changes: Any) -> ResolvedScript:
    """A script that was found."""
    script = Script(path=Path("train.py"), kind="torchrun", modules=frozenset(), arguments=())
    found = ResolvedScript(recipe=ScriptRecipe(), script=script, python="python", versions={})
    return replace(found, **changes)


@pytest.mark.parametrize(
    ("secrets", "printed", "passed_on"),
    [
        pytest.param(
            {"A": "a-token", "B": "a-token-of-mine", "C": ""},
            b"with a-token-of-mine and a-token\nnothing\nlast a-token",
            b"with [secret] and [secret]\nnothing\nlast [secret]",
            id="the longer one first, of which the shorter is a part; empty ones are none",
        ),
        pytest.param(
            {"KEY": "-----BEGIN\nabcdef\n-----END\n"},
            b"-----BEGIN\nabcdef\n-----END\nlast",
            b"[secret]\n[secret]\n[secret]\nlast",
            id="one of several lines, by each of them",
        ),
        pytest.param(
            {"KEY": '{\n"key": "abcdef"\n}'},
            b'{"loss": 1}\n"key": "abcdef"\n',
            b'{"loss": 1}\n[secret]\n',
            id="a line that is a brace alone stands in every JSON",
        ),
    ],
)
def test_a_secret_is_in_no_line(
    secrets: dict[str, str], printed: bytes, passed_on: bytes, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """What others have, too, is not hidden."""
    assert Printed(secrets).pass_on(io.BytesIO(printed))
    assert passed_on == capfdbinary.readouterr().out


def test_a_flood_is_ended(
    wording: Wording, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """And the message says so."""
    for module in (launch, printed_module):
        monkeypatch.setattr(module, "MOST_PRINTED", 20)
    printed = Printed({})

    assert not printed.pass_on(io.BytesIO(b"0123456789\n" * 3))
    assert b"0123456789\n" == capfdbinary.readouterr().out
    with pytest.raises(launch.ArmError) as refused:
        launch._refuse_failure(end(-9), printed, "ray", resolved())
    wording("script", str(refused.value))


@pytest.mark.parametrize(
    ("ended", "number"),
    [
        pytest.param(end(3), "3", id="exit code"),
        pytest.param(end(-11), "11", id="signal"),
        pytest.param(end(-9, 401), "400", id="processes"),
    ],
)
def test_a_failed_arm_is_one_message(wording: Wording, ended: End, number: str) -> None:
    """What came before it in the log says why."""
    with pytest.raises(launch.ArmError, match=rf"\b{number}\b") as refused:
        launch._refuse_failure(ended, Printed({}), "ray", resolved())
    wording("script", str(refused.value))


@pytest.mark.parametrize(
    ("where", "key"),
    [
        pytest.param({"in_pods": True}, "requirements", id="our image"),
        pytest.param({"in_pods": True}, "image", id="an image of the user's"),
        pytest.param({"python": "../mine/.venv/bin/python"}, "python", id="this machine"),
        pytest.param({}, "every node", id="a Ray cluster"),
    ],
)
def test_a_module_that_is_missing_names_what_brings_it(
    where: dict[str, Any],
    key: str,
    wording: Wording,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    """An import within a function is seen by no preview: the run that fails by it names the key, or the place."""
    if key == "image":
        monkeypatch.setattr(resolve, "PROJECT", Path(IN_OTHER_IMAGE))
    printed = Printed({})
    printed.pass_on(io.BytesIO(b"Traceback\nModuleNotFoundError: No module named 'albumentations.core'\nlast\n"))
    capfdbinary.readouterr()

    with pytest.raises(launch.ArmError, match=rf"\b{key}\b") as refused:
        launch._refuse_failure(end(1), printed, "ray", resolved(**where))

    assert "albumentations.core" in str(refused.value)
    assert "./rwi try" not in str(refused.value)
    wording("script", str(refused.value))


@pytest.mark.parametrize(
    ("arm", "key", "limit", "said"),
    [
        ("baseline", "workerMemory", 2**30, "1024 MiB.*\n  pulumi config set workerMemory 2048Mi"),
        ("wide", "workerMemory", 2**30, "pulumi config set workerMemory 1024Mi"),
        ("ray", "headMemory", 2**30, "pulumi config set headMemory 2048Mi"),
        ("baseline", "", 2**30, "fewer workers"),
        ("baseline", "workerMemory", None, "fewer workers"),
    ],
)
def test_what_the_system_ended_for_its_memory_is_named(
    arm: str, key: str, limit: int | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the line that gives it more: the pod of wide has the memory of all workers, here of two."""
    monkeypatch.setattr(cgroup, "memory_limit", lambda: limit)

    assert re.search(f"(?s)OOMKilled.*{said}", launch._without_memory(arm, key, 2))


@pytest.mark.parametrize(
    ("arm", "flags"),
    [
        pytest.param("baseline", [], id="no script"),
        pytest.param(
            "native",
            ["--script=examples/keras_tf_config.py", "--script-kind=other", "--script-arguments={workers}"],
            id="native",
        ),
    ],
)
def test_an_arm_that_there_is_not_is_one_message(wording: Wording, tmp_path: Path, arm: str, flags: list[str]) -> None:
    """By hand, too, where no settings were looked at before."""
    recipe = [f"--result={tmp_path / 'run' / 'result.json'}", "--workload=script", *flags]
    request = entry.parse(arm, None, recipe)
    request.result.parent.mkdir()

    with pytest.raises(ValueError, match="script") as refused:
        launch.launch(request, arm)
    wording("script", str(refused.value))


PROGRAM = """
import sys
from training.launch import foreign_command
command = [sys.executable, "-c", sys.argv[1]]
end = foreign_command.run(command, ".", {"PATH": "/bin"}, 1, lambda out: len(out.read(5)) < 5)
print(end.code, end.left)
"""


@pytest.mark.parametrize(
    ("prints", "code"), [("print(1)", "0"), ("import time; print('12345', flush=True); time.sleep(60)", "-9")]
)
def test_a_reader_ends_what_it_does_not_want(prints: str, code: str) -> None:
    """In a process of its own, which adopts and ends descendants."""
    command = [sys.executable, "-c", PROGRAM, prints]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=LONGEST_SECONDS, check=True)

    assert [code, "0"] == done.stdout.split()


@pytest.mark.parametrize(
    ("workers", "said"),
    [
        ({"10.1.0.7": 2**30, "10.1.0.4": 2**30}, "at 10.1.0.4, 10.1.0.7: .* 1024 MiB.*\n.* set workerMemory 2048Mi$"),
        ({"10.1.0.7": None}, "at 10.1.0.7: .*fewer workers"),
    ],
)
def test_ray_s_workers_that_the_system_ended_are_named(workers: dict[str, int | None], said: str) -> None:
    """With the line that gives each of them more."""
    assert re.search(f"(?s)in Ray's workers {said}", launch._workers_without_memory(workers))  # not prose: a pattern
