"""How a module of this project starts in an environment that knows nothing of it: as itself, in that process."""

import os
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path

import pytest

from infra.places.cluster.manifests import project_modules
from infra.places.cluster.manifests.pod_parts import PACKED, PACKED_MODULES, UNPACK, UNPACKED_START
from tests.limits import LONGEST_SECONDS
from training.launch.environment import IN_OTHER_IMAGE
from training.launch.pod import unpacked_modules

PRINTS = """import os, sys
print(os.getpid(), __name__, sys.argv[1:], os.environ["PYTHONPATH"])
sys.exit(7)
"""


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The modules as a pod has them: unpacked by its own command, by a Python that has no path of ours."""
    folder, made = tmp_path_factory.mktemp("pod"), project_modules.of_workload("script")
    there = folder / "there"
    (folder / PACKED_MODULES).write_bytes(made.content)
    command = UNPACK.replace(f"{PACKED}/", f"{folder}/").replace(f"'{IN_OTHER_IMAGE}'", f"'{there}'")
    subprocess.run([sys.executable, "-I", "-c", command], cwd="/", check=True)
    return there


def start(there: Path, folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    """A module of them in a folder that has a `training` of its own, and that the image names in PYTHONPATH."""
    (folder / "training").mkdir(exist_ok=True, parents=True)
    (folder / "training" / "__init__.py").write_text("raise SystemExit('this is the image\\'s')")
    (script,) = [part.replace(IN_OTHER_IMAGE, str(there)) for part in UNPACKED_START[2:]]
    return subprocess.Popen(
        [sys.executable, "-P", script, *arguments],
        cwd=folder, env={"PATH": os.environ["PATH"], "PYTHONPATH": str(folder)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def test_what_is_unpacked_is_what_was_packed(unpacked: Path) -> None:
    """Every file, with what is in it."""
    found = {path.relative_to(unpacked).as_posix(): path for path in unpacked.rglob("*") if path.suffix != ".pyc"}
    with zipfile.ZipFile(BytesIO(project_modules.of_workload("script").content)) as packed:
        assert {name: packed.read(name) for name in packed.namelist()} == {
            name: path.read_bytes() for name, path in found.items() if path.is_file()
        }


def test_a_module_is_itself_in_that_process(unpacked: Path, tmp_path: Path) -> None:
    """Its arguments, its number, its exit code; the image's own folders come after ours."""
    (module := unpacked / "training" / "prints.py").write_text(PRINTS)
    running = start(unpacked, tmp_path / "work", "training.prints", "--one", "two words")
    said = running.communicate(timeout=LONGEST_SECONDS)[0]
    module.unlink()

    assert 7 == running.returncode, said
    assert [str(running.pid), "__main__", "['--one',", "'two"] == said.split()[:4]
    assert f"{unpacked}{os.pathsep}{tmp_path / 'work'}" in said


def test_a_pod_s_arm_is_refused_as_anywhere(unpacked: Path, tmp_path: Path) -> None:
    """The entry point itself has been reached, by modules that were unpacked."""
    running = start(
        unpacked, tmp_path / "work", "training.launch.pod.run", "baseline", "--workload=script", "--workers=x"
    )
    said = running.communicate(timeout=LONGEST_SECONDS)[0]

    assert 2 == running.returncode
    assert "argument --workers: 'x' " in said  # not prose: an argument


def test_ray_brings_what_nobody_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """For this process and its children; last, so that what is installed goes before."""
    monkeypatch.setattr(os, "environ", os.environ | {"PYTHONPATH": "/mine"})
    monkeypatch.setattr(sys, "path", list(sys.path))
    there = find_spec("ray")
    monkeypatch.setattr(unpacked_modules, "find_spec", {"ray": there}.get)
    unpacked_modules.find_psutil()

    assert Path(sys.path[-1], "psutil").is_dir()
    assert ["/mine", sys.path[-1]] == os.environ["PYTHONPATH"].split(os.pathsep)


def test_what_is_installed_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is added where psutil is there."""
    before = list(sys.path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    unpacked_modules.find_psutil()

    assert before == sys.path
