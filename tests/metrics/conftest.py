"""A real Ray whose ports a real Prometheus reads, with the configuration that a cluster's gets."""

import os
import subprocess
from collections.abc import Iterator
from ctypes.util import find_library
from pathlib import Path
from typing import NamedTuple

import pytest

from infra.places.cluster.manifests import runs_dashboard
from infra.places.cluster.ray_dashboards import GENERATOR, _unpacked
from tests.limits import wait_for
from tests.metrics import draw, head, prometheus
from tests.metrics.prometheus import Prometheus
from tests.ray_head import HERE, PYTHON

WORK = Path(__file__).with_name("work.py")
SECONDS = 25
"""Of the run of Ray Train."""
QUICK = {"RAY_metrics_report_interval_ms": "1000", "RAY_worker_niceness": "0"}
"""Variables of a Ray that says what it does at once: a minute of it is enough."""
PICTURES = "TRY_PICTURES"
"""The environment variable with a folder for the picture of docs/metrics.md; without it none is drawn."""
DRAWN = (
    "Cluster Utilization",
    "Node CPU Usage",
    "Node CPU Usage by Component",
    "Node Memory Usage by Component",
    "Logical CPUs Usage",
    "All Tasks by State",
    "Alive Actors by Name",
    "Object Store Memory by Location",
    "Running Tasks by Name",
)
"""The panels of that picture."""
ENDED = ("SUCCEEDED", "FAILED", "STOPPED")


class Read(NamedTuple):
    """A Prometheus that has read a Ray's ports while that worked."""

    prometheus: Prometheus
    dashboards: dict[str, str]
    """JSON texts by name, as the image's generator and the program give them."""


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Read]:
    """Ray has done its work, and still runs: counters go on. It takes a third of a CPU: not longer than is needed."""
    if find_library("nvidia-ml"):
        pytest.skip("panels of GPUs have data here: the table of docs/metrics.md is of a machine without one")
    if prometheus.program() is None:
        pytest.skip(f"no Prometheus here: {prometheus.VARIABLE} names its program, as Debian's package has it")
    folder = tmp_path_factory.mktemp("prometheus")
    with head.running(cpus=4, **QUICK) as (started, of_ray):
        targets = {**of_ray, "arm-ray": [f"{HERE}:1"], "arm-baseline": []}
        with prometheus.running(folder, targets, every_seconds=1) as reads:
            api = started.api()
            api.submit("work", [PYTHON, str(WORK), str(SECONDS)], {})
            wait_for(lambda: api.job("work")["status"] in ENDED)
            assert "SUCCEEDED" == api.job("work")["status"], api.log("work")[-3000:]
            found_of = generated() | {"arms": runs_dashboard.dashboard(arms=True)}
            if PICTURES in os.environ:
                for ending in ("svg", "png"):
                    out = Path(os.environ[PICTURES], f"metrics.{ending}")
                    draw.draw(reads, found_of["default"], out, SECONDS + 20, DRAWN)
            yield Read(reads, found_of)


def generated() -> dict[str, str]:
    """Ray's dashboards, by the command of the pod."""
    command = [PYTHON, "-c", GENERATOR.read_text(encoding="utf-8")]
    done = subprocess.run(command, env=dict(os.environ), capture_output=True, text=True, check=True)
    return _unpacked(done.stdout)
