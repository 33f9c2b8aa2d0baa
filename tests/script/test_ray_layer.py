"""A script of PyTorch in an environment without Ray, tried for real: Ray is a layer over it, and nothing of it changes.

What uv would download is taken from the project's own environment, in which it is installed in the same version.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.script.test_plain_ranks import script_in
from tests.script.tryout import NO_TORCH, PROJECT, try_script
from tests.stacks import TORCH

LACKING = ("ray", "msgpack")
"""What the environment does without, and Ray does not."""
UV = '''#!{python}
"""Stands for uv: makes an environment, knows what Ray needs, and links it from the project's own."""
import subprocess, sys
from importlib import metadata
from pathlib import Path

if sys.argv[1] == "venv":
    subprocess.run([sys.argv[-2], "-m", "venv", "--without-pip", sys.argv[-1]], check=True)
elif sys.argv[2] == "compile":
    Path(sys.argv[-1]).write_text("".join(f"{{name}}=={{metadata.version(name)}}\\n" for name in {names!r}))
else:
    folder = Path(sys.argv[-1])
    (packages,) = folder.parent.glob("lib/python*/site-packages")
    for name in (line.partition("==")[0] for line in folder.read_text().split()):
        files = [file for file in metadata.files(name) if file.parts[0] != ".."]
        for top in {{file.parts[0] for file in files}}:
            (packages / top).symlink_to(files[0].locate().parents[len(files[0].parts) - 1] / top)
'''


def packages_of(python: str) -> Path:
    """The folder of an environment's packages; skips the test where its Python is another than the project's."""
    look = "import sys, sysconfig; print(*sys.version_info[:2], sysconfig.get_path('purelib'))"
    done = subprocess.run([python, "-c", look], check=True, capture_output=True, text=True)
    major, minor, folder = done.stdout.split()
    if (int(major), int(minor)) != sys.version_info[:2]:
        pytest.skip("the environment with PyTorch has another Python than the project's own, whose Ray the layer has")
    return Path(folder)


@pytest.fixture
def without_ray(tmp_path: Path) -> Iterator[Path]:
    """An environment with all that the one with PyTorch has, but without Ray; a uv that needs no network."""
    source, folder = packages_of(TORCH), tmp_path / "theirs"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for path in source.iterdir():
        if not re.fullmatch(rf"({'|'.join(LACKING)})(-.*)?", path.name) and not (packages / path.name).exists():
            (packages / path.name).symlink_to(path)
    program = tmp_path / "programs" / "uv"
    program.parent.mkdir()
    program.write_text(UV.format(python=sys.executable, names=LACKING), encoding="utf-8")
    program.chmod(0o700)
    yield folder
    for layer in (PROJECT / ".state" / "layers").glob("*/made.json"):
        if str(folder) in layer.read_text(encoding="utf-8"):
            shutil.rmtree(layer.parent)


@pytest.mark.slow
@pytest.mark.skipif(not TORCH, reason=NO_TORCH)
def test_a_script_whose_environment_has_no_ray_is_tried_with_it(without_ray: Path, tmp_path: Path) -> None:
    """Ranks of Ray do the same work as those without, by the same packages; what they run with is not changed."""
    before = sorted(str(path) for path in without_ray.rglob("*"))
    path = f"{tmp_path / 'programs'}{os.pathsep}{os.environ['PATH']}"
    tried = try_script(script_in(tmp_path, "torch.nn.Tanh()"), python=str(without_ray), PATH=path)
    pythons = dict(re.findall(r"^  (\w+) +OMP.*? (\S+/bin/python) ", tried.text, re.MULTILINE))

    assert 0 == tried.code, tried.text
    assert "A" == tried.claim, tried.text
    assert {} == tried.absent
    assert tried.row("native")["weights"] == tried.row("ray")["weights"]
    assert {str(without_ray / "bin" / "python")} == {pythons[arm] for arm in ("baseline", "wide", "native")}
    assert str(PROJECT / ".state" / "layers") in pythons["ray"] == pythons["raystart"]
    assert before == sorted(str(path) for path in without_ray.rglob("*"))
