"""A stack that an earlier version measured, with an arm that is gone: every command reads it, and `up` measures again.

`earlier_stack.tar.gz` is what `./rwi up --set tunedRay=true --set repeats=2 --set epochs=2 --set trainImages=256 --set
warmupSteps=1` left at
commit c0c8e29: results/ without the page, each run's result.json, and the stack's state without source positions.
"""

import hashlib
import json
import re
import shlex
import shutil
import subprocess
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.limits import LONGEST_SECONDS
from tests.program.engine import ROOT, Project

pytestmark = pytest.mark.slow
MADE_BEFORE = Path(__file__).with_name("earlier_stack.tar.gz")
SETTINGS = {"repeats": "2", "epochs": "2", "trainImages": "256", "warmupSteps": "1"}
FORMER = {"tuned-1", "tuned-2"}
RUNS = {f"{arm}-{repeat}" for arm in ("baseline", "wide", "native", "ray") for repeat in (1, 2)}

BOTH = "report history 1 1"
OLD = "report open --result 1 --print"


@dataclass(frozen=True)
class Story:
    """What a user reads of the stack, one command after another."""

    project: Project
    printed: Mapping[str, str]
    before: Mapping[Path, str]
    """SHA-256 of each file of a run, before `up`."""
    planned: Mapping[str, str]


@pytest.fixture(scope="module")
def story(cli: Path, tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Look at everything that the earlier version left, then measure again."""
    project = Project(tmp_path_factory.mktemp("earlier"), cli, stub=True)
    _add_tools(project, cli)
    project.pulumi("stack", "init", "local")
    project.pulumi("stack", "import", "--file", "state.json")
    project.configure(**SETTINGS)
    commands = ("outputs", "report history", BOTH, "report open --print", OLD)
    printed = {command: _rwi(project, command) for command in commands}
    before, planned = _hashes(project.folder / "runs"), project.preview()
    project.up()
    _rwi(project, "report open --print")
    printed["history again"] = _rwi(project, "report history")
    return Story(project, printed, before, planned)


def _add_tools(project: Project, cli: Path) -> None:
    """What `rwi` needs beside the program, and what the earlier version left."""
    for name in ("cli", "report"):
        shutil.copytree(ROOT / name, project.folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "rwi", project.folder)
    project.environment["RWI_SETUP"] = "no"
    (project.folder / ".tools").mkdir()
    (project.folder / ".tools/cli-in-use.json").write_text(json.dumps({"folder": str(cli.parent)}))
    with tarfile.open(MADE_BEFORE) as archive:
        archive.extractall(project.folder, filter="data")


def _rwi(project: Project, command: str) -> str:
    """Return what `rwi` printed."""
    done = subprocess.run(
        ["./rwi", *shlex.split(command)],
        cwd=project.folder, env=project.environment, capture_output=True, text=True, timeout=LONGEST_SECONDS,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _hashes(folder: Path) -> dict[Path, str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_its_outputs_show_every_arm(story: Story) -> None:
    """The former arm has the last row; the ratio that only it had is gone."""
    rows = re.findall(r"^([a-z]+) +(?:[\d.,]+ +){5}", story.printed["outputs"], re.MULTILINE)

    assert ["baseline", "wide", "native", "ray", "tuned"] == rows
    assert "tuningGain" not in story.printed["outputs"]


def test_its_history_lists_it(story: Story) -> None:
    """As a result that can be compared."""
    assert re.search(r"^1 .*c0c8e29", story.printed["report history"], re.MULTILINE)
    assert "c0c8e29" in story.printed[BOTH]


@pytest.mark.parametrize("command", ["report open --print", OLD])
def test_its_page_is_drawn_without_a_second_result(story: Story, command: str) -> None:
    """With every picture, of its own runs; none of them is missing."""
    page = Path(story.printed[command].splitlines()[-1])
    text = page.read_text(encoding="utf-8")

    assert "20261125T084015Z-09ce5902" == page.parent.name
    assert "Confusion matrix, tuned" in text
    assert "KeyError" not in text


def test_a_preview_repeats_every_run_and_deletes_the_former_arm_s(story: Story) -> None:
    """Because the code's hash is another one."""
    assert dict.fromkeys(sorted(RUNS), "replace") | dict.fromkeys(sorted(FORMER), "delete") == story.planned


def test_up_measures_again_and_keeps_the_files_of_every_run(story: Story) -> None:
    """Nothing of the former arm is in the state; its runs and results are where they were."""
    assert RUNS == set(story.project.ids())
    assert ["baseline", "native", "ray", "wide"] == sorted(story.project.comparison()["arms"])
    assert "tuningGain" not in story.project.outputs()
    assert {path: story.before[path] for path in story.before} == {
        path: digest for path, digest in _hashes(story.project.folder / "runs").items() if path in story.before
    }
    assert re.search("^2  ", story.printed["history again"], re.MULTILINE)
