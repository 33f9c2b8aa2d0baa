"""`make diagnose`: writes all that is known of a stack's cluster into one archive, without secrets.

It changes nothing in the cluster. Of a namespace it takes only this project's objects, because others may work there.

What can't be read is named in the archive with the reason: an archive is wanted most when half of a cluster is broken.
"""

from __future__ import annotations

import io
import json
import math
import os
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from infra.places.cluster.api import kube
from infra.places.cluster.api.kube import KubeError
from infra.places.cluster.api.ray_api import RayError
from tools.look import cluster
from tools.look.cluster import StackCluster
from tools.look.diagnose_own_objects import Ours
from tools.look.diagnose_ray import session_logs
from tools.look.diagnose_secrets import scrubber_of
from tools.look.diagnose_versions import versions
from tools.look.scrub import Scrubber, without_data
from tools.setup.project import ROOT, ToolError, capture, run_main, say
from tools.stack import settings as stack_settings

KINDS = {
    "/api/v1": ("pods", "services", "events", "secrets", "configmaps"),
    "/apis/apps/v1": ("deployments", "replicasets"),
    "/apis/batch/v1": ("jobs",),
    "/apis/networking.k8s.io/v1": ("networkpolicies",),
    "/apis/ray.io/v1": ("rayclusters",),
}
LONGEST_LOG_BYTES = 20 * 2**20
NODE_LOG_SECONDS = 120
_GONE = (KubeError, RayError, ToolError)

Texts = Iterator[tuple[str, str]]
Dump = Callable[[Sequence[Any]], str]
"""Objects as YAML, without secrets."""


def collect(stack_cluster: StackCluster, api: Any, add: Callable[[str, str], None], scrubber: Scrubber) -> None:
    """Pass everything on as (name, text), one file after another; what can't be read has the text `not there: …`."""
    here, ours = f"/namespaces/{stack_cluster.namespace}", Ours(stack_cluster.settings.cluster)

    def dump(items: Sequence[Any]) -> str:
        return yaml.safe_dump_all(map(scrubber.clean_object, items), sort_keys=False, width=math.inf)

    steps: dict[str, Callable[[], Texts]] = {
        "cluster/nodes.yaml": lambda: _nodes(stack_cluster, api, dump),
        "cluster/namespace.yaml": lambda: _namespace(api, f"/api/v1{here}", dump),
        **{
            f"objects/{kind}.yaml": lambda group=group, kind=kind: _objects(  # type: ignore[misc]
                api, f"{group}{here}/{kind}", kind, ours, dump
            )
            for group, kinds in KINDS.items()
            for kind in kinds
        },
        "events.txt": lambda: _events(api, f"/api/v1{here}/events", ours, scrubber),
        "logs": lambda: _logs(api, stack_cluster.namespace, ours),
        "ray-session": lambda: session_logs(api, stack_cluster.namespace),
    }
    for name, step in steps.items():
        try:
            for path, text in step():
                add(path, text)
        except _GONE as error:
            add(f"{name}.missing.txt", f"not there: {error}\n")


def _objects(api: Any, path: str, kind: str, ours: Ours, dump: Dump) -> Texts:
    yield f"objects/{kind}.yaml", dump([without_data(kind, item) for item in ours.of(kind, kube.items(api, path))])


def _nodes(stack_cluster: StackCluster, api: Any, dump: Dump) -> Texts:
    """Yield the nodes' size, taints and state; on an unmanaged cluster without their images and annotations."""
    shown = [without_data("nodes", item) for item in kube.items(api, "/api/v1/nodes")]
    if not stack_cluster.place.traits.owned:
        for node in shown:
            node["metadata"].pop("annotations", None)
            node["status"] = {key: value for key, value in node["status"].items() if key != "images"}
    yield "cluster/nodes.yaml", dump(shown)


def _namespace(api: Any, path: str, dump: Dump) -> Texts:
    """Yield the namespace's labels, which include Pod Security, and its phase."""
    namespace = kube.get(api, path)
    metadata = {key: namespace["metadata"].get(key) for key in ("name", "labels", "creationTimestamp")}
    yield "cluster/namespace.yaml", dump([{"metadata": metadata, "status": namespace.get("status")}])


