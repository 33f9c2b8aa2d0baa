"""Stacks that the real engine updates in a cluster of processes, and the results that their runs' pods print."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.platform.cluster import THERE, Cluster
from tests.program.conftest import NewProject
from tests.program.engine import Project
from tests.unit.results import make_result
from tests.unit.settings_machine import machine, parse, plan_runs
from training.launch.pod.log_result import MARKER

VALUES = {**THERE, "createNamespace": "false", "operator": "existing", "repeats": "1", "nativeArm": "false"}


def new_stack(new_project: NewProject, cluster: Cluster, **values: str) -> Project:
    """Make a stack in the cluster."""
    if shutil.which("pulumi-resource-kubernetes") is None:
        pytest.skip("pulumi-resource-kubernetes is not on PATH")
    made = new_project()
    made.environment["KUBECONFIG"] = cluster.kubeconfig
    made.create_stack(**{**VALUES, "namespace": cluster.namespace, **values})
    return made


def of_ray(project: Project) -> Project:
    """Let a stack have Ray's part of a measurement alone."""
    shutil.copy(Path(__file__).with_name("ray_runs.py"), project.folder / "__main__.py")
    return project


def give_result(cluster: Cluster, workers: int) -> None:
    """Let the run's pod have printed a result."""
    of_stack = parse({**VALUES, "workers": str(workers)}, machine(cores=64, gib=256))
    (planned,) = [plan for plan in plan_runs(of_stack) if plan.arm == "ray"]
    result = make_result("ray", recipe=planned.recipe, startup_seconds=5.0)  # type: ignore[arg-type]  # the CNN's
    cluster.set_log(f"{MARKER}\n{json.dumps(result.to_dict())}")


def seconds_of(project: Project) -> dict[str, Any]:
    """Return the times of its run, as its folder has them."""
    newest = max(project.folder.glob("runs/local/ray-1-*/result.json"), key=lambda path: path.stat().st_mtime)
    return dict(json.loads(newest.read_text())["seconds"])
