"""What the machine under test has: programs and plugins, or the reason there is none; and where it gets images from."""

import os
import shutil
import subprocess
from pathlib import Path

from tests.offline import ARCHIVE, with_chart

ASKED = "TEST_CLUSTER"
"""Set by `rwi test --cluster`: bringing up a cluster is not what somebody expects of `rwi test`."""
PROGRAMS = ("docker", "minikube")
PLUGINS = ("command", "kubernetes")
OFFLINE = "OFFLINE_CLUSTER_CACHE"
"""Set by a cluster made without a registry: no addons, a pod network of its own, images in the engine alone."""
OFFLINE_DEBIAN = "offline-cluster/debian:bookworm"
OPERATOR = "quay.io/kuberay/operator:v1.6.2"
BASE = "ray-worth-it/test-base:3.11"
BASE_DOCKERFILE = f"""
FROM {OFFLINE_DEBIAN}
RUN apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    python3 python3-venv ca-certificates && rm -rf /var/lib/apt/lists/*
"""
"""Stands in for python:3.11-slim where no registry can be reached: Debian's own Python."""
PROMETHEUS = "ray-worth-it/test-prometheus:debian"
PROMETHEUS_DOCKERFILE = f"""
FROM {OFFLINE_DEBIAN}
RUN apt-get update -qq && apt-get download -qq prometheus && dpkg-deb --extract prometheus_*.deb /opt \
    && rm prometheus_*.deb
USER 65534
ENTRYPOINT ["/opt/usr/bin/prometheus"]
"""
"""Likewise for Prometheus' image: Debian's program."""


def lacking() -> str:
    """Why no cluster can be made here; empty when one can."""
    if not os.environ.get(ASKED):
        return "a cluster is brought up by `./rwi test --cluster` alone (CLUSTER_ENV=file: sourced first)"
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    if missing:
        return f"not on PATH: {', '.join(missing)}; CLUSTER_ENV=file ./rwi test --cluster sources one that does"
    without = [name for name in PLUGINS if not _has_plugin(name)]
    if without:
        return f"no Pulumi plugin {', '.join(without)}: `./rwi preview --stack ci` downloads what can be downloaded"
    daemon = subprocess.run(["docker", "info"], capture_output=True, text=True, check=False)
    return f"docker: {daemon.stderr.strip()}" if daemon.returncode else ""


def plugins() -> Path:
    """Where Pulumi keeps those that it has downloaded."""
    return Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi") / "plugins"


def _has_plugin(name: str) -> bool:
    return bool(shutil.which(f"pulumi-resource-{name}")) or any(plugins().glob(f"resource-{name}-v*"))


def settings(folder: Path) -> dict[str, str]:
    """What this site needs set beside the stack's own settings: a folder, and the base image that it names."""
    cache = os.environ.get(OFFLINE)
    if not cache:
        return {}
    _build(BASE, BASE_DOCKERFILE)
    _build(PROMETHEUS, PROMETHEUS_DOCKERFILE)
    chart = Path(cache, "charts", ARCHIVE).read_bytes()
    images = f"{OPERATOR}\n{PROMETHEUS}"
    return {"offline": with_chart(folder, chart, addons="", network="kindnet", images=images, base_image=BASE)}


def monitoring() -> dict[str, str]:
    """What a Prometheus of the stack's own needs set."""
    image = {"prometheusImage": PROMETHEUS} if os.environ.get(OFFLINE) else {}
    return {"monitoring": "prometheus"} | image


def _build(name: str, dockerfile: str) -> None:
    """Build an image if the engine has none of that name."""
    if subprocess.run(["docker", "image", "inspect", name], capture_output=True, check=False).returncode:
        command = ["docker", "build", "--network", "host", "--quiet", "--tag", name, "-"]
        subprocess.run(command, input=dockerfile, text=True, check=True)
