"""Wrong input of every kind: one message with the line that fixes it, no traceback, and nothing made or changed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from cli import door
from cli.setup import project
from cli.setup.project import ToolError, checked_stack_name, stack_text
from cli.stack import config as stack_config
from cli.sweep import plan as sweep_plan
from infra.settings.key import CLUSTER, TARGETS
from infra.settings.problem import InvalidSettingsError
from tests.limits import LONGEST_SECONDS
from tests.unit.settings_machine import ROOT, machine, parse
from tests.unit.settings_values import OF_TARGET
from training.contract.rules import number, whole

NUMBERS = {
    "workers": ["２", "٢", "²", "①", "+2", "1_0", "1 0", "0x2", "2.", "2e0", "--2", "1" * 40, "-0x1", "∞", "二"],
    "learningRate": ["٠.١", "1_0e-4", "+0.1", "1e-400", "1e999", "inf", "-inf", "nan", "NaN", "0,1", "1e", "."],
    "workerCpus": ["1e-400", "½", "-1", "1e3", "２"],
    "seed": ["1e3", "9" * 30, "-9" * 3],
    "workerMemory": ["٢Gi", "99999999999999999999Ti", "65Ti", "-1Gi", "1e9", "1_000Mi", "2 Gi", "2GiB", "infGi", "Gi"],
    "epochs": ["8\x00", "8\u200b", "８"],
}
SHAPES = {
    "namespace": ["a" * 64, "-a", "a-", "a.b", "RAY", "ray system", "räy"],
}  # fmt: skip
PATHS = {
    "datasetPath": ["~nobody-here/x", "no such folder", "it's", 'a"b', "a\nb", "a" * 5000, "\x00"],
    "podTemplate": ["./no such.yaml", "~nobody-here/x.yaml", "a/" * 3000, "dir/\x00", "/", "/dev/zero", "a\nb"],
    "offline": ["./no such", "~nobody-here/x", "a/" * 3000, "dir/\x00", "/dev/zero", "a\nb"],
}
SETTINGS = [
    (key, value) for table in (NUMBERS, SHAPES, PATHS) for key, values in table.items() for value in values
]  # fmt: skip


@pytest.mark.parametrize(("key", "value"), SETTINGS, ids=lambda text: ascii(text)[:30])
def test_a_wrong_setting_is_one_problem_with_a_line_that_fixes_it(key: str, value: str) -> None:
    """On every target; the value is shown on one line, however long, and whatever it holds."""
    for target in CLUSTER if key in ("offline", "podTemplate") else TARGETS:
        with pytest.raises(InvalidSettingsError) as caught:
            parse({"target": target, key: value, **OF_TARGET.get(target, {})}, machine(stack=target))
        (problem,) = caught.value.problems

        assert problem.fixes, target
        assert problem.what.startswith(f"{key} = "), target
        assert "\n" not in problem.what, target
        assert len(problem.what) < 300, target


@pytest.fixture
def stacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of stack files of its own."""
    monkeypatch.setattr(project, "STACKS", tmp_path)
    return tmp_path


STACK_FILES = {
    "a tab": b"config:\n\tray-worth-it:workers: 2\n",
    "not UTF-8": b"config:\n  ray-worth-it:model: \xff\xfe\n",
    "a list": b"- config\n",
    "a word": b"config\n",
    "a config that is a list": b"config:\n  - ray-worth-it:workers\n",
    "a config that is a word": b"config: workers\n",
    "a key twice": b"config:\n  ray-worth-it:workers: 2\n  ray-worth-it:workers: 3\n",
    "config twice": b"config:\n  ray-worth-it:workers: 2\nconfig:\n  ray-worth-it:workers: 3\n",
    "an open quote": b'config:\n  ray-worth-it:workers: "2\n',
    "a code that runs": b"config: !!python/object/apply:os.getcwd []\n",
    "a NUL": b"config:\n  a: \x00\n",
}


@pytest.mark.parametrize("content", STACK_FILES.values(), ids=list(STACK_FILES))
def test_a_stack_file_that_is_none_is_refused(stacks: Path, content: bytes) -> None:
    """With its name, and what to write or type instead."""
    (stacks / "Pulumi.mine.yaml").write_bytes(content)
    with pytest.raises(ToolError, match=r"(?s)stacks/Pulumi.mine.yaml.*(config:|iconv|sed -i)"):
        stack_config.config_of("mine")


def test_an_empty_stack_file_is_a_stack_with_every_default(stacks: Path) -> None:
    """As for Pulumi."""
    for content in ("", "# nothing\n", "config:\n", "config: {}\n"):
        (stacks / "Pulumi.mine.yaml").write_text(content)
        assert stack_config.config_of("mine") == {}


