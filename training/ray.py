"""The ray arm: the same workers, started and joined by Ray Train's TensorflowTrainer.

Without an address it starts Ray in this process's session and shuts it down at the end; with one it joins that cluster.
"""

import os
import platform
import secrets
import shutil
import sys
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
import ray
from ray._private.node import Node

from training import entry, environment, isolation, port_forward
from training.clock import Stamp
from training.progress import Progress
from training.result import RayCluster, RayHead, TrainingResult
from training.usage import container_cpu_since

LONGEST_TEMPORARY = 24
"""Characters. A socket's path ends at 107 (103 on macOS), and there follow 15 of ours and up to 64 of Ray's:
`/ray-xxxxxxxx/r/session_2026-01-01_00-00-00_000000_4194304/sockets/plasma_store`."""
SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # Ray runs its workers at 15, where every other process of the machine goes first
    "RAY_WARN_BLOCKING_GET_INSIDE_ASYNC": "0",  # as Ray Train sets it for its controller
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5",  # how long after the last worker the controller may notice the end
    "RAY_TRAIN_ENABLE_PRINT_PATCH": "0",  # which prints every line a second time
    "RAY_COLOR_PREFIX": "0",  # escape sequences in logs that are read as files
    # Each of these is an actor: a process that starts beside the workers, and then polls.
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",
    "RAY_TRAIN_METRICS_ENABLED": "0",
    "RAY_TRAIN_ENABLE_STATE_ACTOR_RECONCILIATION": "0",
}
"""Environment of the driver, before Ray starts; docs/performance.md has what each saves."""
LOOPBACK = "127.0.0.2" if sys.platform.startswith("linux") else "127.0.0.1"
"""Where a Ray that was started here listens. On Linux Ray replaces 127.0.0.1, ::1 and localhost by the address that
other machines reach (`ray._private.services.resolve_ip_for_localhost`), and keeps every other address of loopback."""
DASHBOARD_PORT = 8265
"""Ray's own choice."""
TOKEN = "ray-token"  # noqa: S105 (a file's name)
"""The file beside the result with the token of a Ray that was started here, while that runs."""
OBJECT_STORE_BYTES = 100 * 2**20
"""Of an own cluster: training data does not pass through it."""


def run_on_this_machine(request: entry.Request) -> TrainingResult:
    """`run` in a network of its own, out of which only the dashboard is reached, from this machine."""
    listener = port_forward.listen(DASHBOARD_PORT) if request.dashboard and not request.address else None
    request = entry.on_this_machine(request)
    if listener and isolation.is_alone():
        port_forward.start(listener, port_forward.LOOPBACK, DASHBOARD_PORT)
        where = f"http://{port_forward.LOOPBACK}:{listener.getsockname()[1]}"
        text = f"Ray's dashboard: {where}, its token: cat {request.result.parent / TOKEN}"
        Progress(request.result.parent).write("note", text=text)
    elif listener:
        listener.close()
    return run(request)


def run(request: entry.Request) -> TrainingResult:
    """Start or join Ray, train, shut down, and give rank 0's result with this process's own end-to-end time."""
    entered, read = Stamp.now(), entry.container_cpu_at_start(request)
    environment.defer_garbage_collection()
    os.environ.update(SETTINGS)
    importing = threading.Thread(target=_import_trainer)  # half a second that Ray's start leaves unused
    importing.start()
    own = start_ray(request)
    importing.join()
    environment.resume_garbage_collection()
    try:
        found = _fit(request, entered)
    finally:
        shut_down(own)
    result = TrainingResult.from_dict(found)
    both = container_cpu_since(read)
    head = RayHead(pod=platform.node(), container_cpu=both) if both else None
    return replace(result, ray_head=head, wall_seconds=request.started.seconds_until(Stamp.now()))


