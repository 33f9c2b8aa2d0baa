"""A Ray head of this machine with its ports of metrics, as a RayCluster's head has them."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests import ray_head
from tests.limits import wait_for
from tests.ports import free_ports
from tests.ray_head import Head

OWN = ("AUTOSCALER_METRIC_PORT", "DASHBOARD_METRIC_PORT")
"""Variables with the ports that a head has besides its agent's."""


@contextmanager
def running(cpus: int, **more: str) -> Iterator[tuple[Head, Mapping[str, list[str]]]]:
    """Run a head until the end, and find its addresses of metrics, by Prometheus' job; `more` are variables."""
    ports = free_ports(len(OWN))
    own = dict(zip(OWN, map(str, ports), strict=True))
    with ray_head.running(cpus=cpus, **own, **more) as head:
        found = head.folder / "prom_metrics_service_discovery.json"
        wait_for(lambda: len(_addresses(found)) == 1 + len(OWN))
        of_head = [address for address in _addresses(found) if int(address.rpartition(":")[2]) in ports]
        of_all = [address for address in _addresses(found) if address not in of_head]
        yield head, {"ray": of_all, "ray-head": of_head}


def _addresses(found: Path) -> list[str]:
    """Where Ray says that its metrics are, as soon as its agent answers."""
    groups = json.loads(found.read_text()) if found.exists() else []
    return [address for group in groups for address in group["targets"]]
