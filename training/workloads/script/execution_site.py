"""Differences between running a script on this machine, in a pod and as a Ray job.

A pod has only its own files. So the script comes as a package, each rank of `native` is a pod that gets the addresses
of the others, and the ranks' observations are collected before there is a result. A job of an existing Ray cluster is
on one of its nodes, with the script in its folder; only the arm `ray` has ranks on other nodes.
"""

import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from training.contract.clock import process_start
from training.contract.provenance import NODE
from training.contract.result import RayHead
from training.contract.workload import Installed, OfRayCluster
from training.launch import entry, environment, rendezvous
from training.launch.entry import Request
from training.launch.environment import FILES, JOB_CONFIG, OVERRIDE, RAY_JOB, SECRET, SECRET_FILE, SECRET_NAMES
from training.launch.foreign_command import End
from training.launch.pod.unpacked_modules import image_path
from training.launch.rendezvous import Rendezvous
from training.launch.usage import container_cpu_since
from training.machine import gpus
from training.machine.ports import held_ports
from training.workloads.script import commands, observation_files, plain, python_environment, rank_exchange, source
from training.workloads.script.commands import ArmCommand
from training.workloads.script.environment import own_ray, variables_of
from training.workloads.script.observations import Observation
from training.workloads.script.observe.in_pod import STORE
from training.workloads.script.ranks import variables
from training.workloads.script.recipe import ScriptRecipe
from training.workloads.script.resolve import ResolvedScript

RAYS_OWN = "RAY_"
"""Prefix of Ray's own variables, by which a script would join the cluster that runs the script as a job."""
UNHELD = "Ray counts the CPUs that it reserves, and holds no process to them"
RAY_SECONDS = 180.0
"""Seconds to wait for Ray's answer after a run, in which each node of Ray starts a worker on a part of a CPU."""
RENDEZVOUS = {
    "ray-torch": variables.torchrun,
    "torchrun": variables.torchrun,
    "ray-tensorflow": variables.tf_config,
    "tf-config": variables.tf_config,
    "ray-xgboost": variables.xgboost,
    "ray-lightgbm": variables.booster,
    "plain": variables.booster,
}
"""Functions that return the environment variables of a rank of `native` from the addresses of all ranks and the number
of this rank, by the kind of script."""


@dataclass(frozen=True, kw_only=True)
class Invocation:
    """The inputs of a started arm."""

    resolved: ResolvedScript
    command: ArmCommand
    needed: Mapping[str, str]
    """Variables that the user names in the settings, secret ones included."""
    observer: Mapping[str, str]
    own_ray: Path
    """A folder for the files of a Ray that the script starts."""
    storage: str
    """Address of the run's storage, for files that outlive the run; "" if there is none."""


