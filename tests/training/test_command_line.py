"""The command line of the entry points, and one process by itself: nothing here holds the machine or is a time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.golden import Wording
from tests.limits import LONGEST_SECONDS
from tests.training.looked_at import FLAGS, PROJECT, run_arm
from training.contract.arms import ARMS
from training.launch.environment import variables
from training.workloads.cnn.recipe import CnnRecipe
from training.workloads.cnn.workload import WORKLOAD


@pytest.mark.parametrize(
    ("arm", "flags", "names"),
    [
        ("baseline", ["--epochs=0"], ["--epochs", "'0'", "1 to 10000"]),
        ("baseline", ["--learning-rate=nan"], ["--learning-rate", "'nan'"]),
        ("baseline", ["--dataset=mnist"], ["--dataset", "'mnist'", "digits, cifar10, synthetic"]),
        ("native", ["--workers=3", "--global-batch-size=2"], ["--global-batch-size 2", "--workers 3"]),
    ],
    ids=["not positive", "no number", "no data set", "a batch smaller than the workers"],
)
def test_a_bad_command_line_says_what_is_wrong_and_leaves_no_result(
    arm: str, flags: list[str], names: list[str], tmp_path: Path, wording: Wording
) -> None:
    """What was given, what is allowed; the exit code says that it failed."""
    ended = run_arm(arm, tmp_path, flags)

    assert ended.returncode != 0
    message = ended.stderr.partition("error: ")[2]
    assert [] == [name for name in names if name not in message]
    wording("run", message)
    assert not (tmp_path / "result.json").exists()


@pytest.mark.parametrize("arm", ARMS)
def test_help_names_every_setting_of_the_recipe(arm: str, tmp_path: Path) -> None:
    """`--help` is the documentation of the command line."""
    said = run_arm(arm, tmp_path, ["--help"]).stdout

    for name in CnnRecipe().to_dict():
        assert "--" + "".join(f"-{c.lower()}" if c.isupper() else c for c in name) in said


COLLECTING = """
import gc, sys
from training.launch import entry; from training.workloads.cnn import train
made = train.set_up
train.set_up = lambda *given: print("collecting before:", gc.isenabled()) or made(*given)
asked = entry.parse("baseline", None)
entry.take_part(asked, "baseline", report=lambda _: print("collecting:", gc.isenabled(), gc.get_freeze_count() > 9999))
"""


@pytest.mark.slow
def test_garbage_is_collected_while_training_and_not_before(tmp_path: Path) -> None:
    """What imports and tracing made is never looked at again; what training leaves is."""
    flags = ["--result", str(tmp_path / "result.json"), "--no-bind-cpus", *FLAGS]
    ended = subprocess.run(
        [sys.executable, "-c", COLLECTING, *flags],
        cwd=PROJECT,
        env=os.environ | variables(WORKLOAD, 1),
        capture_output=True,
        text=True,
        timeout=LONGEST_SECONDS,
        check=True,
    )

    said = [line for line in ended.stdout.splitlines() if "collecting" in line]
    assert ["collecting before: False", "collecting: True True", "collecting: True True"] == said
