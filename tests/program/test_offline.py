"""What a preview of a cluster's stack reaches: nothing, where the folder `offline` has KubeRay's chart."""

import shutil
import subprocess
import sys

import pytest

from tests.limits import LONGEST_SECONDS
from tests.policy.plugins import OFFLINE, add_what_clusters_need
from tests.program.conftest import NewProject
from tests.program.engine import ROOT
from training.machine import isolation

WITHOUT_NETWORK = """
import os, sys
from training.machine import isolation
isolation.enter()
os.execvp(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.parametrize("has_chart", [True, False])
def test_a_preview_needs_no_network_if_the_chart_is_there(new_project: NewProject, has_chart: bool) -> None:
    """With loopback alone, on which the engine talks to its plugins; without the chart the missing file is named."""
    if reason := isolation.refusal():
        pytest.skip(reason)
    project = new_project()
    add_what_clusters_need(project, project.folder.parent / "plugins")
    project.pulumi("stack", "init", "ci")
    if not has_chart:
        (project.folder / OFFLINE / "kuberay-operator-1.6.2.tgz").unlink()
    pulumi = shutil.which("pulumi", path=project.environment["PATH"])
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            WITHOUT_NETWORK,
            str(pulumi),
            "preview",
            "--non-interactive",
            "-c",
            f"offline={OFFLINE}",
        ],
        cwd=project.folder,
        env=project.environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=LONGEST_SECONDS,
        check=False,
    )

    shown = done.stdout + done.stderr
    assert has_chart == (done.returncode == 0), shown
    part = "ray-worth-it:cluster:RayTrainingCluster" if has_chart else "kuberay-operator-1.6.2.tgz"
    assert part in shown
