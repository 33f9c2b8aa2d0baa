"""A real Ray whose ports a real Prometheus reads, with the configuration that a cluster's gets."""

import json
import os
import subprocess
from collections.abc import Iterator
from ctypes.util import find_library
from pathlib import Path
from typing import NamedTuple

import pytest

from bench.metrics import draw, prometheus
from bench.metrics.prometheus import Prometheus
from infra.places.cluster.manifests import runs_dashboard
from infra.places.cluster.ray_dashboards import GENERATOR, _unpacked
from tests import ray_head
from tests.limits import wait_for
from tests.ports import free_ports
from tests.ray_head import HERE, PYTHON

WORK = Path(__file__).with_name("work.py")
SECONDS = 25
"""Of the run of Ray Train."""
QUICK = {"RAY_metrics_report_interval_ms": "1000", "RAY_worker_niceness": "0"}
"""Variables of a Ray that says what it does at once: a minute of it is enough."""
PORTS = 3
"""Of a head: its agent's, the autoscaler's, the dashboard's."""
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
    ports = free_ports(2)
    own = dict(zip(("AUTOSCALER_METRIC_PORT", "DASHBOARD_METRIC_PORT"), map(str, ports), strict=True))
    with ray_head.running(cpus=4, **own, **QUICK) as head:
        found = head.folder / "prom_metrics_service_discovery.json"
        wait_for(lambda: len(addresses(found)) == PORTS)
        of_head = [address for address in addresses(found) if int(address.rpartition(":")[2]) in ports]
        of_all = [address for address in addresses(found) if address not in of_head]
        targets = {"ray": of_all, "ray-head": of_head, "arm-ray": [f"{HERE}:1"], "arm-baseline": []}
        with prometheus.running(folder, targets, every_seconds=1) as reads:
            api = head.api()
            api.submit("work", [PYTHON, str(WORK), str(SECONDS)], {})
            wait_for(lambda: api.job("work")["status"] in ENDED)
            assert "SUCCEEDED" == api.job("work")["status"], api.log("work")[-3000:]
            found_of = generated() | {"arms": runs_dashboard.dashboard(arms=True)}
            if PICTURES in os.environ:
                for ending in ("svg", "png"):
                    out = Path(os.environ[PICTURES], f"metrics.{ending}")
                    draw.draw(reads, found_of["default"], out, SECONDS + 20, DRAWN)
            yield Read(reads, found_of)


def addresses(found: Path) -> list[str]:
    """Where Ray says that its metrics are."""
    groups = json.loads(found.read_text()) if found.exists() else []
    return [address for group in groups for address in group["targets"]]


def generated() -> dict[str, str]:
    """Ray's dashboards, by the command of the pod."""
    command = [PYTHON, "-c", GENERATOR.read_text(encoding="utf-8")]
    done = subprocess.run(command, env=dict(os.environ), capture_output=True, text=True, check=True)
    return _unpacked(done.stdout)
