"""A Ray head of this machine with its ports of metrics, as a RayCluster's head has them."""

import json
import os
import secrets
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from socket import create_server

import psutil

from training.launch import environment
from training.machine import output

HERE, RAY_S = "127.0.0.1", "127.0.0.2"
"""Addresses of loopback; Ray replaces the first by the one that other machines reach."""
START_SECONDS = 120.0
PORTS = ("AUTOSCALER_METRIC_PORT", "DASHBOARD_METRIC_PORT")
"""Variables with the ports that a head has besides its agent's."""


@dataclass(frozen=True)
class Head:
    """A head that runs."""

    address: str
    variables: Mapping[str, str]
    """Of a driver that joins it."""
    targets: Mapping[str, list[str]]
    """Addresses of metrics, by Prometheus' job."""


@contextmanager
def running(python: str, cpus: int) -> Iterator[Head]:
    """Run a head of this interpreter, which has ray[default], until the end. Raises OSError."""
    ports = _free_ports(3)
    with tempfile.TemporaryDirectory(dir=environment.short_folder(), prefix="ray-") as folder:
        own = dict(zip(PORTS, map(str, ports[1:]), strict=True))
        token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}
        variables = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")} | token
        command = [
            *(python, "-m", "ray.scripts.scripts", "start", "--head", "--block", f"--num-cpus={cpus}"),
            *(f"--port={ports[0]}", f"--node-ip-address={RAY_S}", f"--temp-dir={folder}/r", "--dashboard-port=0"),
        ]
        log = Path(folder, "start.txt")
        with log.open("wb") as written:
            process = subprocess.Popen(
                command, env=variables | own, stdout=written, stderr=written, start_new_session=True
            )
        try:
            addresses = _addresses(Path(folder, "r", "prom_metrics_service_discovery.json"), process, log)
            of_head = [address for address in addresses if int(address.rpartition(":")[2]) in ports]
            targets = {"ray": [address for address in addresses if address not in of_head], "ray-head": of_head}
            yield Head(f"{RAY_S}:{ports[0]}", variables, targets)
        finally:
            _end(process)


def _addresses(file: Path, process: "subprocess.Popen[bytes]", log: Path) -> list[str]:
    """Return the three addresses that Ray writes as soon as its agent answers. Raises OSError."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(OSError, ValueError):
            groups = json.loads(file.read_text(encoding="utf-8"))
            addresses = [address for group in groups for address in group["targets"]]
            if len(addresses) == 1 + len(PORTS):
                return addresses
        time.sleep(0.5)
    raise OSError(f"Ray's metrics are not there: {output.end_of_file(log, 1000)}")


def _free_ports(number: int) -> list[int]:
    servers = [create_server((HERE, 0)) for _ in range(number)]
    ports = [server.getsockname()[1] for server in servers]
    for server in servers:
        server.close()
    return ports


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End the head with all that it started, which is in several sessions."""
    started = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    for each in started:
        with suppress(psutil.NoSuchProcess):
            each.send_signal(signal.SIGKILL)
    process.wait()
