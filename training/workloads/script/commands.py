"""The command of each arm of a script, or why it has none. Pure: it starts nothing, and knows of no place."""

import json
import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from training.contract.provenance import PROJECT
from training.contract.result import PROOF
from training.workloads.script import plain, ray_start
from training.workloads.script.recognise import WORDS, Script

RANKS = PROJECT / "training" / "workloads" / "script" / "ranks"
ARMS = ("baseline", "wide", "native", "ray")
WITH_DATA = "raydata"
"""The arm beside these of a script that has arguments by which it reads through Ray Data."""
RAY_START = "raystart"
"""The arm beside these of a script that nothing distributes: Ray's start, with workers that do nothing."""
ALONE = ("baseline", "wide")
BY_RAY = ("ray", WITH_DATA, RAY_START)
OF_RAY_DATA = ("ray-torch", "ray-tensorflow")
"""Kinds that can read their batches through Ray Data while they train."""
BY_TORCHRUN = ("ray-torch", "torchrun")
"""Kinds whose ranks find each other by torchrun's variables without Ray."""
BOOSTERS = ("ray-xgboost", "ray-lightgbm")
ONE_GPU = "one process uses one GPU, so it would leave those of the other workers idle"
WITHOUT_GPU = {"CUDA_VISIBLE_DEVICES": "-1"}
IN_ORDER = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
RAYS_CPUS = "RAY_OVERRIDE_RESOURCES"
"""Environment variable by which a Ray that is started has so many CPUs, whatever the machine has."""
MASTER = ("--master-addr", "127.0.0.1", "--master-port")
LEGACY_KERAS = {"TF_USE_LEGACY_KERAS": "1"}
VARIABLES_OF: dict[str, dict[str, str]] = {
    # Ray sets it in the workers of its TensorflowTrainer: the other arms import the same Keras
    "ray-tensorflow": LEGACY_KERAS,
    # The order of a set of texts, as of a vocabulary, is one in all arms, on all ranks and in the proof
    "plain": {"PYTHONHASHSEED": "0"},
}


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The sizes and the place of an arm."""

    workers: int
    worker_cpus: float = 1
    input_cpus: int = 0
    """CPUs of each worker beside these, for what reads its data: Ray is told then how many it has in all."""
    master_port: int = 29500
    """Port at which torchrun's ranks meet: torchrun's default, which is free in a network of a run's own."""
    in_pods: bool = False
    """True if each rank of `native` is started in a pod of its own, which gets the addresses of the others."""
    gpus: int = 0
    """GPUs of each process."""
    devices: tuple[str, ...] = ()
    """The GPUs of this machine by their UUIDs, if it is not in pods: an arm sees the first ones."""
    plan: str = ""
    """Path of the plan by which ranks of a plain script split their batches; "" where nothing splits them."""

    def threads(self, arm: str) -> int:
        """Compute threads of a process of an arm: its CPUs, rounded up."""
        return max(1, math.ceil(round(self.worker_cpus * (self.workers if arm == "wide" else 1), 3)))

    def cpus(self, arm: str) -> int:
        """Return CPUs that an arm is bound to as a whole."""
        ranks, shares = (1 if arm in ALONE else self.workers), (1 if arm == "baseline" else self.workers)
        return ranks * self.threads(arm) + shares * self.input_cpus


@dataclass(frozen=True, kw_only=True)
class WithRay:
    """The Python of arms with Ray, where it is not the script's own; or why there is none."""

    python: str = ""
    lacking: str = ""


IN_ITS_ENVIRONMENT = WithRay()
"""Ray is where the script's other packages are."""


@dataclass(frozen=True, kw_only=True)
class ArmCommand:
    """One arm: how it is started, or why it is absent."""

    arm: str
    command: tuple[str, ...] = ()
    cpus: int = 0
    """CPUs that the arm is bound to as a whole; each rank has its threads by the variables."""
    ranks: int = 1
    """Processes that train."""
    variables: Mapping[str, str] = field(default_factory=dict)
    absent: str = ""

    def within(self, environment: Mapping[str, str]) -> "ArmCommand":
        """Return it with more variables."""
        return replace(self, variables={**self.variables, **environment})

    def __str__(self) -> str:
        """Return the command line as a user would type it."""
        return " ".join(
            [*(f"{key}={shlex.quote(value)}" for key, value in self.variables.items()), shlex.join(self.command)]
        )


