"""A real Ray head on loopback, with a token: of an environment with ray[default], which the project's does without."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

from tests.limits import LEFT_SECONDS, wait_for
from tests.ports import free_ports
from training.launch import environment
from training.launch.ray.driver import LOOPBACK
from training.launch.ray.jobs_api import JobsApi

PYTHON = os.environ.get("TRY_DASHBOARD_PYTHON", sys.executable)
"""Of an environment with ray[default], which the project's own does without: a run on this machine would start more."""
needed = pytest.mark.skipif(
    subprocess.run([PYTHON, "-c", "import aiohttp_cors, ray"], capture_output=True, check=False).returncode != 0,
    reason="no ray[default] here: TRY_DASHBOARD_PYTHON=its/python, of an environment made with the uv extra `image`",
)
TOKEN = "0123456789abcdef" * 4
HERE = "127.0.0.1"


class Head(NamedTuple):
    """A Ray head that runs."""

    dashboard: int
    address: str
    """For drivers that connect by themselves."""
    environment: dict[str, str]
    folder: Path
    """What Ray writes, its logs among it."""

    @property
    def url(self) -> str:
        """Of its dashboard."""
        return f"http://{HERE}:{self.dashboard}"

    def api(self, token: str = TOKEN) -> JobsApi:
        """Its Job Submission API."""
        return JobsApi(self.url, token)


@contextmanager
def running(cpus: int, limit: Sequence[str] = (), **more: str) -> Iterator[Head]:
    """A head with so many CPUs, in a session that ends with it. `limit` begins its command; `more` are variables."""
    with ExitStack() as held:
        folder = held.enter_context(tempfile.TemporaryDirectory(dir=environment.short_folder(), prefix="ray-"))
        ports = free_ports(7)
        flags = ("dashboard-port", "port", "ray-client-server-port", "dashboard-agent-listen-port",
                 "dashboard-agent-grpc-port", "runtime-env-agent-port", "metrics-export-port")  # fmt: skip
        command = [
            *(*limit, PYTHON, "-m", "ray.scripts.scripts", "start", "--head", "--block", f"--num-cpus={cpus}"),
            *(f"--node-ip-address={LOOPBACK}", f"--dashboard-host={HERE}", f"--temp-dir={folder}/r"),
            *("--min-worker-port=0", "--max-worker-port=0", "--disable-usage-stats"),
            *(f"--{flag}={port}" for flag, port in zip(flags, ports, strict=True)),
        ]
        path = f"{Path(PYTHON).parent}{os.pathsep}{os.environ['PATH']}"
        token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN}
        variables = os.environ | token | {"HOME": folder, "PATH": path} | more
        log = held.enter_context(Path(folder, "start.txt").open("w+"))
        started = subprocess.Popen(command, env=variables, stdout=log, stderr=log, start_new_session=True)
        found = Head(ports[0], f"{LOOPBACK}:{ports[1]}", variables, Path(folder, "r"))
        try:
            wait_for(lambda: answers(found, started, Path(log.name)))
            yield found
        finally:
            end(started)


def answers(head: Head, running: "subprocess.Popen[bytes]", log: Path) -> bool:
    """Whether its dashboard does."""
    assert running.poll() is None, log.read_text()[-3000:]
    try:
        head.api().jobs()
    except OSError:
        return False
    return True


def end(running: "subprocess.Popen[Any]") -> None:
    """All that it started, which is in several sessions; asked for its end Ray takes 30 s after a training."""
    everything = [psutil.Process(running.pid), *psutil.Process(running.pid).children(recursive=True)]
    for process in everything:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    running.wait()
    psutil.wait_procs(everything, timeout=LEFT_SECONDS)
