"""`rwi doctor --archive`: writes what is known of a stack's cluster into one archive that can be shown to others.

It holds names, sizes, states and versions, field by field (`diagnose_objects`); no Secret, ConfigMap, environment or
kubeconfig is read for it. With --logs it has the logs, too, as the programs printed them.

It changes nothing in the cluster. Of a namespace it takes only this project's objects, because others may work there.
What can't be read is named in the archive with the reason: an archive is wanted most when half of a cluster is broken.
"""

from __future__ import annotations

import io
import math
import os
import platform
import shutil
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml

from cli.look import cluster
from cli.look.cluster import StackCluster
from cli.look.diagnose_logs import container_logs, node_logs, session_logs
from cli.look.diagnose_objects import SHOWN, Ours, event_line, plain, shown
from cli.setup.project import ROOT, ToolError, capture, say
from infra.places.cluster.api import kube
from infra.places.cluster.api.kube import KubeError
from infra.places.cluster.api.ray_api import RayError
from infra.settings.table import every_key
from training.machine.command_line import rwi

KINDS = {
    "/api/v1": ("pods", "services"),
    "/apis/apps/v1": ("deployments", "replicasets"),
    "/apis/batch/v1": ("jobs",),
    "/apis/networking.k8s.io/v1": ("networkpolicies",),
    "/apis/ray.io/v1": ("rayclusters",),
}
SECONDS = 20
PROGRAMS = {
    "docker": ("docker", "version", "--format", "{{.Client.Version}}, engine {{.Server.Version}}"),
    "minikube": ("minikube", "version", "--short"),
    "kubectl": ("kubectl", "version", "--client"),
    "pulumi": ("pulumi", "version"),
}
PACKAGES = ("pulumi", "pulumi-command", "pulumi-kubernetes", "kubernetes", "ray", "tensorflow", "tensorflow-cpu")
_GONE = (KubeError, RayError, ToolError)

Texts = Iterator[tuple[str, str]]


def collect(stack_cluster: StackCluster, api: Any, add: Callable[[str, str], None], *, logs: bool) -> None:
    """Call `add` with the name and the text of each file of the archive; in place of one that cannot be read, with
    `NAME.missing.txt` and the reason."""
    namespace, ours = stack_cluster.namespace, Ours(stack_cluster.settings.cluster)
    here = f"/namespaces/{namespace}"
    steps: dict[str, Callable[[], Texts]] = {
        "cluster/nodes.yaml": lambda: _objects("cluster", "nodes", kube.items(api, "/api/v1/nodes")),
        "cluster/namespace.yaml": lambda: _namespace(api, f"/api/v1{here}"),
        **{
            f"objects/{kind}.yaml": lambda group=group, kind=kind: _objects(  # type: ignore[misc]
                "objects", kind, ours.of(kind, kube.items(api, f"{group}{here}/{kind}"))
            )
            for group, kinds in KINDS.items()
            for kind in kinds
        },
        "events.txt": lambda: _events(api, f"/api/v1{here}/events", ours),
    }
    if logs:
        pods = f"/api/v1{here}/pods"
        steps |= {
            "logs": lambda: container_logs(api, namespace, ours.of("pods", kube.items(api, pods))),
            "ray-session": lambda: session_logs(api, namespace),
        }
    for name, step in steps.items():
        try:
            for path, text in step():
                add(path, text)
        except _GONE as error:
            add(f"{name}.missing.txt", f"not there: {error if logs else _status(error)}\n")


def _status(error: Exception) -> str:
    """Return the HTTP status of an error, without its text, which may quote an address or an admission webhook."""
    status = error.status if isinstance(error, KubeError) else None
    return f"HTTP {status}" if status else "no answer"


def _objects(folder: str, kind: str, items: Sequence[Any]) -> Texts:
    parts = [shown(SHOWN[kind], item) for item in items]
    yield f"{folder}/{kind}.yaml", yaml.safe_dump_all(parts, sort_keys=False, width=math.inf)