class Machine:
    """This machine as the place of a run, which has the machine, and a network, to itself."""

    image: Installed = None
    """Packages in the image of the run's pods; None if the run is on this machine."""
    memory_key = ""
    """Name of the setting that limits the run's memory; "" if there is none."""
    others_share_memory = False
    """Whether a run that needs more memory than there is takes others down, too: its whole pod, or a node of Ray."""

    def __init__(self) -> None:
        self.secret: dict[str, str] = json.loads(os.environ.pop(SECRET, "{}"))
        """Secret environment variables, which no other process may see."""

    proofs: Path | None = plain.KEPT
    """The folder that keeps outcomes of proofs for later runs; None where later runs cannot find it."""
    gives_result = True
    """Whether this process gives the result of its run."""

    def proof(self, resolved: ResolvedScript, storage: Path, file: Path) -> ArmCommand:
        """Return the command that proves what the ranks of a plain script do."""
        return resolved.proof(storage, file)

    def agreed(self, prove: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        """Return the outcome of a proof, which is the same in all processes of a run."""
        return prove()

    def recipe(self, recipe: ScriptRecipe) -> ScriptRecipe:
        """Return the recipe with the path that the script has where this process runs."""
        return recipe

    def command(self, resolved: ResolvedScript, storage: Path, arm: str) -> ArmCommand:
        """Return the command of an arm. Raises NoGpusError if this machine has too few GPUs for all workers."""
        devices = gpus.first(resolved.recipe.workers * resolved.recipe.worker_gpus)
        with held_ports(1) as (port,):
            return resolved.arms({"storage": str(storage)}, port, devices, str(storage.parent / plain.PLAN))[arm]

    def variables(self, invocation: Invocation) -> dict[str, str]:
        """Return the whole environment of the arm's command."""
        own = self.unobserved(invocation.command, invocation.needed, invocation.own_ray, invocation.storage)
        return {**own, **invocation.observer}

    def unobserved(
        self, command: ArmCommand, needed: Mapping[str, str], own_ray_folder: Path, storage: str = ""
    ) -> dict[str, str]:
        """Return the environment of a command that nothing observes; a Ray that it starts has a folder of its own."""
        return variables_of(command, needed, own_ray_folder, storage)

    def cpus(self, command: ArmCommand) -> int:
        """Return the number of CPUs to which the command is bound; 0 if it is bound to none."""
        return command.cpus

    def ended(self, end: End) -> End:
        """Return the end of a run with the start from which the time of the run counts."""
        return end

    def seen(self, folder: Path) -> Sequence[Observation] | None:
        """Return the observations of all ranks, ordered by rank; None if another process gives the result."""
        return observation_files.read(folder)

    def workers_without_memory(self) -> Mapping[str, int | None]:
        """Return the other pods in which a process of a failed run was killed for its memory. They are a mapping from
        the address of a pod to its memory limit in bytes, or to None if it has no limit."""
        return {}

    def head(self) -> RayHead | None:
        """Return the pod of Ray's head if this process runs in it; None otherwise."""
        return None

    def reasons(self) -> dict[str, str]:
        """Return the reasons why numbers of a run are null here, in addition to those of the run's ranks."""
        return {}


class Pod(Machine):
    """A pod with one process that trains. Its CPU limit holds the process; its specification sets the environment."""

    memory_key = "workerMemory"
    others_share_memory = True
    proofs: Path | None = None

    def __init__(self, request: Request) -> None:
        names = [name for name in os.environ.get(SECRET_NAMES, "").split(",") if name]
        self.secret = {name: os.environ[name] for name in names}
        self.image = python_environment.versions(sys.executable)
        self._request = request

    def recipe(self, recipe: ScriptRecipe) -> ScriptRecipe:
        """Return the recipe with the path of a copy of the script for this pod alone, because a script may write beside
        itself. For the driver of a job, Ray has already unpacked the script into the current directory."""
        if FILES not in os.environ:
            return replace(recipe, script=str(Path.cwd() / recipe.script))
        folder = self._request.result.parent / "script"
        shutil.rmtree(folder, ignore_errors=True)
        source.unpack(Path(os.environ[FILES]).read_bytes(), folder)
        return replace(recipe, script=str(folder / recipe.script))

    def command(self, resolved: ResolvedScript, storage: Path, arm: str) -> ArmCommand:
        """Return the command of an arm with this pod's Python."""
        of_pod = replace(resolved, python=sys.executable)
        return of_pod.arms({"storage": str(storage)}, plan=str(storage.parent / plain.PLAN))[arm]

    def proof(self, resolved: ResolvedScript, storage: Path, file: Path) -> ArmCommand:
        """Return the command of the proof with this pod's Python."""
        return replace(resolved, python=sys.executable).proof(storage, file)

    def variables(self, invocation: Invocation) -> dict[str, str]:
        """Return the variables of the pod and of the command, without those of this project's own processes."""
        own = self.unobserved(invocation.command, invocation.needed, invocation.own_ray)
        return {**own, **_observed(invocation)}

    def unobserved(
        self,
        command: ArmCommand,
        needed: Mapping[str, str],
        own_ray_folder: Path,
        storage: str = "",  # noqa: ARG002 (the pod has what its storage needs)
    ) -> dict[str, str]:
        """Return the environment of a command that nothing observes, with PYTHONPATH as the image names it."""
        path = {"PYTHONPATH": os.pathsep.join(image_path())}
        return {**_of_pod(), **needed, **command.variables, **own_ray(own_ray_folder), **path}

    def cpus(self, command: ArmCommand) -> int:  # noqa: ARG002 (as above)
        """Return 0, because the CPU limit of the pod already holds the command."""
        return 0


class RankPod(Pod):
    """The pod of one rank of `native`: rank 0 gives the result, and gets the observations of the others."""

    def __init__(self, request: Request, cluster: Rendezvous) -> None:
        super().__init__(request)
        self._cluster = cluster
        host, _, port = cluster.addresses[0].rpartition(":")
        self._meeting = host, int(port) + 1  # beside the port where the framework's ranks meet
        self._listener = None if cluster.rank else rank_exchange.listener_at(self._meeting[1])

    @property
    def gives_result(self) -> bool:  # type: ignore[override]
        """Return whether this is rank 0."""
        return self._listener is not None

    def agreed(self, prove: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        """Return what rank 0 has proved. Others prove nothing, because one of several proofs may not end in time."""
        if self._listener is None:
            return rank_exchange.ask(self._meeting, self._cluster.rank)
        outcome = prove()
        rank_exchange.give(self._listener, set(range(1, len(self._cluster.addresses))), outcome)
        return outcome

    def variables(self, invocation: Invocation) -> dict[str, str]:
        """Return the variables of the pod, and those by which ranks of this kind of script find each other."""
        kind, addresses = invocation.resolved.script.kind, list(self._cluster.addresses)
        if kind in (*commands.BOOSTERS, "plain"):  # LightGBM looks for its own address there, XGBoost listens at it
            addresses = [_resolved(address) for address in addresses]
        meeting = RENDEZVOUS[kind](addresses, self._cluster.rank)
        return {**super().variables(invocation), **meeting}

    def seen(self, folder: Path) -> Sequence[Observation] | None:
        """Return the observations of all ranks in rank 0; None in the others, which send theirs to rank 0."""
        own = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("rank-*.json"))]
        if self._listener is None:
            rank_exchange.bring(self._meeting, {"rank": self._cluster.rank, "observations": own})
            return None
        others = rank_exchange.received(self._listener, set(range(1, len(self._cluster.addresses))))
        return sorted(map(observation_files.parse, [*own, *others]), key=lambda observation: observation.rank)


