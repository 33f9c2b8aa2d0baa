"""The wheel as a user has it: built by uv, run by `uv tool run` from an empty HOME, in a folder that holds a script."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from cli.setup import uv
from cli.setup.project import ROOT
from tests.limits import LONGEST_SECONDS

SCRIPT = "import random\n\nw = 0.0\nfor _ in range(100):\n    w -= 0.1 * (w - random.random())\nprint(w)\n"
LEAST = ("click", "packaging", "psutil", "pyyaml")
"""What is installed for a try: here linked from the project's own environment, so that no network is needed."""


def least_environment(folder: Path) -> None:
    """Make an environment with these packages alone."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for name in LEAST:
        files = [file for file in metadata.files(name) or () if ".." not in file.parts]
        for top in {file.parts[0] for file in files} - {"__pycache__"}:
            (packages / top).symlink_to(Path(str(files[0].locate())).parents[len(files[0].parts) - 1] / top)


@pytest.mark.slow
def test_a_script_is_tried_from_the_wheel_with_an_empty_home(tmp_path: Path) -> None:
    """On a path with a blank, with Ray from the script's environment; what is left is `.rwi`, and the user's data."""
    work, home, program = tmp_path / "my work", tmp_path / "home", str(uv.find_uv())
    for folder in (work, home):
        folder.mkdir()
    (work / "train.py").write_text(SCRIPT, encoding="utf-8")
    least_environment(work / ".rwi" / ".venv")
    surrounding = {name: value for name, value in os.environ.items() if not name.startswith(("RWI", "XDG_"))}
    surrounding |= {"HOME": str(home), "RWI_SETUP": "no"}

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program, *words], cwd=work, env=surrounding, capture_output=True, text=True, check=False,
            timeout=LONGEST_SECONDS,
        )  # fmt: skip

    built = call(
        "build", "--offline", "--quiet", "--python", sys.executable, "--out-dir", str(tmp_path / "dist"), str(ROOT)
    )
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    tool = ("tool", "run", "--offline", "--quiet", "--python", sys.executable, "--from", str(wheel), "rwi")
    tried = call(*tool, "try", "train.py", "--python", sys.executable)
    (tree,) = (home / ".local" / "share" / "ray-worth-it").glob("0*")

    assert (0, "") == (built.returncode, built.stderr)
    assert 0 == tried.returncode, tried.stdout + tried.stderr
    again = f"uvx --from {wheel} rwi try train.py --python {sys.executable}"
    assert f"next: {again} --write\n" in tried.stdout
    assert {".rwi", "train.py"} == {path.name for path in work.iterdir()}
    assert list((work / ".rwi" / ".state" / "tried").iterdir())
    assert not list(tree.rglob("*.pyc"))
    assert not (work / ".rwi" / "tests").exists()
