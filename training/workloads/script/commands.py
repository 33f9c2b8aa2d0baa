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
"""The additional arm of a script that has arguments by which the script reads its data through Ray Data."""
RAY_START = "raystart"
"""The additional arm of a script that nothing distributes: Ray starts with workers that do nothing."""
ALONE = ("baseline", "wide")
BY_RAY = ("ray", WITH_DATA, RAY_START)
OF_RAY_DATA = ("ray-torch", "ray-tensorflow")
"""Kinds of scripts that can read their batches through Ray Data while they train."""
BY_TORCHRUN = ("ray-torch", "torchrun")
"""Kinds of scripts whose ranks find each other without Ray, by torchrun's variables."""
BOOSTERS = ("ray-xgboost", "ray-lightgbm")
ONE_GPU = "one process uses one GPU, so it would leave those of the other workers idle"
WITHOUT_GPU = {"CUDA_VISIBLE_DEVICES": "-1"}
IN_ORDER = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
RAYS_CPUS = "RAY_OVERRIDE_RESOURCES"
"""Environment variable that tells a Ray that is started how many CPUs it has, whatever the machine has."""
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
    """The number and the size of an arm's workers, and where the arm is started."""

    workers: int
    worker_cpus: float = 1
    input_cpus: int = 0
    """CPUs of each worker in addition to `worker_cpus`, for what reads the worker's data. If there are any, Ray is told
    how many CPUs it has in all."""
    master_port: int = 29500
    """Port at which torchrun's ranks meet: torchrun's default, which is free where a run has a network of its own."""
    in_pods: bool = False
    """True if each rank of `native` is started in a pod of its own, which gets the addresses of the others."""
    gpus: int = 0
    """GPUs of each process."""
    devices: tuple[str, ...] = ()
    """The UUIDs of this machine's GPUs, of which an arm sees the first ones; empty in pods."""
    plan: str = ""
    """Path of the plan by which ranks of a plain script split their batches; "" where nothing splits them."""

    def threads(self, arm: str) -> int:
        """Return the number of compute threads of a process of an arm: the CPUs of the process, rounded up."""
        return max(1, math.ceil(round(self.worker_cpus * (self.workers if arm == "wide" else 1), 3)))

    def cpus(self, arm: str) -> int:
        """Return the number of CPUs to which an arm as a whole is bound."""
        ranks, shares = (1 if arm in ALONE else self.workers), (1 if arm == "baseline" else self.workers)
        return ranks * self.threads(arm) + shares * self.input_cpus


@dataclass(frozen=True, kw_only=True)
class WithRay:
    """The Python that runs the arms with Ray, if it is not the script's own, or why there is none (`lacking`)."""

    python: str = ""
    lacking: str = ""


IN_ITS_ENVIRONMENT = WithRay()
"""Stands for a script whose own environment has Ray."""


@dataclass(frozen=True, kw_only=True)
class ArmCommand:
    """One arm: how it is started, or why it is absent."""

    arm: str
    command: tuple[str, ...] = ()
    cpus: int = 0
    """CPUs to which the arm as a whole is bound; `variables` say how many threads each rank has."""
    ranks: int = 1
    """Number of processes that train."""
    variables: Mapping[str, str] = field(default_factory=dict)
    absent: str = ""

    def within(self, environment: Mapping[str, str]) -> "ArmCommand":
        """Return this command with more environment variables."""
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
    """Return the environment variables that a script needs in every arm and in the proof, whatever runs the script."""
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
    """Return the variable that gives Ray the arm's CPUs alone, because Ray Data starts a task for each free CPU."""
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
    """Return why the ranks of a plain script cannot be measured; "" if they can, or something distributes it."""
    reason = not_distributed(script)
    if not reason or plain.mechanism(script) is None:
        return reason
    when = "; as ranks, unchanged, it is measured by two or more workers without GPUs"
    return "" if sizes.plan else reason + when


def proof(script: Script, python: str, sizes: Sizes, values: Mapping[str, str], file: Path) -> ArmCommand:
    """Return the command that proves what the ranks of a plain script do if `plain.mechanism` splits the script's
    batches, and writes the outcome into `file`."""
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
    """Return the value of {workers}. 0 means local mode in Ray Train, where the process is one rank of several if its
    environment variables say so, and no remote runner in RLlib."""
    if arm in BY_RAY:
        return sizes.workers
    if script.kind.startswith("ray-"):
        return 0
    return sizes.workers if arm == "native" else 1


def _launcher(arm: str, script: Script, sizes: Sizes) -> list[str]:
    """Return the arguments that stand between Python and the script in the command line."""
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
    """Return the script's arguments in an arm; each rank of a plain script has the arguments of a single process."""
    return arguments(script, {**values, "workers": str(1 if script.kind == "plain" else _workers(arm, script, sizes))})


def arguments(script: Script, values: Mapping[str, str]) -> list[str]:
    """Return the script's arguments with their placeholders replaced, and everything else in them unchanged."""
    replaced = []
    for argument in script.arguments:
        for name, value in values.items():
            argument = argument.replace("{" + name + "}", value)  # noqa: PLW2901 (one after another)
        replaced.append(argument)
    return replaced


def threading(threads: int) -> dict[str, str]:
    """Return the variables that give PyTorch and TensorFlow this number of compute threads."""
    return {"OMP_NUM_THREADS": str(threads), "TF_NUM_INTRAOP_THREADS": str(threads)}


def seeing(arm: str, sizes: Sizes) -> dict[str, str]:
    """Return the variables by which an arm sees its own GPUs alone, in the order of their slots; a pod sees no others
    anyway. The ranks of NCCL find each other on loopback, as those of gloo do, because a run on this machine has no
    other network."""
    if not sizes.gpus:
        return WITHOUT_GPU
    if sizes.in_pods:
        return IN_ORDER
    number = sizes.gpus * (1 if arm in ALONE else sizes.workers)
    return {**IN_ORDER, "CUDA_VISIBLE_DEVICES": ",".join(sizes.devices[:number]), "NCCL_SOCKET_IFNAME": "lo"}


def folder(script: Script) -> Path:
    """Return the folder in which every arm is started: the script's own."""
    return script.path.resolve().parent
