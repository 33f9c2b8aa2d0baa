"""The template that is cut from the project, and what the real `pulumi new` makes of it: the same stacks, renamed."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cli.setup.project import ToolError
from cli.template import cut
from tests.docs import markdown
from tests.program.engine import ROOT
from tests.slow import slow_but
from tests.stacks import OF_BUCKETS, STACKS, environment_of
from tests.unit import test_wiring

NAME = "team-decision"
BY_ENGINE = ("local", "cnn-double", "keras", "keras-ray")
"""Stacks that need nothing but the program to be previewed."""
OF_STACK = "pulumi:pulumi:Stack$"
"""Before the type of what has no other parent: the recorder's monitor has it, and the engine leaves it out."""
SKIPPED = ("__pycache__", ".git", ".venv", ".tools", ".state", "runs", "results")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The template's folder."""
    folder = tmp_path_factory.mktemp("cut") / "template"
    cut.make(folder)
    return folder


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
def made(template: Path, tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Path:
    """A project that `pulumi new` made of it, with the environment of these tests, and the tests."""
    folder = tmp_path_factory.mktemp("made")
    command = ["pulumi", "new", str(template), "--name", NAME, "--generate-only", "--yes"]
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    (folder / ".venv").symlink_to(sys.prefix)
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


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


def test_its_texts_name_nothing_that_was_cut(template: Path) -> None:
    """README and AGENTS; and every link of every document leads to something."""
    here, there = ({path.name for path in folder.iterdir()} for folder in (ROOT, template))
    cut_away = here - there - set(SKIPPED) - {".github"}
    folders, commands = "|".join(map(re.escape, sorted(cut_away))), "|".join(cut.COMMANDS)
    words = rf"(?<![\w./-])(?:{folders})(?:/|\b)|docs/adr|\./rwi (?:{commands})\b"
    named = {
        name: re.findall(words, (template / name).read_text(encoding="utf-8")) for name in ("README.md", "AGENTS.md")
    }
    dead = [
        f"{path.relative_to(template)}: {link.text}"
        for path in template.rglob("*.md")
        for link in markdown.links(path.name, path.read_text(encoding="utf-8"))
        if "://" not in link.text and not (path.parent / (link.text.partition("#")[0] or path.name)).exists()
    ]

    assert {"tests", "bench", "CONTRIBUTING.md", "CHANGELOG.md"} <= cut_away
    assert {"README.md": [], "AGENTS.md": []} == named
    assert [] == dead


def test_every_command_that_is_left_is_there(template: Path) -> None:
    """By the help of each group: what works on what was cut is in none."""
    listed = {
        group: subprocess.run(
            [sys.executable, "-c", "import sys; from cli.door import run; run(sys.argv[1:])", *group.split(), "--help"],
            cwd=template, capture_output=True, text=True, check=True,
        ).stdout
        for group in ("", "bench", "project")
    }  # fmt: skip
    names = {group: set(re.findall(r"^  ([a-z]+)  ", text, re.MULTILINE)) for group, text in listed.items()}

    assert {"up", "preview", "destroy", "jobs", "bench"} <= names[""]
    assert not {"check", "test"} & names[""]
    assert ({"recovery"}, {"env", "clean"}) == (names["bench"], names["project"])


def test_a_folder_that_is_there_is_left_alone(tmp_path: Path) -> None:
    """Nothing is mixed into it."""
    with pytest.raises(ToolError, match="rm -r"):
        cut.make(tmp_path)

    assert [] == list(tmp_path.iterdir())