def _namespace(api: Any, path: str) -> Texts:
    """Yield a file with the namespace's phase and its labels for Pod Security."""
    namespace = kube.get(api, path)
    labels = namespace["metadata"].get("labels") or {}
    security = {name: value for name, value in labels.items() if name.startswith("pod-security.kubernetes.io/")}
    text = {"name": namespace["metadata"]["name"], "labels": security, "phase": namespace["status"]["phase"]}
    yield "cluster/namespace.yaml", yaml.safe_dump(text, sort_keys=False)


def _events(api: Any, path: str, ours: Ours) -> Texts:
    """Yield a file with a line for each event of this project's objects, oldest first."""
    events = [event for event in kube.items(api, path) if ours.has(str(event["involvedObject"].get("name")))]
    yield "events.txt", "\n".join([*sorted(map(event_line, events)), ""])


def write(stack_cluster: StackCluster, folder: Path, *, logs: bool) -> Path:
    """Write the archive into `folder`, readable only by its owner, and return its path."""
    path = folder / f"diagnose-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.tar.gz"
    folder.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    api, why = _connected(stack_cluster)
    with (
        os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file,
        tarfile.open(fileobj=file, mode="w:gz") as archive,
    ):

        def add(name: str, text: str) -> None:
            content = text.encode()
            member = tarfile.TarInfo(f"{path.name.partition('.')[0]}/{name}")
            member.size, member.mtime = len(content), int(time.time())
            archive.addfile(member, io.BytesIO(content))

        add("versions.txt", versions(stack_cluster))
        add("settings.txt", settings_text(stack_cluster))
        for name, text in node_logs(stack_cluster) if logs else ():
            add(name, text)
        if api is None:
            add("cluster.missing.txt", why if logs else f"not there: `{rwi('doctor --archive')}` printed the reason\n")
        else:
            collect(stack_cluster, api, add, logs=logs)
    partial.replace(path)
    return path


def settings_text(stack_cluster: StackCluster) -> str:
    """Return a line for each key that is set, with its value only if the value cannot contain a secret."""
    lines = [f"target = {stack_cluster.settings.target}"]
    keys = every_key()
    for key, text in sorted(stack_cluster.settings.explicit.items()):
        lines += [f"{key} = {plain(text) if keys[key].may_be_shown else '[set]'}"] if key != "target" else []
    return "\n".join([*lines, ""])


def versions(stack_cluster: StackCluster) -> str:
    """Return a line for each program of this machine, each locked package, and the version that is wanted."""
    lines = [f"{platform.platform()}, Python {platform.python_version()}", *map(_program, PROGRAMS)]
    lines += [f"{name} {_package(name)}" for name in PACKAGES]
    lines += [f"wanted: KubeRay {stack_cluster.cluster.kuberay_version}"]
    return "\n".join([*lines, ""])


def _program(name: str) -> str:
    if not shutil.which(name):
        return f"{name}: not on PATH"
    try:
        done = capture(PROGRAMS[name], timeout_seconds=SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{name}: {type(error).__name__}"
    text = ", ".join(done.stdout.split("\n")).strip(", ")
    return f"{name}: {text if done.returncode == 0 else f'exit status {done.returncode}'}"


def _package(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def _connected(stack_cluster: StackCluster) -> tuple[Any, str]:
    try:
        return cluster.connect(stack_cluster), ""
    except ToolError as error:
        say(str(error))
        return None, f"{error}\n"


def archive(stack: str, overrides: Mapping[str, str], *, logs: bool) -> int:
    """Write the archive of a stack's cluster, and print its path."""
    stack_cluster = cluster.find(stack, overrides)
    print(write(stack_cluster, ROOT / "runs" / stack_cluster.stack, logs=logs))
    if logs:
        say("its logs are as the programs printed them, secrets included: read them before you pass it on")
    else:
        say("it has no logs; with --logs it has them as the programs printed them")
    return 0
