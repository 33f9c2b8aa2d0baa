"""Says what was measured as the distribution of a script that trains in one process, and the smallest port to have it.
Pure: a try, a result and a report have these words."""

from training.contract.arms import counted
from training.contract.result import MadeRanks
from training.machine.command_line import rwi
from training.workloads.script import plain, ray_start
from training.workloads.script.plain import Proof
from training.workloads.script.recognise import Script

_ROWS = "each trains its rows of every batch that the script draws, and"
_PART = "each has its rows of the script's data, and"
SHARES = {
    "torch": f"{_ROWS} PyTorch's DDP reducer averages the gradients by rows",
    "tensorflow": f"{_ROWS} TensorFlow's MultiWorkerMirroredStrategy averages the gradients by rows",
    "xgboost": f"{_PART} XGBoost's own collective grows the same trees in all",
    "lightgbm": f"{_PART} LightGBM's own collective (tree_learner=data) grows the same trees in all",
}
"""What a rank does, by the framework that distributes it."""
TRAINERS = {
    "torch": "TorchTrainer",
    "tensorflow": "TensorflowTrainer",
    "xgboost": "XGBoostTrainer",
    "lightgbm": "LightGBMTrainer",
}


def ranks(arm: str, proof: Proof, workers: int, *, in_pods: bool = False) -> str:
    """Return what was measured of ranks in an arm."""
    framework = proof.plan.get("framework", "torch")
    each = f"a worker of Ray's {TRAINERS[framework]}" if arm == "ray" else "a pod" if in_pods else "a process"
    return f"{counted(workers, 'rank')}, each in {each}: {SHARES[framework]}"


def made_ranks(
    proof: Proof | None, arm: str, script: Script, workers: int, *, in_pods: bool = False
) -> MadeRanks | None:
    """Return what a result says of ranks that this project made; None where it made none."""
    if proof is None or not proof.works:
        return None
    write, diff = to_write(proof, script, workers)
    words = ranks(arm, proof, workers, in_pods=in_pods)
    return MadeRanks(words=words, proof=proof.words, write=write, port=diff)


def to_write(proof: Proof, script: Script, workers: int) -> tuple[str, str]:
    """Return what one writes to have such ranks without this project, and the smallest port as a diff; "" where there
    is none."""
    framework, port = proof.plan.get("framework", plain.framework(script)), proof.port
    general = ray_start.PORTS[framework]
    if framework != "torch":
        return general, ""
    if port is None:
        look = f"`{rwi('try')}` with the same script looks for the smallest port of it, and gives it as a diff"
        return f"{general}. {look}", ""
    if port["outcome"] != "port":
        return f"{general}. No port of the script is given here: {port['reason']}", ""
    count = sum(line.startswith("+") for line in port["diff"].splitlines()) - 1
    was_run = (
        f"{counted(count, 'line')} for torchrun, whose ranks Ray's TorchTrainer runs, too. Proved: run as "
        f"{counted(workers, 'rank')}, this port has the weights of one process in 64 bits; rows of a last batch that "
        "ranks can't share evenly are left out"
    )
    return was_run, port["diff"]