def commands(
    script: Script,
    python: str,
    sizes: Sizes,
    values: Mapping[str, str],
    with_ray: WithRay = IN_ITS_ENVIRONMENT,
) -> list[ArmCommand]:
    """Return the commands of all ARMS in this order, and of WITH_DATA and RAY_START for a script that can have them;
    `values` replace placeholders other than {workers}."""
    more = {WITH_DATA: script.data_arguments, RAY_START: not_distributed(script)}
    arms = (*ARMS, *(arm for arm, wanted in more.items() if wanted))
    reasons = {arm: _absent(arm, script, sizes, with_ray.lacking) for arm in arms}
    pythons = dict.fromkeys(BY_RAY, with_ray.python or python)
    with_ray_data = replace(script, arguments=script.data_arguments)
    return [
        ArmCommand(arm=arm, absent=reason)
        if reason
        else _present(arm, with_ray_data if arm == WITH_DATA else script, pythons.get(arm, python), sizes, values)
        for arm, reason in reasons.items()
    ]


def variables_of(script: Script) -> dict[str, str]:
    """Return the environment variables of every arm, and of the proof, that a script needs whatever runs it."""
    # Ray's driver and controller, which are no workers, import tf.keras for TensorflowTrainer: Keras 3 may be absent
    is_legacy = script.kind == "plain" and script.uses("tf_keras")
    return {**VARIABLES_OF.get(script.kind, {}), **(LEGACY_KERAS if is_legacy else {})}


def _present(arm: str, script: Script, python: str, sizes: Sizes, values: Mapping[str, str]) -> ArmCommand:
    alone = arm in ALONE
    threads = sizes.threads(arm)
    command = [str(script.path), *own_arguments(arm, script, sizes, values)]
    if arm == RAY_START:
        command = [str(RANKS / "ray_alone.py"), *ray_start.arguments(script, sizes.workers, threads)]
    return ArmCommand(
        arm=arm,
        command=(python, *_launcher(arm, script, sizes), *command),
        cpus=sizes.cpus(arm),
        ranks=1 if alone else sizes.workers,
        variables=threading(threads) | seeing(arm, sizes) | variables_of(script) | _rays_cpus(arm, sizes),
    )


def _rays_cpus(arm: str, sizes: Sizes) -> dict[str, str]:
    """Return the variable by which Ray has the arm's CPUs, no more: Ray Data starts a task for each that is free."""
    return {RAYS_CPUS: json.dumps({"CPU": sizes.cpus(arm)})} if sizes.input_cpus and arm in BY_RAY else {}


def _absent(arm: str, script: Script, sizes: Sizes, lacking: str) -> str:
    if sizes.workers == 1 and (arm == "wide" or (arm == "ray" and script.kind == "other")):
        return "with one worker it is the baseline"
    if arm == "wide":
        return ONE_GPU if sizes.gpus else ""
    if arm in plain.OF_RANKS and (reason := _not_split(script, sizes)):
        return reason
    if arm == "native":
        return _no_native(script, sizes)
    if arm == WITH_DATA and script.kind not in OF_RAY_DATA:
        return f"{WORDS[script.kind]} does not read its batches through Ray Data while it trains"
    return _no_ray(script, lacking) if arm in BY_RAY else ""


def not_distributed(script: Script) -> str:
    """Return why nothing in a script distributes it; "" if something does."""
    if script.kind != "plain":
        return ""
    return "nothing in it is distributed, as far as its imports tell (--kind torchrun or tf-config says otherwise)"


def _not_split(script: Script, sizes: Sizes) -> str:
    """Return why no ranks of a plain script can be measured; "" if they can, by what is around them."""
    reason = not_distributed(script)
    if not reason or plain.mechanism(script) is None:
        return reason
    when = "; as ranks, unchanged, it is measured by two or more workers without GPUs"
    return "" if sizes.plan else reason + when


def proof(script: Script, python: str, sizes: Sizes, values: Mapping[str, str], file: Path) -> ArmCommand:
    """Return the command that proves, into a file, what ranks of a plain script do that `plain.mechanism` splits."""
    limit = str(plain.seconds(sizes.workers, sizes.in_pods))
    of_proof = ["--framework", plain.framework(script), "--workers", str(sizes.workers)]
    of_proof += ["--seconds", limit, "--write", str(file)]
    own = own_arguments(PROOF, script, sizes, values)
    return ArmCommand(
        arm=PROOF,
        command=(python, str(plain.mechanism(script)), "prove", *of_proof, "--", str(script.path), *own),
        cpus=sizes.cpus("native"),
        variables=threading(1) | seeing(PROOF, sizes) | variables_of(script),
    )


