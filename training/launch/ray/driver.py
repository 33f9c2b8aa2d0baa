"""The driver of an arm with Ray: a Ray of the run's own or a cluster's, the workers' function, the result.

Without an address Ray starts in this process's session and is shut down at the end; with one it joins that cluster.
"""

import os
import platform
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import ray

from training.contract.arms import ARMS
from training.contract.clock import Stamp
from training.contract.progress import Progress
from training.contract.result import RAY_TOKEN, RayCluster, RayHead, TrainingResult
from training.contract.workload import Workload
from training.launch import entry, environment
from training.launch.usage import container_cpu_since
from training.machine import isolation, port_forward

if TYPE_CHECKING:
    from training.launch.ray.recovery import Recovers

LOOPBACK = "127.0.0.2" if sys.platform.startswith("linux") else "127.0.0.1"
"""Address on which a Ray that was started here listens. On Linux Ray replaces 127.0.0.1, ::1 and localhost by an
address that other machines reach (`ray._private.services.resolve_ip_for_localhost`), but keeps every other address of
loopback."""
DASHBOARD_PORT = 8265
"""Port of Ray's dashboard, which is Ray's default."""


class WorkersError(OSError):
    """Workers failed, and were not retried any more; the message has the reason."""


def documented_trainer(workload: Workload) -> Callable[..., Any]:
    """Return the trainer class of Ray's guide for the workload's framework, which this imports, also in the driver."""
    module, _, name = workload.trainer.rpartition(".")
    trainer: Callable[..., Any] = getattr(import_module(module), name)
    return trainer


def main(arm: str, doc: str | None, settings: Mapping[str, str]) -> None:
    """Run the arm's driver and write its result. `settings`: environment variables that are set before Ray starts."""
    request = entry.begin(arm, doc)
    os.environ.update(settings)
    entry.run(lambda: run_on_this_machine(request, arm), request.result)


def run_on_this_machine(request: entry.Request, arm: str) -> TrainingResult:
    """Call `run` in a network of its own. From this machine, only Ray's dashboard in that network can be reached."""
    listener = port_forward.listen(DASHBOARD_PORT) if request.dashboard and not request.address else None
    request = entry.on_this_machine(request)
    if listener and isolation.is_alone():
        port_forward.start(listener, port_forward.LOOPBACK, DASHBOARD_PORT)
        where = f"http://{port_forward.LOOPBACK}:{listener.getsockname()[1]}"
        text = f"Ray's dashboard: {where}, its token: cat {request.result.parent / RAY_TOKEN}"
        Progress(request.result.parent).write("note", text=text)
    elif listener:
        listener.close()
    return run(request, arm)


def run(request: entry.Request, arm: str) -> TrainingResult:
    """Start or join Ray, train, and shut Ray down. Return rank 0's result, with this process's end-to-end time."""
    read = entry.container_cpu_at_start(request)
    environment.defer_garbage_collection()
    with request.phases.measure("rayInit"):
        own = start_ray(request, arm)
    environment.resume_garbage_collection()
    try:
        rank_0, retries = _fit(request, arm)
    finally:
        shut_down(own)
    result = TrainingResult.from_dict(rank_0)
    both = container_cpu_since(read)
    head = RayHead(pod=platform.node(), container_cpu=both) if both else None
    seconds = replace(result.seconds, wall=request.started.seconds_until(Stamp.now()))
    return replace(result, ray_head=head, seconds=seconds, retries=retries)


