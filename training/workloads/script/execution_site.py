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
"""Prefix of Ray's variables, by which a script would join the cluster that runs it as a job."""
UNHELD = "Ray counts the CPUs that it reserves, and holds no process to them"
RAY_SECONDS = 180.0
"""Time limit for Ray's answer after a run: each of its nodes starts a worker, on a part of a CPU."""
RENDEZVOUS = {
    "ray-torch": variables.torchrun,
    "torchrun": variables.torchrun,
    "ray-tensorflow": variables.tf_config,
    "tf-config": variables.tf_config,
    "ray-xgboost": variables.xgboost,
    "ray-lightgbm": variables.booster,
    "plain": variables.booster,
}
"""Functions that return the variables of a rank of `native`, by kind of script, from all addresses and its rank."""


@dataclass(frozen=True, kw_only=True)
class Invocation:
    """The inputs of a started arm."""

    resolved: ResolvedScript
    command: ArmCommand
    needed: Mapping[str, str]
    """Variables that the user names, secret ones too."""
    observer: Mapping[str, str]
    own_ray: Path
    """A folder for a Ray that the script starts."""
    storage: str
    """Address of the run's storage, for what outlives it; "" if there is none."""


class Machine:
    """This machine: a run has it, and a network, to itself."""

    image: Installed = None
    """Packages in the image of its pods; None if it runs here."""
    memory_key = ""
    """The setting of its memory limit; "" if there is none."""
    others_share_memory = False
    """Whether more than a run ends where it needs more memory than there is: its pod, or a node of Ray's."""

    def __init__(self) -> None:
        self.secret: dict[str, str] = json.loads(os.environ.pop(SECRET, "{}"))
        """Variables that nobody else may see."""

    proofs: Path | None = plain.KEPT
    """The folder with outcomes of proofs, for later runs; None where another run finds nothing of this one."""
    gives_result = True
    """Whether this process gives the result of its run."""

    def proof(self, resolved: ResolvedScript, storage: Path, file: Path) -> ArmCommand:
        """Return the command of the proof of a plain script."""
        return resolved.proof(storage, file)

    def agreed(self, prove: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        """Return the outcome of a proof, one and the same in all processes of a run."""
        return prove()

    def recipe(self, recipe: ScriptRecipe) -> ScriptRecipe:
        """Return the recipe with the script's path on this machine."""
        return recipe

    def command(self, resolved: ResolvedScript, storage: Path, arm: str) -> ArmCommand:
        """Return the command of an arm. Raises NoGpusError if this machine has too few GPUs for all workers."""
        devices = gpus.first(resolved.recipe.workers * resolved.recipe.worker_gpus)
        with held_ports(1) as (port,):
            return resolved.arms({"storage": str(storage)}, port, devices, str(storage.parent / plain.PLAN))[arm]

    def variables(self, invocation: Invocation) -> dict[str, str]:
        """Return the whole environment of the command."""
        own = self.unobserved(invocation.command, invocation.needed, invocation.own_ray, invocation.storage)
        return {**own, **invocation.observer}

    def unobserved(
        self, command: ArmCommand, needed: Mapping[str, str], own_ray_folder: Path, storage: str = ""
    ) -> dict[str, str]:
        """Return the environment of a command that nothing observes, with a Ray of its own."""
        return variables_of(command, needed, own_ray_folder, storage)

    def cpus(self, command: ArmCommand) -> int:
        """Return the number of CPUs that the command is bound to; 0 for none."""
        return command.cpus

    def ended(self, end: End) -> End:
        """Return the end, with the start from which the run's time counts."""
        return end

    def seen(self, folder: Path) -> Sequence[Observation] | None:
        """Return the observations of all ranks, by rank; None if another process gives the result."""
        return observation_files.read(folder)

    def workers_without_memory(self) -> Mapping[str, int | None]:
        """Return, for a failed run, the other pods in which a process was killed for its memory, and the limit of each
        in bytes, by address; None for one without a limit."""
        return {}

    def head(self) -> RayHead | None:
        """Return the pod of Ray's head, which this is then."""
        return None

    def reasons(self) -> dict[str, str]:
        """Return the reasons why numbers of a run are null here, besides those of its ranks."""
        return {}


class Pod(Machine):
    """A pod with one process that trains. Its CPU limit holds it; its environment is what its specification says."""

    memory_key = "workerMemory"
    others_share_memory = True
    proofs: Path | None = None

    def __init__(self, request: Request) -> None:
        names = [name for name in os.environ.get(SECRET_NAMES, "").split(",") if name]
        self.secret = {name: os.environ[name] for name in names}
        self.image = python_environment.versions(sys.executable)
        self._request = request

    def recipe(self, recipe: ScriptRecipe) -> ScriptRecipe:
        """Return the recipe with a script in a copy of the package, for this pod alone: a script may write beside
        itself.

        Ray has unpacked it for the driver of a job, into the current directory.
        """
        if FILES not in os.environ:
            return replace(recipe, script=str(Path.cwd() / recipe.script))
        folder = self._request.result.parent / "script"
        shutil.rmtree(folder, ignore_errors=True)
        source.unpack(Path(os.environ[FILES]).read_bytes(), folder)
        return replace(recipe, script=str(folder / recipe.script))

    def command(self, resolved: ResolvedScript, storage: Path, arm: str) -> ArmCommand:
        """Return the command of an arm."""
        of_pod = replace(resolved, python=sys.executable)
        return of_pod.arms({"storage": str(storage)}, plan=str(storage.parent / plain.PLAN))[arm]

    def proof(self, resolved: ResolvedScript, storage: Path, file: Path) -> ArmCommand:
        """Return the command with this pod's Python."""
        return replace(resolved, python=sys.executable).proof(storage, file)

    def variables(self, invocation: Invocation) -> dict[str, str]:
        """Return the pod's variables without those that this project's processes exchange."""
        own = self.unobserved(invocation.command, invocation.needed, invocation.own_ray)
        return {**own, **_observed(invocation)}

    def unobserved(
        self,
        command: ArmCommand,
        needed: Mapping[str, str],
        own_ray_folder: Path,
        storage: str = "",  # noqa: ARG002 (the pod has what its storage needs)
    ) -> dict[str, str]:
        """Return these without what observes, with the folders that the image names in PYTHONPATH."""
        path = {"PYTHONPATH": os.pathsep.join(image_path())}
        return {**_of_pod(), **needed, **command.variables, **own_ray(own_ray_folder), **path}

    def cpus(self, command: ArmCommand) -> int:  # noqa: ARG002 (as above)
        """Return 0: the pod's limit holds the command."""
        return 0


class RankPod(Pod):
    """One rank of `native`: rank 0 gives the result, and the others bring it what they did."""

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
        """Return what rank 0 has proved: outcomes of several proofs may differ, as one was not in time."""
        if self._listener is None:
            return rank_exchange.ask(self._meeting, self._cluster.rank)
        outcome = prove()
        rank_exchange.give(self._listener, set(range(1, len(self._cluster.addresses))), outcome)
        return outcome

    def variables(self, invocation: Invocation) -> dict[str, str]:
        """Add the variables by which ranks of its kind find each other."""
        kind, addresses = invocation.resolved.script.kind, list(self._cluster.addresses)
        if kind in (*commands.BOOSTERS, "plain"):  # LightGBM looks for its own address there, XGBoost listens at it
            addresses = [_resolved(address) for address in addresses]
        meeting = RENDEZVOUS[kind](addresses, self._cluster.rank)
        return {**super().variables(invocation), **meeting}

    def seen(self, folder: Path) -> Sequence[Observation] | None:
        """Return the observations of all ranks in rank 0; None in the others, which send theirs to it."""
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
    """In the pod of Ray's head, which outlives a run."""

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self._cpu = entry.container_cpu_at_start(request)

    def variables(self, invocation: Invocation) -> dict[str, str]:
        """Add the variables of Ray's workers, without the secret ones, which their pods have."""
        # A new folder: Ray's pods outlive the run, and the next one would find what this one downloads
        home = {"HOME": f"/tmp/home-{uuid.uuid4().hex}"}  # noqa: S108 (of the pod)
        return {**_of_pod(), **_of_driver(invocation, self.secret, home)}

    def ended(self, end: End) -> End:
        """Return the end with the start at the job's submission, without the time of this process before the script."""
        waited = max(0.0, self._request.started.seconds_until(process_start()))
        return replace(end, began=end.began - waited)

    def workers_without_memory(self) -> Mapping[str, int | None]:
        """Ask Ray for these pods; return nothing if it does not answer, which is another failure."""
        command = [sys.executable, "-P", "-m", "training.launch.ray.memory_kills"]
        try:
            output = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=RAY_SECONDS, check=True).stdout
            kills: dict[str, int | None] = json.loads(output.splitlines()[-1])
        except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
            print(f"whether Ray's workers had enough memory is not known: {error!r}", file=sys.stderr)
            return {}
        return kills

    def head(self) -> RayHead | None:
        """Return the CPU time of the head's container; None if it is not counted."""
        both = container_cpu_since(self._cpu)
        return RayHead(pod=platform.node(), container_cpu=both) if both else None


