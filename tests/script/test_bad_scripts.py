"""Each script that can't be measured is one clear message, and nothing of it is left on the machine."""

import time
from pathlib import Path

import psutil
import pytest

from tests.script.bad_scripts import BAD
from tests.script.tryout import try_script


def processes_of(script: Path) -> list[str]:
    """Command lines that name its folder."""
    lines = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        line = " ".join(process.info["cmdline"] or [])
        if str(script.parent) in line or process.info["cwd"] == str(script.parent):
            lines.append(line)
    return lines


@pytest.mark.parametrize("name", BAD)
def test_a_bad_script_is_one_clear_message(name: str, tmp_path: Path) -> None:
    """Within seconds, without a traceback of ours, and with nothing running afterwards."""
    text, message = BAD[name]
    script = tmp_path / "train.py"
    script.write_text(text, encoding="utf-8")
    began = time.monotonic()
    tried = try_script(script, "--workers {workers}", LIMIT="60" if name == "starts itself" else "8")

    assert message in tried.text
    assert 1 == tried.code
    assert "tools/tryout" not in tried.text
    assert time.monotonic() - began < 100
    assert [] == processes_of(script)


def test_what_is_refused_before_it_runs(tmp_path: Path) -> None:
    """A file that is not there, a fixed number of workers, one that reaches nobody: at once."""
    script = tmp_path / "train.py"
    script.write_text("from ray.train import ScalingConfig\nScalingConfig(num_workers=2)", encoding="utf-8")

    assert "there is no such file; there are train.py" in try_script(tmp_path / "trian.py").text
    assert "num_workers=2 is written into the script" in try_script(script).text
    script.write_text("from ray.train import ScalingConfig\nScalingConfig(num_workers=int(argv[1]))", encoding="utf-8")
    assert "the script's arguments have no {workers}" in try_script(script).text