def test_a_stack_file_that_is_no_file_is_refused(stacks: Path) -> None:
    """A folder, a link that leads nowhere or to itself."""
    (stacks / "Pulumi.folder.yaml").mkdir()
    (stacks / "Pulumi.nowhere.yaml").symlink_to(stacks / "none")
    (stacks / "Pulumi.circle.yaml").symlink_to(stacks / "Pulumi.circle.yaml")
    for stack in ("folder", "nowhere", "circle"):
        with pytest.raises(ToolError, match=f"no stacks/Pulumi.{stack}.yaml"):
            stack_text(stack)


@pytest.mark.parametrize("name", ["-x", "--help", "", ".", "..", "a/b", "a b", "a" * 101, "a\n", "é", "$(x)", ".a"])
def test_a_stack_name_that_could_be_something_else_is_refused(name: str) -> None:
    """A flag of pulumi, a path, or code of a shell."""
    with pytest.raises(ToolError, match=r"\./rwi up --stack minikube"):
        checked_stack_name(name)


@pytest.mark.parametrize("word", ["workers", "=3", "a b=1", "-x=1", "1=2", "²=1"])
def test_what_is_no_setting_is_refused(word: str) -> None:
    """With an example."""
    with pytest.raises(click.BadParameter, match="workers=3"):
        door.parse(["up", "--set", word])


@pytest.mark.parametrize("axes", [{"workers": ""}, {"workers": "  "}, {"workers": '"1'}, {"wrokers": "1"}])
def test_wrong_axes_of_a_sweep_are_refused(axes: dict[str, str]) -> None:
    """With an example, or what was meant."""
    with pytest.raises(ToolError, match=r"\./rwi sweep|mean workers"):
        sweep_plan.parse_axes(axes)


@pytest.mark.parametrize("text", ["１", "+1", "1_0", "", " ", "1\n2"])
def test_rules_of_numbers_read_ascii_digits_alone(text: str) -> None:
    """The same for config keys and for the flags of the entry points."""
    for rule in (whole(0, 100), number(0, 100)):
        with pytest.raises(ValueError):  # noqa: PT011 - which one is not promised
            rule.parse(text)


COMMANDS: dict[str, list[str]] = {
    "a sweep over a wrong value": ["rwi", "sweep", "workers=1 x"],
    "a preview with an unknown key": ["rwi", "preview", "--set=nope=1"],
    "an up with a wrong value": ["rwi", "up", "--set=workers=²"],
    "a stack that is a flag": ["rwi", "up", "--stack=-x"],
    "results of a path": ["rwi", "report", "history", "--stack=../.."],
    "a result of another digit": ["rwi", "report", "open", "--result=²", "--print"],
    "no repeats": ["rwi", "bench", "arms", "--repeats=0"],
    "a result that is a folder": ["training.baseline", "--result=."],
    "a data set that is not there": ["training.baseline", "--result=/proc/none/r.json", "--dataset-path=/none"],
}  # fmt: skip


@pytest.fixture(scope="module")
def project_copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project as cloned, for these tests alone: others beside them write into this one's folder of state."""
    folder = tmp_path_factory.mktemp("project")
    for name in ("bench", "compare", "infra", "report", "cli", "training"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "stacks").mkdir()
    (folder / ".venv").symlink_to(Path(sys.executable).parents[1])
    for name in ("rwi", "Pulumi.yaml", "stacks/Pulumi.local.yaml", "uv.lock"):
        shutil.copy2(ROOT / name, folder / name)
    return folder


@pytest.mark.parametrize("command", COMMANDS.values(), ids=list(COMMANDS))
def test_a_command_with_wrong_input_ends_with_a_message(command: list[str], project_copy: Path) -> None:
    """Under 10 seconds, without a traceback, with a nonzero status; nothing of the project is made or changed."""
    before = _written(project_copy)
    done = subprocess.run(
        [".venv/bin/python", *(command if command[0] == "rwi" else ["-m", *command])], cwd=project_copy, input="{",
        env=os.environ | {"RWI_SETUP": "no"}, capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False,
    )  # fmt: skip

    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr
    assert done.stderr.strip()
    assert before == _written(project_copy)


def _written(folder: Path) -> dict[str, int | None]:
    """Return when each file was last written, None for a folder; not of what Python compiles."""
    paths = (path for path in folder.rglob("*") if not {"__pycache__", ".venv"} & {*path.parts})
    return {str(path): path.stat().st_mtime_ns if path.is_file() else None for path in paths}
