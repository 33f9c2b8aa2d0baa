"""Reads the logs of a stack's containers, of Ray, and of the program that made the nodes, as they were printed: nothing
is removed from them, secrets included. Changes nothing."""

from __future__ import annotations

import base64
import io
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cli.look.cluster import StackCluster
from cli.setup.project import capture, say
from infra.places.cluster.api import kube, ray_api
from infra.places.cluster.api.kube import KubeError
from infra.places.cluster.api.ray_api import RayError

LONGEST_LOG_BYTES = 20 * 2**20
NODE_LOG_SECONDS = 120
LONGEST_BYTES = 2**20
"""Most bytes that are taken of each file, from its end, where the reason of a failure usually is."""
_ARCHIVE = f"""
import base64, io, pathlib, sys, tarfile
out = io.BytesIO()
logs = pathlib.Path("/tmp/ray/session_latest/logs").resolve()
with tarfile.open(fileobj=out, mode="w:gz") as archive:
    for path in sorted(logs.rglob("*")):
        if path.is_file() and not path.is_symlink() and path.stat().st_size:
            content = path.read_bytes()[-{LONGEST_BYTES}:]
            member = tarfile.TarInfo(str(path.relative_to(logs)))
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
print(base64.b64encode(out.getvalue()).decode())
"""


def container_logs(api: Any, namespace: str, pods: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the path in the archive and the text of the log of every container, and of the container's previous log if
    it was restarted."""
    for pod in pods:
        name = pod["metadata"]["name"]
        for status in kube.statuses(pod):
            for previous in ("false", "true") if status["restartCount"] else ("false",):
                path = f"logs/{name}-{status['name']}{'-previous' if previous == 'true' else ''}.txt"
                query = {"container": status["name"], "previous": previous, "limitBytes": LONGEST_LOG_BYTES}
                try:
                    yield path, kube.log(api, namespace, name, **query)
                except KubeError as error:
                    yield path, f"not there: {error}\n"


def node_logs(stack_cluster: StackCluster) -> Iterator[tuple[str, str]]:
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


def session_logs(api: Any, namespace: str) -> Iterator[tuple[str, str]]:
    """Yield the path and the end of each file in the folder of Ray's session. Raise RayError if no head runs, or the
    head cannot be asked."""
    pod = ray_api.head(api, namespace)
    for path, content in unpacked(_execute(api, namespace, pod, ["python", "-c", _ARCHIVE])):
        yield f"ray-session/{pod}/{path}", content.decode(errors="replace")


def unpacked(printed: str) -> Iterator[tuple[str, bytes]]:
    """Yield the names and contents of the files in an archive that was printed in base64. Raise RayError if the text is
    not such an archive."""
    try:
        with tarfile.open(fileobj=io.BytesIO(base64.b64decode(printed, validate=False)), mode="r:gz") as archive:
            for member in archive:
                content = archive.extractfile(member)
                yield member.name, content.read() if content else b""
    except (ValueError, tarfile.TarError, OSError) as error:
        raise RayError(f"the head's answer is no archive ({error}): {printed.strip()[:300]}") from None


def _execute(api: Any, namespace: str, pod: str, command: list[str]) -> str:
    """Return the output of a command in the head's container. Raise RayError if the command cannot be run."""
    from kubernetes.client import ApiClient, CoreV1Api
    from kubernetes.client.exceptions import ApiException
    from kubernetes.stream import stream

    execute = CoreV1Api(ApiClient(api.configuration)).connect_get_namespaced_pod_exec
    streams = {"stderr": True, "stdin": False, "stdout": True, "tty": False}
    try:
        return str(stream(execute, pod, namespace, command=command, container="ray-head", **streams))
    except (ApiException, OSError) as error:
        raise RayError(f"nothing can be run in {pod} ({error})") from None