class RayJob(Pod):
    """A job of a Ray cluster that exists, which holds a node's CPUs; all ranks are on that node."""

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
        """Return the variables that the node gives its jobs, and that this is one."""
        return {**super().variables(invocation), RAY_JOB: "1"}

    def unobserved(
        self, command: ArmCommand, needed: Mapping[str, str], own_ray_folder: Path, storage: str = ""
    ) -> dict[str, str]:
        """Return the variables that the node gives its jobs, without those that lead to the cluster."""
        of_pod = super().unobserved(command, needed, own_ray_folder, storage)
        own = {**needed, **command.variables, **own_ray(own_ray_folder)}
        return {name: value for name, value in of_pod.items() if not name.startswith(RAYS_OWN) or name in own}

    def reasons(self) -> dict[str, str]:
        """Add that nothing binds its processes to CPUs."""
        return dict.fromkeys(("workers.affinity", "workers.cpus"), UNHELD)


class DriverJob(RayJob):
    """The same for the arm `ray`: the driver, whose workers Ray places."""

    def variables(self, invocation: Invocation) -> dict[str, str]:
        """Add the variables of Ray's workers; the secret ones are read from a file, since Ray logs and shows
        variables."""
        of_job = {RAY_JOB: "1", **({SECRET_FILE: os.environ[SECRET_FILE]} if self.secret else {})}
        return {**_of_pod(), **_of_driver(invocation, self.secret, of_job)}


def here(request: Request) -> Machine:
    """Return the kind of site on which this process runs."""
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
    """Return the variables that have each process observed; the folders that its image names in PYTHONPATH stay
    there."""
    return {**invocation.observer, "PYTHONPATH": os.pathsep.join((invocation.observer["PYTHONPATH"], *image_path()))}


def _of_driver(invocation: Invocation, secret: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a job's driver besides its node's, with `more`; its workers have all but the secret
    ones."""
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
    """Return the configuration of a Ray job, whose workers get more variables."""
    config = json.loads(job_config)
    runtime = config.setdefault("runtime_env", {})
    runtime["env_vars"] = {**runtime.get("env_vars", {}), **more}
    return json.dumps(config)


def _resolved(address: str) -> str:
    """Return `host:port` with the host's own address; every rank's name resolves when the first begins."""
    host, _, port = address.rpartition(":")
    return f"{socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0]}:{port}"
