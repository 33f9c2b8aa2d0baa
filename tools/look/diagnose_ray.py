"""Reads Ray's own logs, which are files of the head's pod and in no container's log. Changes nothing."""

from __future__ import annotations

import base64
import io
import tarfile
from collections.abc import Iterator
from typing import Any

from infra.places.cluster.api import ray_api
from infra.places.cluster.api.ray_api import RayError

LONGEST_BYTES = 2**20
"""Taken of each file, from its end, where the reason is."""
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


def session_logs(api: Any, namespace: str) -> Iterator[tuple[str, str]]:
    """Yield each file's path and the end of its text. Raises RayError if no head runs, or if it can't be asked."""
    pod = ray_api.head(api, namespace)
    for path, content in unpacked(_execute(api, namespace, pod, ["python", "-c", _ARCHIVE])):
        yield f"ray-session/{pod}/{path}", content.decode(errors="replace")


def unpacked(printed: str) -> Iterator[tuple[str, bytes]]:
    """The files of an archive that was printed in base64; raises RayError for anything else."""
    try:
        with tarfile.open(fileobj=io.BytesIO(base64.b64decode(printed, validate=False)), mode="r:gz") as archive:
            for member in archive:
                content = archive.extractfile(member)
                yield member.name, content.read() if content else b""
    except (ValueError, tarfile.TarError, OSError) as error:
        raise RayError(f"the head's answer is no archive ({error}): {printed.strip()[:300]}") from None


def _execute(api: Any, namespace: str, pod: str, command: list[str]) -> str:
    """Return what a command prints in the head's container. Raises RayError if it can't be run."""
    from kubernetes.client import ApiClient, CoreV1Api
    from kubernetes.client.exceptions import ApiException
    from kubernetes.stream import stream

    execute = CoreV1Api(ApiClient(api.configuration)).connect_get_namespaced_pod_exec
    streams = {"stderr": True, "stdin": False, "stdout": True, "tty": False}
    try:
        return str(stream(execute, pod, namespace, command=command, container="ray-head", **streams))
    except (ApiException, OSError) as error:
        raise RayError(f"nothing can be run in {pod} ({error})") from None