def _events(api: Any, path: str, ours: Ours, scrubber: Scrubber) -> Texts:
    """Yield a line for each event of this project's objects, oldest first, as `kubectl get events` prints them."""
    lines = []
    for event in kube.items(api, path):
        about, when = event["involvedObject"], event.get("lastTimestamp") or event.get("eventTime") or "–"
        if ours.has(str(about.get("name"))):
            what = f"{about.get('kind')}/{about.get('name')}"
            message = scrubber.clean(str(event.get("message")))  # by itself, as it was written
            lines.append(f"{when} {event.get('type')} {event.get('reason')} {what}: {message}")
    yield "events.txt", "\n".join([*sorted(lines), ""])


def _logs(api: Any, namespace: str, ours: Ours) -> Texts:
    """Yield the logs of every container of the operator, the head, the workers and the runs, with its previous log."""
    for pod in ours.of("pods", kube.items(api, f"/api/v1/namespaces/{namespace}/pods")):
        name = pod["metadata"]["name"]
        for status in kube.statuses(pod):
            for previous in ("false", "true") if status["restartCount"] else ("false",):
                path = f"logs/{name}-{status['name']}{'-previous' if previous == 'true' else ''}.txt"
                query = {"container": status["name"], "previous": previous, "limitBytes": LONGEST_LOG_BYTES}
                try:
                    yield path, kube.log(api, namespace, name, **query)
                except KubeError as error:
                    yield path, f"not there: {error}\n"


def node_logs(stack_cluster: StackCluster) -> Texts:
    """Yield the log of the program of this machine that made the nodes, if the cluster is managed by the stack."""
    command = stack_cluster.place.log_command(stack_cluster.settings)
    if command:
        program = command[0]
        say(f"asking {program} for its logs: half a minute")
        try:
            done = capture(command, timeout_seconds=NODE_LOG_SECONDS)
        except Exception as error:  # noqa: BLE001 (missing, or hanging: the archive is made whatever happens)
            yield f"{program}.txt", f"not there: {error}\n"
            return
        yield f"{program}.txt", done.stdout + done.stderr


def write(stack_cluster: StackCluster, folder: Path) -> Path:
    """Make the archive in `folder`, for its owner alone to read; its path."""
    path = folder / f"diagnose-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.tar.gz"
    folder.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    api, why = _connected(stack_cluster)
    scrubber = scrubber_of(stack_cluster, api)
    with (
        os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file,
        tarfile.open(fileobj=file, mode="w:gz") as archive,
    ):

        def add(name: str, text: str) -> None:
            content = scrubber.clean(text).encode()
            member = tarfile.TarInfo(f"{path.name.partition('.')[0]}/{scrubber.clean(name)}")
            member.size, member.mtime = len(content), int(time.time())
            archive.addfile(member, io.BytesIO(content))

        add("versions.txt", versions(stack_cluster))
        settings = json.loads(json.dumps(stack_cluster.settings, default=_plain))
        add("settings.json", json.dumps(scrubber.clean_object(settings), indent=2))
        for name, text in node_logs(stack_cluster):
            add(name, text)
        if api is None:
            add("cluster.missing.txt", why)
        else:
            collect(stack_cluster, api, add, scrubber)
    partial.replace(path)
    return path


def _plain(value: Any) -> Any:
    return vars(value) if hasattr(value, "__dict__") else str(value)


def _connected(stack_cluster: StackCluster) -> tuple[Any, str]:
    try:
        return cluster.connect(stack_cluster), ""
    except ToolError as error:
        say(str(error))
        return None, f"{error}\n"


def main() -> int:
    """Write the archive of the stack of STACK and print its path."""
    stack_cluster = cluster.find(*stack_settings.stack_and_overrides("diagnose", __doc__))
    print(write(stack_cluster, ROOT / "runs" / stack_cluster.stack))
    return 0


if __name__ == "__main__":
    run_main(main)
