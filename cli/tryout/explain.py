"""Explains in one message why an arm failed: what was seen, and what usually helps. Pure."""

import re
from dataclasses import dataclass

from cli.tryout.request import Request
from cli.tryout.run_arm import Outcome
from training.launch.foreign_command import MOST_PRINTED, MOST_PROCESSES
from training.workloads.script.commands import BY_RAY, ArmCommand
from training.workloads.script.python_environment import PythonError
from training.workloads.script.recognise import Script

LINES = 12
QUOTED = "    | "
"""Stands before each line that a script printed."""


@dataclass(frozen=True)
class Cause:
    """A pattern in a script's output, and what usually helps if it is found."""

    seen: re.Pattern[str]
    helps: str
    in_every_arm: bool = True
    """False if the arm may be the cause: its number of ranks, Ray, or the stand-in for Ray."""


CAUSES = (
    Cause(
        re.compile("ModuleNotFoundError: No module named '?ray"),
        "Ray is missing in the script's environment: pip install 'ray[train]' with that environment's Python",
    ),
    Cause(
        re.compile("ModuleNotFoundError: No module named"),
        "a module is missing in the script's environment: --python … names the interpreter that has it",
    ),
    Cause(
        re.compile(
            "not compiled with CUDA|No CUDA GPUs|NCCL|requires at least one CUDA device|CUDA driver|no NVIDIA driver"
            "|MPS backend|Invalid device"
        ),
        "it asks for a GPU, and no arm has one: take the device from torch.cuda.is_available(), and the backend 'gloo'",
    ),
    Cause(
        re.compile("Failed to find IP address"),
        "XGBoost before 3.0 can't start its tracker in a network of its own, which a run has: a newer one can",
        in_every_arm=False,
    ),
    Cause(
        re.compile(
            "Name or service not known|Temporary failure in name resolution|Network is unreachable|URLError"
            "|ConnectionError|Failed to resolve|getaddrinfo"
        ),
        "it reaches for the network, and a run has none: download first, and name the folder by an argument or --env",
    ),
    Cause(
        re.compile("unrecognized arguments|the following arguments are required|No such option"),
        "it does not know its arguments: see what its own --help says, and change what follows --",
    ),
    Cause(
        re.compile("result.checkpoint|'NoneType' object has no attribute '(to_directory|as_directory|path)'"),
        "it reads result.checkpoint after fit(), and no checkpoint was reported: read it only where there is one",
        in_every_arm=False,
    ),
    Cause(
        re.compile("PerReplica"),
        "Keras 3 fails under MultiWorkerMirroredStrategy: --env TF_USE_LEGACY_KERAS=1, with tf-keras",
        in_every_arm=False,
    ),
    Cause(
        re.compile("KeyError: '?(RANK|WORLD_SIZE|LOCAL_RANK|MASTER_ADDR|TF_CONFIG)"),
        "it can't train without other ranks: read the variable with a default (os.environ.get('WORLD_SIZE', '1'))",
        in_every_arm=False,
    ),
    Cause(
        re.compile("environment variable RANK expected"),
        "it calls init_process_group alone, too: only where WORLD_SIZE > 1",
        in_every_arm=False,
    ),
    Cause(
        # In a line that names no absolute path: of that the folder in which an arm starts is not the cause
        re.compile(r"^(?!.*[\s'\"]/).*(?:FileNotFoundError: |No such file or directory)", re.MULTILINE),
        "a file is missing: arms start in the script's folder, Ray's workers in one of Ray's: give absolute paths",
    ),
    Cause(
        re.compile("MemoryError|OutOfMemory|out of memory"),
        "the machine's memory is full: a smaller batch, or fewer --workers",
        in_every_arm=False,
    ),
    Cause(
        re.compile("PermissionError|Permission denied"), "it writes where it may not: give it a folder with {storage}"
    ),
    Cause(
        re.compile("The current node timed out during startup"),
        "Ray gives its own processes 30 s to start, and they took longer: other programs keep this machine busy",
        in_every_arm=False,
    ),
    Cause(
        re.compile("Connection closed by peer|Connection reset by peer"),
        "a rank ended before the others, which waited for it: all ranks must make equally many steps",
        in_every_arm=False,
    ),
)


_OF_RANKS = re.compile(r"rank|world_?size|num_?(?:workers|processes|replicas)|process_?group|TF_CONFIG", re.IGNORECASE)
_OF_LOCAL_MODE = re.compile(r"-packages/ray/|/workloads/script/")
_SIGNALLED = 128
"""Exit codes above this number mean that a signal ended the process, for example because memory ran out."""


def fails_in_every_arm(outcome: Outcome) -> bool:
    """Return whether the script itself is the cause of its failure, so that it would fail in every arm. The given arm
    has one rank and no Ray.

    The script is the cause if it ended before any step, and its last lines show nothing that the arm may cause: no such
    known cause, nothing about ranks, no error raised in Ray or in the stand-in for Ray.
    """
    has_steps = any(rank.step_ends for rank in outcome.seen)
    if outcome.hung or outcome.flooded or not 0 < outcome.code < _SIGNALLED or has_steps:
        return False
    lines = [line for line in last_lines(outcome.printed).splitlines() if line.strip(" ^~")]
    ending = "\n".join([line for line in lines if not _is_frame(line)][-2:])  # what raised, and its message
    if known := _cause(ending):
        return known.in_every_arm
    if _OF_RANKS.search(ending) or _OF_LOCAL_MODE.search(next(filter(_is_frame, reversed(lines)), "")):
        return False
    earlier = _cause(outcome.printed)
    return earlier is None or earlier.in_every_arm


