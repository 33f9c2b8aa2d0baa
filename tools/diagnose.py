"""`make diagnose`: all that is known of a stack's cluster in one archive, without secrets. Changes nothing there.

What can't be had is named in the archive, with the reason: half a cluster is when an archive is wanted.
"""

from __future__ import annotations

import io
import json
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from infra import kube
from infra.kube import KubeError
from tools import cluster, stack_settings
from tools.cluster import StackCluster
from tools.diagnose_ray import session_logs
from tools.diagnose_versions import versions
from tools.project import ROOT, ToolError, capture, run_main, say
from tools.ray_api import RayError
from tools.scrub import Scrubber, without_data

KINDS = {
    "/api/v1": ("pods", "services", "events", "secrets", "configmaps"),
    "/apis/apps/v1": ("deployments", "replicasets"),
    "/apis/batch/v1": ("jobs",),
    "/apis/networking.k8s.io/v1": ("networkpolicies",),
    "/apis/ray.io/v1": ("rayclusters",),
}
LONGEST_LOG_BYTES = 20 * 2**20
MINIKUBE_SECONDS = 120
_GONE = (KubeError, RayError, ToolError)

Texts = Iterator[tuple[str, str]]


def collect(found: StackCluster, api: Any, add: Callable[[str, str], None]) -> None:
    """Pass everything on as (name, text), one file after another; what can't be had is the text `not there: …`."""
    here = f"/namespaces/{found.namespace}"
    steps: dict[str, Callable[[], Texts]] = {
        "cluster/nodes.yaml": lambda: _objects(api, "/api/v1/nodes", "cluster/nodes.yaml"),
        "cluster/namespace.yaml": lambda: _one(api, f"/api/v1{here}", "cluster/namespace.yaml"),
        **{
            f"objects/{kind}.yaml": lambda group=group, kind=kind: _objects(  # type: ignore[misc]
                api, f"{group}{here}/{kind}", f"objects/{kind}.yaml", kind
            )
            for group, kinds in KINDS.items()
            for kind in kinds
        },
        "events.txt": lambda: _events(api, f"/api/v1{here}/events"),
        "logs": lambda: _logs(api, found.namespace),
        "ray-session": lambda: session_logs(api, found.namespace),
    }
    for name, step in steps.items():
        try:
            for path, text in step():
                add(path, text)
        except _GONE as error:
            add(f"{name}.missing.txt", f"not there: {error}\n")


def _objects(api: Any, path: str, name: str, kind: str = "") -> Texts:
    shown = [without_data(kind, item) for item in kube.items(api, path)]
    yield name, yaml.safe_dump_all(shown, sort_keys=False)


def _one(api: Any, path: str, name: str) -> Texts:
    yield name, yaml.safe_dump(without_data("", kube.get(api, path)), sort_keys=False)


def _events(api: Any, path: str) -> Texts:
    """One line each, oldest first, as `kubectl get events` has them."""
    lines = []
    for event in kube.items(api, path):
        about, when = event["involvedObject"], event.get("lastTimestamp") or event.get("eventTime") or "–"
        what = f"{about.get('kind')}/{about.get('name')}"
        lines.append(f"{when} {event.get('type')} {event.get('reason')} {what}: {event.get('message')}")
    yield "events.txt", "\n".join([*sorted(lines), ""])


def _logs(api: Any, namespace: str) -> Texts:
    """Of every container of every pod: the operator's, the head's, the workers', the runs'; and of its life before."""
    for pod in kube.items(api, f"/api/v1/namespaces/{namespace}/pods"):
        name = pod["metadata"]["name"]
        statuses = (pod["status"].get("initContainerStatuses") or []) + (pod["status"].get("containerStatuses") or [])
        for status in statuses:
            for previous in ("false", "true") if status["restartCount"] else ("false",):
                path = f"logs/{name}-{status['name']}{'-previous' if previous == 'true' else ''}.txt"
                query = {"container": status["name"], "previous": previous, "limitBytes": LONGEST_LOG_BYTES}
                try:
                    yield path, kube.log(api, namespace, name, **query)
                except KubeError as error:
                    yield path, f"not there: {error}\n"


def minikube_logs(found: StackCluster) -> Texts:
    """What Minikube knows of its nodes: kubelet, containerd, the control plane."""
    if found.settings.target == "minikube":
        say("asking minikube for its logs: half a minute")
        command = ["minikube", "--profile", found.cluster.minikube_profile, "logs"]
        try:
            done = capture(command, timeout_seconds=MINIKUBE_SECONDS)
        except Exception as error:  # noqa: BLE001 (missing, or hanging: the archive is made whatever happens)
            yield "minikube.txt", f"not there: {error}\n"
            return
        yield "minikube.txt", done.stdout + done.stderr


def write(found: StackCluster, folder: Path) -> Path:
    """Make the archive in `folder`; its path."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    path = folder / f"diagnose-{stamp}.tar.gz"
    folder.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    api, why = _connected(found)
    scrubber = _scrubber(api, found.namespace)
    with tarfile.open(partial, "w:gz") as archive:

        def add(name: str, text: str) -> None:
            content = scrubber.clean(text).encode()
            member = tarfile.TarInfo(f"{path.name.partition('.')[0]}/{name}")
            member.size, member.mtime = len(content), int(time.time())
            archive.addfile(member, io.BytesIO(content))

        add("versions.txt", versions(found))
        add("settings.json", json.dumps(found.settings, default=_plain, indent=2))
        for name, text in minikube_logs(found):
            add(name, text)
        if api is None:
            add("cluster.missing.txt", why)
        else:
            collect(found, api, add)
    partial.replace(path)
    return path


def _plain(value: Any) -> Any:
    return vars(value) if hasattr(value, "__dict__") else str(value)


def _connected(found: StackCluster) -> tuple[Any, str]:
    try:
        return cluster.connect(found), ""
    except ToolError as error:
        say(str(error))
        return None, f"{error}\n"


def _scrubber(api: Any, namespace: str) -> Scrubber:
    """One that knows the namespace's Secrets: a cluster that keeps them from us keeps them from the archive too."""
    try:
        return Scrubber(kube.items(api, f"/api/v1/namespaces/{namespace}/secrets") if api else [])
    except KubeError as error:
        say(f"the Secrets can't be read ({error}): what looks like one is removed, by its form alone")
        return Scrubber([])


def main() -> int:
    """Write the archive of the stack of STACK and print its path."""
    found = cluster.find(*stack_settings.asked("diagnose", __doc__))
    print(write(found, ROOT / "runs" / found.stack))
    return 0


if __name__ == "__main__":
    run_main(main)