class HeadPod(Pod):
    """The pod of Ray's head, where the driver of a job runs; the workers are in other pods."""

    memory_key = "headMemory"
    proofs = Path(tempfile.gettempdir(), "ray-worth-it-proved")
    """The folder is in the pod of Ray's head, which outlives a run."""

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self._cpu = entry.container_cpu_at_start(request)

    def variables(self, invocation: Invocation) -> dict[str, str]:
        """Return the variables of the pod and of the driver, whose workers get no secret ones: their pods have them."""
        # A new folder: Ray's pods outlive the run, and the next one would find what this one downloads
        home = {"HOME": f"/tmp/home-{uuid.uuid4().hex}"}  # noqa: S108 (of the pod)
        return {**_of_pod(), **_of_driver(invocation, self.secret, home)}

    def ended(self, end: End) -> End:
        """Return the end of a run that starts with the job's submission, without this process's own start-up."""
        waited = max(0.0, self._request.started.seconds_until(process_start()))
        return replace(end, began=end.began - waited)

    def workers_without_memory(self) -> Mapping[str, int | None]:
        """Return in which pods Ray killed a process for its memory; nothing if Ray does not answer."""
        command = [sys.executable, "-P", "-m", "training.launch.ray.memory_kills"]
        try:
            output = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=RAY_SECONDS, check=True).stdout
            kills: dict[str, int | None] = json.loads(output.splitlines()[-1])
        except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
            print(f"whether Ray's workers had enough memory is not known: {error!r}", file=sys.stderr)
            return {}
        return kills

    def head(self) -> RayHead | None:
        """Return the pod of Ray's head with the CPU time of its container; None if that time is not counted."""
        both = container_cpu_since(self._cpu)
        return RayHead(pod=platform.node(), container_cpu=both) if both else None