@dataclass(frozen=True)
class OwnRay:
    """The files of a Ray that was started here: a folder that no other user can read, and its token."""

    private: Path
    token: Path

    @classmethod
    def prepare(cls, folder: Path) -> "OwnRay":
        """Create a private folder, and a new token in `folder`, and set the environment so that a Ray started in this
        process requires that token.

        Ray's own choice is ~/.ray/auth_token, readable by everybody. With no RAY_AUTH_MODE `ray.init` asks for a token.
        Source: https://docs.ray.io/en/latest/ray-security/token-auth.html
        """
        own = cls(Path(tempfile.mkdtemp(prefix="ray-", dir=environment.short_folder())), folder / RAY_TOKEN)
        own.token.unlink(missing_ok=True)
        with os.fdopen(os.open(own.token, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as token:
            token.write(secrets.token_hex(32))
        for chosen_elsewhere in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
            os.environ.pop(chosen_elsewhere, None)
        os.environ["RAY_AUTH_TOKEN_PATH"] = str(own.token)
        return own

    def remove(self) -> None:
        """Delete the folder and the token."""
        shutil.rmtree(self.private, ignore_errors=True)
        self.token.unlink(missing_ok=True)


def start_ray(request: entry.Request, arm: str, more_cpus: int = 0) -> OwnRay | None:
    """Connect to the Ray at the request's address, or start one here. Return the files of the Ray that was started;
    None after connecting.

    `more_cpus`: logical CPUs, besides the arm's own, for processes that compute nothing.
    """
    threads = ARMS[arm].compute_threads(request.recipe)
    # Ray's trainer imports the framework here, and Ray in the workers before it calls a function of ours
    variables = environment.variables(request.workload, threads)
    os.environ.update(variables)  # which every process of a Ray that starts here inherits
    if request.address:
        ray.init(address=request.address, runtime_env={"env_vars": variables})
        return None
    cpus = request.recipe.workers * request.recipe.processes_each * threads + more_cpus
    return start_own_ray(request.result.parent, cpus, dashboard=request.dashboard)


def start_own_ray(folder: Path, cpus: int, *, dashboard: bool = False) -> OwnRay:
    """Start Ray in this process's session with `cpus` CPUs, and return its files. Its token is in `folder`."""
    own = OwnRay.prepare(folder)
    os.environ.update(environment.for_workers_of_ray(sys.executable))
    try:
        ray.init(
            address="local",  # whatever RAY_ADDRESS says
            num_cpus=cpus,
            include_dashboard=dashboard,
            _node_ip_address=LOOPBACK,
            _temp_dir=str(own.private / "r"),  # which Ray opens to every user of the machine, but not the one around it
        )
    except BaseException:
        shut_down(own)
        raise
    return own


def shut_down(own: OwnRay | None) -> None:
    """Disconnect from Ray. If Ray was started here, also kill the processes that outlive it (an actor can, for half a
    minute) and delete its files."""
    started = psutil.Process().children(recursive=True) if own else []
    ray.shutdown()
    for process in started:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    if own:
        own.remove()


def cluster() -> RayCluster:
    """Return what Ray itself reports of its cluster: nodes, CPUs and memory."""
    resources = ray.cluster_resources()
    return RayCluster(
        nodes=sum(1 for node in ray.nodes() if node["Alive"]),
        cpus=resources.get("CPU", 0.0),
        memory_bytes=resources.get("memory", 0.0),
        object_store_bytes=resources.get("object_store_memory", 0.0),
    )


def _fit(request: entry.Request, arm: str) -> tuple[dict[str, Any], int | None]:
    """Train with Ray Train. Return the result of rank 0, and how often the run was retried; None if it never is."""
    import ray.train

    recovers = _recovers(request)
    run_config = {"storage_path": str(request.result.parent / "ray"), "name": "train"}
    arguments = {
        "scaling_config": ray.train.ScalingConfig(
            num_workers=request.recipe.workers,
            resources_per_worker={"CPU": ARMS[arm].compute_threads(request.recipe)},
        ),
        "run_config": ray.train.RunConfig(**run_config | (recovers.arguments(run_config["name"]) if recovers else {})),
    }
    config: dict[str, Any] = {
        "arm": arm,
        "cluster": cluster(),
        "checkpoints": recovers.checkpoints if recovers else None,
    }
    with request.phases.measure("rayImport"):
        trainer_class = documented_trainer(request.workload)
        trainer = trainer_class(train_loop_per_worker=_train_worker, train_loop_config=config, **arguments)
    config |= {"request": request, "asked": Stamp.now()}
    try:
        value = trainer.fit().return_value
    except ray.train.WorkerGroupError as error:
        print(error, file=sys.stderr)  # with what each of them has to say
        raise WorkersError(_first_reason(error.worker_failures)) from None
    if not isinstance(value, dict):
        raise RuntimeError("Ray Train ended without the result of rank 0")
    return value, recovers.retries() if recovers else None


def _recovers(request: entry.Request) -> "Recovers | None":
    """Return Ray Train's configuration for a run that makes checkpoints or may be retried; None for any other run."""
    if not request.recipe.recovery().is_wanted:
        return None
    from training.launch.ray.recovery import Recovers

    return Recovers(request)


def _first_reason(failures: Mapping[int, Exception]) -> str:
    """Return a line that names the lowest rank that failed, with the last line of its error."""
    rank, failure = min(failures.items())
    return f"rank {rank} of Ray Train failed: {str(failure).strip().splitlines()[-1]}"


def _train_worker(config: dict[str, Any]) -> dict[str, Any] | None:
    """Train as one of the workers, in a process that Ray started. Return the result on rank 0, None on the others."""
    import ray.train

    request: entry.Request = config["request"]
    context = ray.train.get_context()
    request.phases.add("rayWorkers", config["asked"].seconds_until(Stamp.now()))
    result = entry.take_part(
        request,
        config["arm"],
        context.get_world_rank(),
        context.get_world_size(),
        report=ray.train.report,
        checkpoints=config["checkpoints"],
        ray=config["cluster"],
    )
    return result.to_dict() if result else None
