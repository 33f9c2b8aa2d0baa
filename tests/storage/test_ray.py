"""Ray Train writes its checkpoints to storage with the credentials of a role, in the environment that a run has."""

import os
import subprocess
import sys

import pytest

from infra.storage_role import assumed
from tests.limits import LONGEST_SECONDS
from tests.program.engine import ROOT
from tests.storage.cloud import PREFIX, ROLE, Cloud
from training.launch import environment

pytestmark = pytest.mark.slow


@pytest.mark.usefixtures("as_caller")
def test_ray_s_workers_and_its_controller_are_let_in(cloud: Cloud) -> None:
    """By variables with a session token, which all of Ray's processes inherit; what all workers wrote comes back."""
    variables = environment.let_in(os.environ, assumed(ROLE, 1, "ray-1").variables())
    command = [sys.executable, "-m", "tests.storage.ray_driver", f"{PREFIX}/of-ray"]

    done = subprocess.run(
        command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False
    )

    assert 0 == done.returncode, done.stderr[-3000:]
    assert "['of-0', 'of-1']" in done.stdout
    assert [name for name in cloud.names() if name.startswith("inside/of-ray/train/checkpoint_")]
    assert variables["AWS_SESSION_TOKEN"] not in done.stdout + done.stderr


@pytest.mark.usefixtures("as_caller")
def test_a_torn_list_of_ray_train_s_is_removed_there(cloud: Cloud) -> None:
    """As in a folder, though nothing tears an object; where there is none that is no error."""
    variables = environment.let_in(os.environ, assumed(ROLE, 1, "ray-1").variables())
    command = [sys.executable, "-m", "tests.training.torn_list", f"{PREFIX}/of-list"]

    done = subprocess.run(
        command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False
    )

    assert 0 == done.returncode, done.stderr[-3000:]
    assert ["whole: stays", *2 * ["torn: refused", "then: began without"]] == done.stdout.splitlines()
    assert not [name for name in cloud.names() if name.startswith("inside/of-list/train/checkpoint_manager")]