def _is_frame(line: str) -> bool:
    """Return whether a line names the file of a frame of a traceback."""
    return '  File "' in line


def _cause(printed: str) -> Cause | None:
    return next((cause for cause in CAUSES if cause.seen.search(printed)), None)


def problem(outcome: Outcome, script: Script, limit_seconds: int) -> str:
    """Return why this arm can't be compared, and what helps; "" if it trained and succeeded."""
    lines = last_lines(outcome.printed)
    if outcome.flooded:
        what = (
            f"it printed more than {MOST_PRINTED // 2**20} MiB and was ended: a measurement would time its printing. "
        )
        return what + "Have it print less, once an epoch"
    if outcome.end.get("processes", 0) > MOST_PROCESSES:
        what = f"it started more than {MOST_PROCESSES} processes and was ended: "
        return what + "does it start itself, without `if __name__ == '__main__'`?"
    if outcome.hung:
        return _hung(outcome, script, lines, limit_seconds)
    if outcome.code:
        return _with_lines(f"it ended with exit code {outcome.code}. {helps(outcome.printed)}", lines)
    is_whole = outcome.ray_start or (script.kind == "plain" and not outcome.end.get("left"))
    if not outcome.seen and not is_whole:  # of a plain script without steps the whole run counts
        return _with_lines(_without_step(outcome, script), lines)
    return ""


def _hung(outcome: Outcome, script: Script, lines: str, limit_seconds: int) -> str:
    steps = min((len(rank.step_ends) for rank in outcome.seen), default=0)
    what = f"it did not end within {limit_seconds} s and was ended"
    what += f", after {steps} steps" if steps else ", before a step was seen"
    if "No available node types can fulfill" in outcome.printed or "not enough resources" in outcome.printed.lower():
        what += ": Ray waits for CPUs or GPUs that this machine has not"
    why = "a rank that waits for one that has ended waits forever"
    if script.kind == "plain" and not steps:
        why = "a script whose steps can't be seen runs to its end"
    hint = f". --limit {2 * limit_seconds} gives it longer; {why}"
    return _with_lines(what + hint, outcome.trace or lines)


def _without_step(outcome: Outcome, script: Script) -> str:
    if outcome.end.get("left") and not script.needs_ray:
        number = outcome.end["left"]
        left = f"left {number} process{'es' if number != 1 else ''} in the background, now ended"
        return f"it ended with 0 without a step, and {left}: have it stay in the foreground until it has trained"
    if not script.frameworks:
        return "it ended with 0 and imported no framework that trains: is this the file that trains?"
    return (
        "it ended with 0 without a step that can be seen: steps of PyTorch's optimizers and of Keras' fit are, and "
        "rounds of xgboost.train and lightgbm.train, and RLlib's iterations. A loop of your own with TensorFlow is not"
    )


def helps(printed: str) -> str:
    """Return advice on what usually helps, by the script's output; "" if no known cause is found."""
    cause = _cause(printed)
    return f"What usually helps: {cause.helps}." if cause else ""


def last_lines(printed: str) -> str:
    """Return the last informative lines. The summaries that launchers print after a traceback are left out."""
    lines = [line for line in printed.splitlines() if line.strip()]
    cut = next((number for number, line in enumerate(lines) if "ChildFailedError" in line), None)
    if cut:
        before = [line for line in lines[:cut] if "elastic/multiprocessing" not in line]
        traceback_of_torchrun = [number for number, line in enumerate(before) if line.startswith("Traceback")]
        lines = before[: traceback_of_torchrun[-1]] if any(traceback_of_torchrun) else before
    return "\n".join(line[:200] for line in lines[-LINES:])


def _with_lines(message: str, lines: str) -> str:
    return "\n".join([message.strip(), *(f"{QUOTED}{line}" for line in lines.splitlines())])


def python_problem(error: PythonError, request: Request) -> str:
    """Return why the script's Python cannot be used, and the lines that fix that, for an existing one first."""
    if not error.interpreter or not error.fix:
        return f"{error.why}:\n  {error.fix}" if error.fix else error.why
    make_it = error.fix.replace(" && ", "\n  ")
    folder = error.interpreter.removesuffix("/bin/python")
    return (
        f"{error.why}. Name the environment of your script:\n  {request.line(python='../mine/.venv')}\n"
        f"If there is none yet, this makes one; then the line above with --python {folder}:\n  {make_it}"
    )


_OWN_ROWS = (
    ("ray.train.torch", "ray.train.torch.prepare_data_loader(loader) gives each worker rows of its own"),
    ("torch", "sampler=DistributedSampler(dataset) in the DataLoader, and sampler.set_epoch(epoch) before each epoch,"
              " give each rank rows of its own"),
    ("tensorflow", "dataset.shard(workers, rank) gives each worker rows of its own"),
    ("keras", "dataset.shard(workers, rank) gives each worker rows of its own"),
    ("xgboost", "rows[rank::workers] in its DMatrix gives each rank rows of its own"),
    ("lightgbm", "rows[rank::workers] in its Dataset gives each rank rows of its own"),
)  # fmt: skip
"""Advice on how a script divides its rows, by imported module; the first imported module counts."""


def own_rows(script: Script) -> str:
    """Return advice on how ranks get rows of their own, for the script's framework; "" if it is unknown."""
    text = next((text for module, text in _OWN_ROWS if script.uses(module)), "")
    return f"What usually helps: {text}." if text else ""


def lacks_ray(script: Script, arms: list[ArmCommand]) -> bool:
    """Return whether only Ray is missing for the arms with Ray."""
    absent = next((arm.absent for arm in reversed(arms) if arm.arm in BY_RAY), "")
    return "has no Ray" in absent and not script.needs_ray
