"""Modules are compiled before the first run, and not in the start-up of whichever arm imports them first."""

import compileall
import json
import sys
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from training.contract.progress import NAME, Progress
from training.launch import warm_up


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A folder of packages as an installer leaves it that compiles nothing; one has a template that is no Python."""
    folder = tmp_path / "site-packages"
    for name, text in {
        "one/__init__.py": "",
        "one/deep/module.py": "x = 1\n",
        "one/template.py": "class {{ name }}:\n",
        "one-1.0.dist-info/METADATA": "",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def compiled(packages: Path) -> set[str]:
    """The modules that have bytecode."""
    return {path.stem.partition(".")[0] for path in packages.rglob("*.pyc")}


def test_every_module_is_compiled_once(packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where Python itself writes no bytecode. It is said when it is done, and another installation is seen."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    stamp, progress = tmp_path / "stamp", Progress(tmp_path)
    warm_up.compile_once(packages, stamp, progress)
    first = compiled(packages)
    Path(cache_from_source(str(packages / "one/__init__.py"))).unlink()
    warm_up.compile_once(packages, stamp, progress)
    again = compiled(packages)
    (packages / "one-1.0.dist-info").rename(packages / "one-1.1.dist-info")
    warm_up.compile_once(packages, stamp, progress)

    assert {"__init__", "module"} == first == compiled(packages)
    assert {"module"} == again
    assert [warm_up.SAID] * 2 == [json.loads(line)["text"] for line in (tmp_path / NAME).read_text().splitlines()]


def test_what_the_installer_has_compiled_is_not_compiled_again(packages: Path, tmp_path: Path) -> None:
    """And no line says that it is: the set-up has just said so."""
    (packages / "one/template.py").unlink()
    compileall.compile_dir(packages, quiet=2)
    bytecode = {path: path.stat().st_mtime_ns for path in packages.rglob("*.pyc")}

    warm_up.compile_once(packages, tmp_path / "stamp", Progress(tmp_path))

    assert not (tmp_path / NAME).exists()
    assert bytecode == {path: path.stat().st_mtime_ns for path in packages.rglob("*.pyc")} != {}
    assert (tmp_path / "stamp").exists()


def test_an_environment_that_can_not_be_written_is_used_as_it_is(packages: Path, tmp_path: Path) -> None:
    """Whoever made it has compiled it, or has not."""
    warm_up.compile_once(packages, tmp_path / "no folder/stamp", Progress(None))

    assert not (tmp_path / "no folder").exists()
