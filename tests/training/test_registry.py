"""CONTRIBUTING's data set and model, added just as they stand there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.limits import LONGEST_SECONDS

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def snippets() -> list[str]:
    """The Python blocks of CONTRIBUTING."""
    return re.findall(r"```python\n(.*?)```", (PROJECT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.DOTALL)


def test_a_newcomers_data_set_and_model_train(snippets: list[str], tmp_path: Path) -> None:
    """Each is a single function; settings, flags and training then know it."""
    header = (
        "from __future__ import annotations\nimport sys\nfrom typing import Any\n"
        "from training.workloads.cnn.registry import Source, Shape, dataset, model\n"
    )
    footer = (
        "from training.launch import entry; from training.workloads.cnn.recipe import CnnRecipe\n"
        "assert 'stripes' in CnnRecipe.settings()['dataset'].metadata['rule'].allowed\n"
        "asked = entry.parse('baseline', None)\n"
        "entry.run(lambda: entry.take_part(asked, 'baseline'), asked.result)\n"
    )
    program = tmp_path / "program.py"
    program.write_text(header + "\n".join(snippets) + footer)
    flags = ["--dataset=stripes", "--model=perceptron", "--epochs=2", "--result", str(tmp_path / "result.json")]
    command = [sys.executable, "-c", f"import runpy; runpy.run_path({str(program)!r}, run_name='__main__')", *flags]

    ended = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False)

    assert ended.returncode == 0, ended.stderr[-2000:]
    assert '"testAccuracy": 1.0' in (tmp_path / "result.json").read_text()
