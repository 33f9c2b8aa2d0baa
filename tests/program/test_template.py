"""What the real `pulumi new` makes of a clone: the same project and the same stacks, with another name."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.program.engine import ROOT
from tests.slow import slow_but
from tests.stacks import OF_BUCKETS, STACKS, environment_of
from tests.unit import test_wiring

NAME = "team-decision"
BY_ENGINE = ("local", "cnn-double", "keras", "keras-ray")
"""Stacks that need nothing but the program to be previewed."""
OF_STACK = "pulumi:pulumi:Stack$"
"""Before the type of what has no other parent: the recorder's monitor has it, and the engine leaves it out."""
NOT_CLONED = ("__pycache__", ".*_cache", ".git", ".venv", ".tools", ".state", "runs", "results")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory, cli: Path) -> dict[str, str]:
    """Of a user with an empty backend."""
    home = tmp_path_factory.mktemp("home")
    return {
        **os.environ,
        "PATH": f"{sys.prefix}/bin:{cli.parent}:{os.environ['PATH']}",
        "PULUMI_BACKEND_URL": f"file://{home}",
        "PULUMI_CONFIG_PASSPHRASE": "test",
        "PULUMI_HOME": str(home),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
    }


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the project, as in a fresh clone."""
    folder = tmp_path_factory.mktemp("clone") / "ray-worth-it"
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*NOT_CLONED))
    return folder


@pytest.fixture(scope="module")
def made(clone: Path, tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Path:
    """A project that `pulumi new` made of it, with the environment of these tests."""
    folder = tmp_path_factory.mktemp("made")
    new(clone, folder, environment)
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


def new(clone: Path, folder: Path, environment: dict[str, str]) -> None:
    """Make a project in an empty folder."""
    command = ["pulumi", "new", str(clone), "--name", NAME, "--generate-only", "--yes"]
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)


def golden(stack: str) -> list[str]:
    """Type and name of what the project's own stack declares."""
    return sorted(line.removeprefix(OF_STACK) for line in test_wiring.golden(stack))


def short(urns: list[str]) -> list[str]:
    """URNs without stack and project, and without the stack itself, sorted."""
    own = ["::".join(urn.split("::")[2:]) for urn in urns if "::pulumi:pulumi:Stack::" not in urn]
    return sorted(line.removeprefix(OF_STACK) for line in own)


@pytest.mark.parametrize("stack", slow_but(["local"], BY_ENGINE))
def test_the_engine_plans_the_same_under_another_name(stack: str, made: Path, environment: dict[str, str]) -> None:
    """As the user's first preview does."""
    shown = [
        subprocess.run(
            ["pulumi", *command, "--non-interactive"],
            cwd=made,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        for command in (["stack", "init", stack], ["preview", "--json", "--stack", stack])
    ]
    assert [0, 0] == [each.returncode for each in shown], shown
    urns = [step["urn"] for step in json.loads(shown[1].stdout)["steps"]]

    assert golden(stack) == short(urns)
    assert {NAME} == {urn.split("::")[1] for urn in urns}


@pytest.mark.parametrize("stack", STACKS)
def test_every_stack_declares_the_same_under_another_name(stack: str, made: Path) -> None:
    """Those of clusters and of other environments, too, as far as they are at hand."""
    given = [f"{key}={value}" for key, value in environment_of(stack).items()]
    given += ["--preview"] if stack in OF_BUCKETS else []
    done = test_wiring.run_recorder(stack, *given, project=made)

    assert 0 == done.returncode, done.stderr
    assert golden(stack) == short(json.loads(done.stdout)["urns"])


def test_nothing_but_the_name_is_another(clone: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    """No file is left out, and nothing is replaced in one: in Pulumi.yaml its questions go."""
    new(clone, tmp_path, environment)
    files = [path.relative_to(clone) for path in clone.rglob("*") if path.is_file()]
    others = [str(name) for name in files if (tmp_path / name).read_bytes() != (clone / name).read_bytes()]

    assert ["Pulumi.yaml"] == others
    assert f"name: {NAME}\n" in (tmp_path / "Pulumi.yaml").read_text(encoding="utf-8")