@dataclass(frozen=True)
class OwnRay:
    """What a Ray that was started here has on the disk: a folder that no other user can look into, and its token."""

    private: Path
    token: Path

    @classmethod
    def prepare(cls, request: entry.Request) -> "OwnRay":
        """Make the folder and a new token, and have the Ray that starts in this process ask for that.

        Ray's own choice is ~/.ray/auth_token, readable by everybody. With no RAY_AUTH_MODE `ray.init` asks for a token.
        Source: https://docs.ray.io/en/latest/ray-security/token-auth.html
        """
        own = cls(Path(tempfile.mkdtemp(prefix="ray-", dir=_short_folder())), request.result.parent / TOKEN)
        own.token.unlink(missing_ok=True)
        with os.fdopen(os.open(own.token, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as token:
            token.write(secrets.token_hex(32))
        for chosen_elsewhere in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
            os.environ.pop(chosen_elsewhere, None)
        os.environ["RAY_AUTH_TOKEN_PATH"] = str(own.token)
        return own

    def remove(self) -> None:
        """Both."""
        shutil.rmtree(self.private, ignore_errors=True)
        self.token.unlink(missing_ok=True)


def start_ray(request: entry.Request) -> OwnRay | None:
    """Connect to the address, or start Ray here; gives what that one has on the disk."""
    if request.address:
        ray.init(address=request.address)
        return None
    own = OwnRay.prepare(request)
    os.environ.update(environment.variables(request.recipe.compute_threads()))
    _leave_out(dashboard=request.dashboard)
    try:
        ray.init(
            address="local",  # whatever RAY_ADDRESS says
            num_cpus=request.recipe.workers * request.recipe.compute_threads(),
            include_dashboard=request.dashboard,
            object_store_memory=OBJECT_STORE_BYTES,
            _node_ip_address=LOOPBACK,
            _temp_dir=str(own.private / "r"),  # which Ray opens to every user of the machine, but not the one around it
        )
    except BaseException:
        shut_down(own)
        raise
    return own


def shut_down(own: OwnRay | None) -> None:
    """Leave Ray; if it was started here, end what outlives it (an actor can, for half a minute) and its files."""
    started = psutil.Process().children(recursive=True) if own else []
    ray.shutdown()
    for process in started:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    if own:
        own.remove()


def cluster() -> RayCluster:
    """What Ray says of its cluster."""
    resources = ray.cluster_resources()
    return RayCluster(
        nodes=sum(1 for node in ray.nodes() if node["Alive"]),
        cpus=resources.get("CPU", 0.0),
        memory_bytes=resources.get("memory", 0.0),
        object_store_bytes=resources.get("object_store_memory", 0.0),
    )


def _leave_out(*, dashboard: bool) -> None:
    """Have Ray start no autoscaler here, and no API server unless its dashboard is wanted: nobody would ask them."""
    Node.start_monitor = lambda _: None
    if not dashboard:
        Node.start_api_server = lambda _, **__: None


def _import_trainer() -> None:
    import training.ray_trainer  # noqa: F401


def _fit(request: entry.Request, entered: Stamp) -> dict[str, Any]:
    import ray.train

    from training.ray_trainer import LeanTensorflowTrainer

    recipe = request.recipe
    trainer = LeanTensorflowTrainer(
        own_cluster=not request.address,
        train_loop_per_worker=_train_worker,
        train_loop_config={
            "request": request,
            "driver": None if request.address else os.getpid(),
            "entered": entered,
            "cluster": cluster(),
        },
        scaling_config=ray.train.ScalingConfig(
            num_workers=recipe.workers, resources_per_worker={"CPU": recipe.compute_threads()}
        ),
        run_config=ray.train.RunConfig(storage_path=str(request.result.parent / "ray"), name="train"),
    )
    value = trainer.fit().return_value
    if not isinstance(value, dict):
        raise RuntimeError("Ray Train ended without the result of rank 0")
    return value


def _train_worker(config: dict[str, Any]) -> dict[str, Any] | None:
    """One of the workers, in a process that Ray started."""
    import ray.train

    request: entry.Request = config["request"]
    context = ray.train.get_context()
    request.phases.add("ray", config["entered"].seconds_until(Stamp.now()))
    if config["driver"]:
        from training.ray_trainer import yield_to_training

        yield_to_training(config["driver"])
    result = entry.take_part(
        request,
        "ray",
        context.get_world_rank(),
        context.get_world_size(),
        report=ray.train.report,
        ray=config["cluster"],
    )
    return result.to_dict() if result else None


def _short_folder() -> str | None:
    """The system's temporary folder, or /tmp where its name is too long for Ray's sockets."""
    return None if len(tempfile.gettempdir()) <= LONGEST_TEMPORARY else "/tmp"  # noqa: S108


if __name__ == "__main__":
    asked = entry.begin("ray", __doc__)
    entry.run(lambda: run_on_this_machine(asked), asked.result)