class RayJob(Pod):
    """A job of a Ray cluster that exists. The job holds the CPUs of a node, and all its ranks are on that node."""

    memory_key = ""

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self.image = OfRayCluster(self.image or {})

    def command(self, resolved: ResolvedScript, storage: Path, arm: str) -> ArmCommand:
        """Return the command of an arm, whose ranks meet at a port that is free on this node."""
        of_job, plan = replace(resolved, python=sys.executable), str(storage.parent / plain.PLAN)
        with held_ports(1) as (port,):
            return of_job.arms({"storage": str(storage)}, port, plan=plan)[arm]

    def variables(self, invocation: Invocation) -> dict[str, str]:
        """Return the variables that the node gives its jobs, and one that marks the process as a job of Ray."""
        return {**super().variables(invocation), RAY_JOB: "1"}

    def unobserved(
        self, command: ArmCommand, needed: Mapping[str, str], own_ray_folder: Path, storage: str = ""
    ) -> dict[str, str]:
        """Return the variables that the node gives its jobs, without those by which a script would join the cluster."""
        of_pod = super().unobserved(command, needed, own_ray_folder, storage)
        own = {**needed, **command.variables, **own_ray(own_ray_folder)}
        return {name: value for name, value in of_pod.items() if not name.startswith(RAYS_OWN) or name in own}

    def reasons(self) -> dict[str, str]:
        """Return as a reason that nothing binds the job's processes to CPUs."""
        return dict.fromkeys(("workers.affinity", "workers.cpus"), UNHELD)


class DriverJob(RayJob):
    """The driver of the arm `ray`, as a job of a Ray cluster that exists; Ray places the driver's workers."""

    def variables(self, invocation: Invocation) -> dict[str, str]:
        """Return the variables of the node and of the driver, whose workers read secret ones from a file, because Ray
        logs and shows variables."""
        of_job = {RAY_JOB: "1", **({SECRET_FILE: os.environ[SECRET_FILE]} if self.secret else {})}
        return {**_of_pod(), **_of_driver(invocation, self.secret, of_job)}


def here(request: Request) -> Machine:
    """Return an object for the kind of place in which this process runs."""
    if entry.POD not in os.environ:
        return Machine()
    if RAY_JOB in os.environ:
        return DriverJob(request) if request.address else RayJob(request)
    if request.address:
        return HeadPod(request)
    cluster = rendezvous.from_environment()
    return RankPod(request, cluster) if cluster else Pod(request)


def _of_pod() -> dict[str, str]:
    left_out = {name for name in os.environ if environment.OWN.fullmatch(name) and name != NODE} | {"PYTHONPATH"}
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return {**kept, "PYTHONUNBUFFERED": "1"}


def _observed(invocation: Invocation) -> dict[str, str]:
    """Return the variables that have each process observed; PYTHONPATH keeps the folders that the image names."""
    return {**invocation.observer, "PYTHONPATH": os.pathsep.join((invocation.observer["PYTHONPATH"], *image_path()))}


def _of_driver(invocation: Invocation, secret: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a job's driver has in addition to those of its node, `more` included. The driver's
    workers get the same variables, except the secret ones."""
    store = {STORE: f"ray-worth-it/{uuid.uuid4().hex}"}
    of_arm = {**invocation.command.variables, **_observed(invocation), **store, **more}
    # The folder of the job Ray adds itself, and first; the script may lie in a folder of that
    path = os.pathsep.join(
        (invocation.observer["PYTHONPATH"], str(commands.folder(invocation.resolved.script)), *image_path())
    )
    public = {name: value for name, value in invocation.needed.items() if name not in secret}
    config = _with_variables(os.environ.get(JOB_CONFIG, "{}"), {**public, **of_arm, "PYTHONPATH": path})
    return {**invocation.needed, **of_arm, JOB_CONFIG: config, OVERRIDE: "1"}


def _with_variables(job_config: str, more: Mapping[str, str]) -> str:
    """Return the JSON of a Ray job's configuration with more variables for the job's workers."""
    config = json.loads(job_config)
    runtime = config.setdefault("runtime_env", {})
    runtime["env_vars"] = {**runtime.get("env_vars", {}), **more}
    return json.dumps(config)


def _resolved(address: str) -> str:
    """Return `host:port` with the host's IP address; the names of all ranks resolve once the first rank begins."""
    host, _, port = address.rpartition(":")
    return f"{socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0]}:{port}"
