"""Checks between `workerGpus` and other settings of a script: the script itself, its packages, the arms."""

from collections.abc import Iterator, Mapping
from contextlib import suppress

from infra.settings.draft import Draft
from infra.settings.problem import Problem, set_line
from infra.settings.sections import ON
from training.workloads.script import commands, python_environment, resolve
from training.workloads.script.recipe import ScriptRecipe
from training.workloads.script.recognise import WORDS, Script, ScriptError

REMOVE = "pulumi config rm workerGpus"
_BY_TORCH = "a script with PyTorch, for torchrun or with Ray Train's TorchTrainer"


def script_uses_them(draft: Draft) -> Iterator[Problem]:
    """Yield a problem if workers have GPUs, but the script does not use PyTorch, or does not ask Ray for GPUs."""
    script, what = _script(draft), f"{draft.shown('workerGpus')} with {draft.shown('script')}"
    if script is None:
        return
    if script.kind not in commands.BY_TORCHRUN:
        why = (
            f"this is {WORDS[script.kind]}; TensorFlow's wheel here is the CPU's, and only PyTorch's GPU work is timed"
        )
        yield Problem(what, _BY_TORCH, (REMOVE,), why=why)
    elif script.kind == "ray-torch" and script.asks_no_gpu:
        why = "without it Ray hides the GPUs from its workers, and only the other arms would train on them"
        yield Problem(
            what, "a ScalingConfig with use_gpu=torch.cuda.is_available(), or of an argument", (REMOVE,), why=why
        )


def _script(draft: Draft) -> Script | None:
    """Return the script whose workers have GPUs; None without, or if another check reports that it cannot be read."""
    recipe = draft.recipe
    if not recipe.worker_gpus or not isinstance(recipe, ScriptRecipe) or not recipe.script:
        return None
    try:
        return resolve.script_of(recipe)
    except ScriptError:
        return None


def pytorch_is_not_the_cpu_s(installed: Mapping[str, str], draft: Draft) -> Iterator[Problem]:
    """Yield a problem if the installed PyTorch has no CUDA: every arm would train on CPUs, with idle GPUs."""
    version = installed.get("torch", "")
    if draft.recipe.worker_gpus and version.endswith("+cpu"):
        yield Problem(
            f"{draft.shown('workerGpus')} with torch {version}", "a PyTorch with CUDA", (REMOVE,),
            why="this wheel is the CPU's: install or pin torch without +cpu, as PyPI has it for Linux",
        )  # fmt: skip


def python_is_not_the_cpu_s(draft: Draft) -> Iterator[Problem]:
    """Yield a problem if the PyTorch in the script's own Python on this machine has no CUDA."""
    if not draft.recipe.worker_gpus or not isinstance(draft.recipe, ScriptRecipe):
        return
    with suppress(python_environment.PythonError):  # another check reports it
        versions = python_environment.versions(resolve.interpreter(draft.recipe.python))
        yield from pytorch_is_not_the_cpu_s(versions, draft)


def arms_use_them(draft: Draft) -> Iterator[Problem]:
    """Yield a problem, with GPUs, for an arm that leaves some idle, and without `native`, Ray's real alternative."""
    if draft.recipe.worker_gpus and not draft.run.native_arm:
        yield Problem(
            f"{draft.shown('nativeArm')} with {draft.shown('workerGpus')}",
            "nativeArm true",
            (set_line("nativeArm", "true"), REMOVE),
            why="one process uses one GPU, so the alternative to Ray is the framework's own distribution: without it"
            " nothing says what Ray is worth",
        )
    if draft.recipe.worker_gpus and draft.run.wide_arm == ON:
        yield Problem(
            f"{draft.shown('wideArm')} with {draft.shown('workerGpus')}",
            "wideArm auto or false",
            (set_line("wideArm", "auto"), REMOVE),
            why=commands.ONE_GPU,
        )
