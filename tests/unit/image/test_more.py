"""Pinned packages that a script needs beside those of the image."""

import platform
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from infra.image import requirements
from infra.image import spec as image_spec
from infra.image.spec import Content
from tests.golden import Wording
from training.contract.provenance import PROJECT

CONTENT = Content("script", "python:3.11-slim", "", None)
COMPILED = """\
# made by uv pip compile
--extra-index-url https://packages.example.com/cpu
torch==2.15.0+cpu ; platform_system == "Linux" \\
    --hash=sha256:00 \\
    --hash=sha256:11
    # via -r mine.in
Typing_Extensions == 4.16.0  # a comment
ray[train,tune]==2.60.0
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """One as a tool writes it."""
    path = tmp_path / "requirements.txt"
    path.write_text(COMPILED)
    return path


def test_what_a_tool_compiled_is_read(file: Path) -> None:
    """Markers, hashes over several lines, options and comments; names as uv.lock has them."""
    assert {"torch": "2.15.0+cpu", "typing-extensions": "4.16.0", "ray": "2.60.0"} == requirements.pins(file)


@pytest.mark.parametrize(
    "line", ["torch", "torch>=2", "torch==2.*", "torch>=2,<3", "-r other.txt", "../mine", "torch @ https://x"]
)
def test_a_version_that_is_left_open_is_refused(wording: Wording, file: Path, line: str) -> None:
    """By its line: what was new on another day would be another image under one name."""
    file.write_text(f"numpy==2.4.6\n{line}\n")

    with pytest.raises(requirements.RequirementsError, match=rf"\b2\b.*'{re.escape(line)}'") as refused:
        requirements.pins(file)
    wording("image", str(refused.value))


def test_no_password_of_an_index_is_shown(file: Path) -> None:
    """The message is printed by a preview, also into a pull request."""
    file.write_text("mine @ git+https://me:xyzzy@git.example.com/mine\n")

    with pytest.raises(requirements.RequirementsError, match=r"//\[secret\]@git") as raised:
        requirements.pins(file)
    assert "xyzzy" not in str(raised.value)


def test_of_several_versions_in_the_lock_the_image_has_that_of_its_python() -> None:
    """numpy has one for Python before 3.12, and one from there on."""
    python = (PROJECT / ".python-version").read_text().strip()
    done = subprocess.run(
        [sys.executable, "-c", "import numpy; print(numpy.__version__)"], capture_output=True, text=True, check=True
    )

    assert platform.python_version().startswith(python)
    assert done.stdout.strip() == image_spec.fixed()["numpy"]


def test_the_image_s_own_packages_stay_as_they_are_locked(wording: Wording, file: Path) -> None:
    """Ray of another version would be measured under the name of this one."""
    locked = image_spec.fixed()

    assert "" == requirements.conflict(requirements.pins(file) | {"ray": locked["ray"]}, locked)
    conflict = requirements.conflict({"ray": "1.0"}, locked)
    assert {"1.0", locked["ray"]} == set(re.findall(r"ray==([\d.]+)", conflict))
    wording("image", conflict)
    assert "pandas==0.1, " in requirements.conflict({"pandas": "0.1"}, locked)


def test_a_change_of_the_file_is_another_image(file: Path) -> None:
    """Of its text, and not of where it lies; without one it is what it was."""
    with_it = replace(CONTENT, requirements=str(file))
    moved = file.rename(file.with_name("moved.txt"))
    before = replace(CONTENT, requirements=str(moved)).tag()
    moved.write_text(COMPILED.replace("4.16.0", "4.15.0"))

    assert CONTENT.tag() != before
    assert before != replace(CONTENT, requirements=str(moved)).tag()
    with pytest.raises(FileNotFoundError):
        with_it.tag()


def test_what_the_file_pins_is_installed(file: Path) -> None:
    """So a script that imports it is not refused, and its version is in the measurement's hash."""
    assert "torch" not in image_spec.installed()
    assert "2.15.0+cpu" == image_spec.installed(str(file))["torch"]


@pytest.mark.parametrize("workload", ["cnn", "script"])
def test_an_image_of_another_workload_has_nothing_of_a_search(workload: str) -> None:
    """Nor has its name changed with it."""
    assert "" == replace(CONTENT, workload=workload).more()
    assert "optuna" not in image_spec.expected_versions(workload=workload)


def test_a_search_s_image_has_optuna_as_it_is_locked(tmp_path: Path) -> None:
    """With what it requires and the hashes of uv.lock; the user's own packages come beside that."""
    (tmp_path / "own.txt").write_text("einops==0.8.1\n")
    text = replace(CONTENT, workload="search", requirements=str(tmp_path / "own.txt")).more()
    (tmp_path / "all.txt").write_text(text)

    pins = requirements.pins(tmp_path / "all.txt")
    assert {"optuna", "alembic", "sqlalchemy", "einops"} <= pins.keys()
    assert not pins.keys() & image_spec.fixed().keys()
    assert text.count("--hash=sha256:") > len(pins)
    assert pins["optuna"] == image_spec.expected_versions(workload="search")["optuna"]


def test_optuna_of_another_version_is_refused() -> None:
    """The project's own modules are made for the locked one."""
    assert "" == requirements.conflict({"optuna": "1.0"}, image_spec.fixed())
    assert requirements.conflict({"optuna": "1.0"}, image_spec.fixed(workload="search"))
