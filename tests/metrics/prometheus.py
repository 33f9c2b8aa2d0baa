"""A Prometheus of this machine, with the configuration that a cluster's gets, for pods that are processes here."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml

from infra.places.cluster.manifests import monitoring
from tests.limits import LONGEST_SECONDS, wait_for
from tests.ports import free_ports
from training.machine import output

VARIABLE = "TRY_PROMETHEUS"
"""The environment variable with the path of Prometheus' program, where it is not on PATH."""


class QueryError(ValueError):
    """An expression that Prometheus refuses."""


def program() -> str | None:
    """Return the path of Prometheus' program; None if there is none."""
    return os.environ.get(VARIABLE) or shutil.which("prometheus")


def configured(targets: Mapping[str, list[str]], every_seconds: int) -> str:
    """Return a cluster's configuration for addresses instead of names: `targets` by the job's name."""
    config: dict[str, Any] = yaml.safe_load(
        monitoring.config(
            [job.removeprefix(monitoring.ARM_PREFIX) for job in targets if job.startswith(monitoring.ARM_PREFIX)]
        )
    )
    config["global"] |= {"scrape_interval": f"{every_seconds}s", "scrape_timeout": f"{min(every_seconds, 10)}s"}
    for job in config["scrape_configs"]:
        job.pop("dns_sd_configs", None)
        job["static_configs"] = [{"targets": targets[job["job_name"]]}]
    return str(yaml.safe_dump(config, sort_keys=False))


@dataclass(frozen=True)
class Prometheus:
    """A Prometheus that answers."""

    url: str
    pid: int = 0
    """Of its process; 0 for one that somebody else started."""

    def series(self, expression: str, seconds: float, step: float = 5) -> list[dict[str, Any]]:
        """Return the series of an expression over the last seconds, as Prometheus answers. Raises QueryError."""
        end = time.time()
        parameters = {"query": expression, "start": end - seconds, "end": end, "step": step}
        return list(self._answer("/api/v1/query_range", parameters)["result"])

    def now(self, expression: str) -> list[dict[str, Any]]:
        """Return the present values of an expression. Raises QueryError."""
        return list(self._answer("/api/v1/query", {"query": expression})["result"])

    def _answer(self, path: str, parameters: Mapping[str, Any]) -> Any:
        try:
            with urlopen(f"{self.url}{path}?{urlencode(parameters)}", timeout=LONGEST_SECONDS) as answer:  # noqa: S310 (our own)
                return json.load(answer)["data"]
        except HTTPError as error:
            raise QueryError(f"{json.load(error).get('error')}: {parameters['query']}") from None


@contextmanager
def running(folder: Path, targets: Mapping[str, list[str]], every_seconds: int) -> Iterator[Prometheus]:
    """Run Prometheus on loopback until the end; "prometheus" of `targets` is set here. Raises OSError."""
    address = _free_address()
    text = configured({**targets, monitoring.NAME: [address]}, every_seconds)
    with running_with(folder, text, address) as prometheus:
        yield prometheus


@contextmanager
def running_with(folder: Path, config_text: str, address: str | None = None) -> Iterator[Prometheus]:
    """Run Prometheus with this configuration until the end, at an address of loopback. Raises OSError."""
    address = address or _free_address()
    config = folder / monitoring.CONFIG_KEY
    config.write_text(config_text, encoding="utf-8")
    command = [
        program() or "prometheus",
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}",
    ]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        wait_for(lambda: _is_ready(f"http://{address}/-/ready", process, folder / "prometheus.log"))
        yield Prometheus(f"http://{address}", process.pid)
    finally:
        process.kill()
        process.wait()


def _free_address() -> str:
    (port,) = free_ports(1)
    return f"127.0.0.1:{port}"


def _is_ready(url: str, process: "subprocess.Popen[bytes]", log: Path) -> bool:
    """Return whether it answers. Raises OSError where it has ended."""
    if process.poll() is not None:
        raise OSError(f"Prometheus does not answer: {output.end_of_file(log, 1000)}")
    try:
        with urlopen(url, timeout=LONGEST_SECONDS):  # noqa: S310 (our own)
            return True
    except OSError:
        return False
