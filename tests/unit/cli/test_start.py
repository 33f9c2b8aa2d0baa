"""How `rwi` starts: with any Python that a machine may have, from anywhere, and it says what it needs."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from cli import door
from cli.setup import project as project_module
from cli.setup import start, uv
from cli.setup.project import ROOT, ToolError

FIRST = ("cli.setup.start", "cli.stack.clean")
IN_THE_ENVIRONMENT = "cli.door"
"""What `cli.setup.start` imports where the environment is there."""


def _imports(module: str) -> set[str]:
    # 3.9 is the oldest Python that the first steps are made with: newer syntax is an error here.
    source = (ROOT / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
    tree = ast.parse(source, feature_version=(3, 9))
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (ROOT / (node.module or "").replace(".", "/")).is_dir():
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return names - {IN_THE_ENVIRONMENT}


@pytest.mark.parametrize("module", FIRST)
def test_what_runs_before_the_environment_exists_needs_python_alone(module: str) -> None:
    """The set-up and clean, with all they import: the standard library, in the syntax of Python 3.9."""
    pending, seen, foreign = {module}, set[str](), set[str]()
    while pending:
        current = pending.pop()
        seen.add(current)
        for name in _imports(current):
            if name.startswith(("cli.", "training.machine.")):
                pending |= {name} - seen
            elif name.partition(".")[0] not in sys.stdlib_module_names:
                foreign.add(name)

    assert foreign == set()
    assert "cli.setup.project" in seen


@pytest.mark.parametrize("module", FIRST)
def test_what_runs_before_the_environment_exists_loads_in_the_oldest_python(module: str, oldest_python: str) -> None:
    """The standard library, too, has names that it lacks."""
    done = subprocess.run(
        [oldest_python, "-c", f"import {module}"], check=False, cwd=ROOT, capture_output=True, text=True
    )

    assert (0, "") == (done.returncode, done.stderr)


@pytest.mark.parametrize(
    ("typed", "light"),
    [
        ("", True), ("--help", True), ("up --help", True), ("jobs list -h", True), ("try a.py -- --epochs 1", True),
        ("why a.py", True), ("tryy a.py", True), ("set workers=3", True),
        ("up", False), ("outputs", False), ("jobs submit a.py -- --help", False),
    ],
)  # fmt: skip
def test_help_and_a_try_wait_for_no_environment_that_measures(typed: str, light: bool) -> None:
    """What follows `--` is a script's, and asks for nothing here."""
    assert light == start._is_light(typed.split())


def test_each_command_is_known_to_need_what_measures_or_not() -> None:
    """A new one stands in the list, or works with the least."""
    commands = {name for names in door.SECTIONS.values() for name in names}

    assert {"try", "why", "set", "compare-commits"} == commands - set(start.MEASURING)
    assert set(start.MEASURING) <= commands


ALONE = """
import sys

sys.modules.update(dict.fromkeys({blocked!r}))
sys.path.insert(0, "")
import cli.commands.try_script, cli.door, cli.tryout.tryout, infra.places.local.guard, training.launch.foreign_command
import cli.stack.change
from cli.setup.project import ToolError
for line in ("up --set workers=2", "jobs submit a.py", "report history", "bench lesson", "test -- -k a"):
    assert 0 == cli.door.check(line.split()), line
for line in ("up --sett workers=2", "jobs lst", "outputs mine theirs here", "sweep"):
    assert 2 == cli.door.check(line.split()), line
for line in ("up --set workers=abc", "preview --set wrkers=2", "sweep workers=x", "up --stack nowhere"):
    try:
        cli.door.check(line.split())
    except ToolError:
        continue
    raise AssertionError(line)
"""


def test_a_try_imports_no_more_than_its_group_installs() -> None:
    """The four packages that are installed for it; all others of this environment are as if they were not. With them
    what is typed wrong is answered, too, a setting's value as well, before anything else is installed."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
    installed = {re.split("[>=]", requirement)[0] for requirement in groups[uv.LEAST]}
    blocked = {module for module, names in metadata.packages_distributions().items() if installed.isdisjoint(names)}
    blocked -= {module for module, names in metadata.packages_distributions().items() if "PyYAML" in names}
    code = ALONE.format(blocked=blocked - {"cli", "infra", "training", "report", "compare"})
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False, capture_output=True, text=True)

    assert {"pulumi", "ray", "tensorflow", "rich"} <= blocked
    assert 0 == done.returncode, done.stderr
    assert {"error:", "", " "} >= {line[:6].strip() for line in done.stderr.splitlines() if not line.startswith(" ")}


@pytest.mark.parametrize("name", ["check", "test"])
def test_a_wheel_has_nothing_to_check_and_test(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That is said before anything is installed for it."""
    monkeypatch.setattr(project_module, "ROOT", tmp_path)

    with pytest.raises(ToolError, match=name):
        door.check([name])
    (tmp_path / "tests").mkdir()
    assert 0 == door.check([name])


def test_an_older_python_is_told_what_is_needed() -> None:
    """Before anything that it could not read: the file itself is one that Python 3.4 reads."""
    text = (ROOT / "rwi").read_text(encoding="utf-8")
    ast.parse(text, feature_version=(3, 4))
    older = text.replace("(3, 9)", "(99, 9)")
    done = subprocess.run([sys.executable, "-c", older], capture_output=True, text=True, check=False)

    assert (1, "") == (done.returncode, done.stdout)
    assert done.stderr.startswith("error: Python 3.9 ")
    assert 1 == len(done.stderr.splitlines())


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy that has its environment, on a path with a blank."""
    folder = tmp_path / "a project"
    for name in ("cli", "compare", "infra", "report", "stacks", "training"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("rwi", "Pulumi.yaml"):
        shutil.copy(ROOT / name, folder)
    (folder / ".venv").symlink_to(Path(sys.executable).parents[1])
    return folder


def test_it_is_called_from_anywhere(project: Path, oldest_python: str) -> None:
    """By a system's Python, from a folder beside it: lines are as it was called, paths as they are seen from there."""
    (project.parent / "elsewhere").mkdir()
    script = project.parent / "elsewhere" / "mine.py"
    script.write_text("print(1)\n")
    wrong = subprocess.run(
        [oldest_python, "../a project/rwi", "set", "workers=0"], cwd=script.parent,
        env=os.environ | {"RWI_SETUP": "no"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    missing = subprocess.run(
        [oldest_python, "../a project/rwi", "why", "mine.py", "--stack", "local"], cwd=script.parent,
        env=os.environ | {"RWI_SETUP": "no"}, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (1, 1) == (wrong.returncode, missing.returncode)
    assert "workers = 0: " in wrong.stderr
    assert "no such file" not in missing.stderr
