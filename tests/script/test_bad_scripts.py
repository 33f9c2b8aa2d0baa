"""Each script that can't be measured is one clear message, and nothing of it is left on the machine."""

from pathlib import Path

import psutil
import pytest

from tests.golden import Wording
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
def test_a_bad_script_is_one_clear_message(name: str, tmp_path: Path, wording: Wording) -> None:
    """Within seconds, without a traceback of ours, and with nothing running afterwards."""
    script = tmp_path / "train.py"
    script.write_text(BAD[name], encoding="utf-8")
    tried = try_script(script, "--workers {workers}", limit="60" if name == "starts itself" else "8")

    wording("try", tried.problem)
    assert 1 == tried.code
    assert "cli/tryout" not in tried.text
    assert [] == processes_of(script)
    if name == "hangs":
        assert 'train.py", line 2' in tried.text


def test_what_is_refused_before_it_runs(tmp_path: Path, wording: Wording) -> None:
    """A file that is not there, a fixed number of workers, one that reaches nobody: at once."""
    script = tmp_path / "train.py"
    script.write_text("from ray.train import ScalingConfig\nScalingConfig(num_workers=2)", encoding="utf-8")

    tried = {"no file": try_script(tmp_path / "trian.py"), "a number": try_script(script)}
    script.write_text("from ray.train import ScalingConfig\nScalingConfig(num_workers=int(argv[1]))", encoding="utf-8")
    tried["no argument"] = try_script(script)

    for label, refused in tried.items():
        assert 1 == refused.code
        wording("try", refused.text, label)
