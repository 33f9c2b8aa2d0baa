"""Files of ranks, in a folder that they have for their own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.limits import LONGEST_SECONDS
from training.contract.provenance import PROJECT
from training.workloads.script.spread import originals, prove, records, under_ray
from training.workloads.script.spread.files import Layer

KEPT = f"""
import sys, tarfile
sys.path.insert(0, {str(PROJECT)!r})
import numpy
from training.workloads.script.spread import files
files.redirect("layer")
tarfile.bltn_open("text", "w").close()
numpy.savetxt("rows.csv", numpy.ones(2))
print(len(numpy.loadtxt("rows.csv")))
"""


def test_a_folder_that_another_rank_made_first_is_there(tmp_path: Path) -> None:
    """Ranks of a port share a layer: between the look for a folder and its making another rank can make it."""
    layer = Layer(str(tmp_path), ())
    make = layer._mkdir

    def after_another(path: str) -> None:
        os.mkdir(path)  # noqa: PTH102 (as the layer does)
        make(path)

    layer._mkdir = after_another  # type: ignore[assignment]
    layer.folders(str(tmp_path / "kept" / "best"))

    assert (tmp_path / "kept" / "best").is_dir()


def test_a_module_that_kept_open_before_a_fork_writes_into_the_layer(tmp_path: Path) -> None:
    """A proof imports NumPy, and much with it, before it forks: no file is the user's."""
    (tmp_path / "layer").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", KEPT], cwd=tmp_path, capture_output=True, text=True, timeout=LONGEST_SECONDS, check=True
    )

    assert "2\n" == done.stdout
    assert ["layer"] == [path.name for path in tmp_path.iterdir()]


def test_files_that_each_run_of_a_proof_would_write_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As data that a script makes where there are none: the disk is not the proof's alone. Tensors count more often."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    runs = prove.Runs(None, [], 2, tmp_path, 1.0)
    run = records.Run("plan", tmp_path / "plan", [])
    (tmp_path / "plan" / "private-0" / "data").mkdir(parents=True)
    (tmp_path / "plan" / "weights-0.pt").write_bytes(bytes(10))
    empty = runs.lacks_room(run)
    (tmp_path / "plan" / "private-0" / "data" / "rows").write_bytes(bytes(40))

    assert not empty
    assert runs.lacks_room(run)


PROCESS = """
import os
def main(settings, command):
    open(os.path.join(settings.trace, "checkpoint"), "w").close()
    return 0
"""
SETTINGS = """
class Settings:
    def __init__(self, framework, **more):
        self.__dict__.update(more)
"""


@pytest.mark.parametrize("is_driver_s", [True, False])
def test_a_rank_of_ray_leaves_no_files_where_the_driver_removes_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_driver_s: bool
) -> None:
    """As in another pod, which outlives the run. Folders of the driver, and of other ranks, are theirs."""
    context = SimpleNamespace(get_world_rank=lambda: 0, get_world_size=lambda: 2)
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(train=(train := SimpleNamespace())))
    monkeypatch.setitem(sys.modules, "ray.train", train)
    train.get_context = lambda: context
    for name in ("a_rank", "a_rank.process", "a_rank.settings", "a_rank.originals"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    package = {"process.py": PROCESS, "settings.py": SETTINGS, "__init__.py": ""}
    package["originals.py"] = Path(originals.__file__).read_text(encoding="utf-8")
    files = tmp_path / "run" / "spread-1"
    if is_driver_s:
        (files / "train").mkdir(parents=True)
    config = {"variables": [], "environment": {}, "files": str(files), "name": "a_rank", "package": package}
    under_ray.run_script({**config, "plan": "", "folder": ".", "framework": "torch", "command": ["train.py"]})

    assert ([files / "train"] if is_driver_s else []) == list(tmp_path.glob("run/spread-1/*"))
    assert is_driver_s is files.exists()
