"""The versions of all that a cluster stack runs on: this machine's programs, the locked packages. Asks no cluster."""

from __future__ import annotations

import platform
import shutil
import subprocess
from importlib import metadata

from tools.look.cluster import StackCluster
from tools.setup.project import capture, last_line

SECONDS = 20
PROGRAMS = {
    "docker": ("docker", "version", "--format", "{{.Client.Version}}, engine {{.Server.Version}}"),
    "minikube": ("minikube", "version", "--short"),
    "kubectl": ("kubectl", "version", "--client"),
    "pulumi": ("pulumi", "version"),
}
PACKAGES = ("pulumi", "pulumi-command", "pulumi-kubernetes", "kubernetes", "ray", "tensorflow", "tensorflow-cpu")


def versions(stack_cluster: StackCluster) -> str:
    """A line for each."""
    lines = [f"{platform.platform()}, Python {platform.python_version()}", *map(_program, PROGRAMS)]
    lines += [f"{name} {_package(name)}" for name in PACKAGES]
    cluster = stack_cluster.cluster
    lines += [f"wanted: Kubernetes {cluster.kubernetes_version}, KubeRay {cluster.kuberay_version}"]
    return "\n".join([*lines, ""])


def _program(name: str) -> str:
    if not shutil.which(name):
        return f"{name}: not on PATH"
    try:
        done = capture(PROGRAMS[name], timeout_seconds=SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{name}: {error}"
    text = ", ".join(done.stdout.split("\n")).strip(", ")
    return f"{name}: {text if done.returncode == 0 else last_line(done.stderr)}"


def _package(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"