def _no_ray(script: Script, lacking: str) -> str:
    if script.kind == "other" and not script.needs_ray:
        return (
            "it imports no Ray, and takes its ranks neither from torchrun nor from TF_CONFIG (--kind … says otherwise, "
            "and --kind plain measures it in one process)"
        )
    if script.kind == "spawn":
        return "the script starts its ranks itself, so Ray can't; one for torchrun can be measured with Ray"
    return lacking


def _no_native(script: Script, sizes: Sizes) -> str:
    if script.kind == "spawn" and sizes.in_pods:
        return "the script starts its ranks itself, on one machine"
    if script.kind == "other":
        return "its kind is unknown, and so is how its ranks find each other without Ray"
    if script.kind == "ray-rllib":
        return "RLlib has no runners beside those that Ray starts"
    if script.uses_ray_data and not script.data_arguments:
        return "the script reads its data with Ray Data, which in Ray's local mode serves one process alone"
    return ""


def _workers(arm: str, script: Script, sizes: Sizes) -> int:
    """Return the value of {workers}. 0 is local mode in Ray Train, which is one rank of several if variables say so,
    and no remote runner in RLlib."""
    if arm in BY_RAY:
        return sizes.workers
    if script.kind.startswith("ray-"):
        return 0
    return sizes.workers if arm == "native" else 1


def _launcher(arm: str, script: Script, sizes: Sizes) -> list[str]:
    """Return the arguments between Python and the script."""
    if arm in plain.OF_RANKS and sizes.plan and (program := plain.mechanism(script)):
        if arm == "native":
            started = ["member"] if sizes.in_pods else ["ranks", str(sizes.workers)]
        else:
            started = ["ray", str(sizes.workers), str(sizes.threads(arm))]
        return [str(program), *started, sizes.plan]
    if arm == "native" and sizes.in_pods:
        return [str(RANKS / "with_tracker.py")] if script.kind == "ray-xgboost" else []
    if script.kind in BY_TORCHRUN and (arm == "native" or (arm in ALONE and not script.trains_alone)):
        count = ("--nproc-per-node", str(sizes.workers if arm == "native" else 1))
        return ["-m", "torch.distributed.run", *count, *MASTER, str(sizes.master_port)]
    if arm == "native" and script.kind != "spawn":
        return [str(RANKS / "processes.py"), str(sizes.workers), script.kind]
    if arm == "ray" and script.kind in ("torchrun", "tf-config"):
        use_gpu = ["--use-gpu"] if sizes.gpus else []
        return [str(RANKS / "under_ray.py"), str(sizes.workers), str(sizes.threads(arm)), script.kind, *use_gpu]
    return []


def own_arguments(arm: str, script: Script, sizes: Sizes, values: Mapping[str, str]) -> list[str]:
    """Return the script's arguments in an arm: ranks of a plain one have those of one process."""
    return arguments(script, {**values, "workers": str(1 if script.kind == "plain" else _workers(arm, script, sizes))})


def arguments(script: Script, values: Mapping[str, str]) -> list[str]:
    """Return the script's arguments with their placeholders replaced; nothing else in them is looked at."""
    replaced = []
    for argument in script.arguments:
        for name, value in values.items():
            argument = argument.replace("{" + name + "}", value)  # noqa: PLW2901 (one after another)
        replaced.append(argument)
    return replaced


def threading(threads: int) -> dict[str, str]:
    """Return variables by which PyTorch and TensorFlow have so many compute threads."""
    return {"OMP_NUM_THREADS": str(threads), "TF_NUM_INTRAOP_THREADS": str(threads)}


def seeing(arm: str, sizes: Sizes) -> dict[str, str]:
    """Return variables by which an arm sees its GPUs, in the order of their slots, and no other; in a pod there are no
    others.

    NCCL's ranks find each other on loopback, as those of gloo do: a run on this machine has no other network.
    """
    if not sizes.gpus:
        return WITHOUT_GPU
    if sizes.in_pods:
        return IN_ORDER
    number = sizes.gpus * (1 if arm in ALONE else sizes.workers)
    return {**IN_ORDER, "CUDA_VISIBLE_DEVICES": ",".join(sizes.devices[:number]), "NCCL_SOCKET_IFNAME": "lo"}


def folder(script: Script) -> Path:
    """Return the folder in which every arm is started: the script's own."""
    return script.path.resolve().parent
