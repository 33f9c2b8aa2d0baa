"""Whether this machine has the GPUs that workers need."""

import os

from infra.settings.draft import Draft
from infra.settings.problem import Problem, set_line
from training.contract.arms import counted
from training.machine import gpus

REMOVE = "pulumi config rm workerGpus"


VISIBLE = "CUDA_VISIBLE_DEVICES"


def unusable_here(draft: Draft) -> list[Problem]:
    """Return a problem if this machine lacks GPUs that the workers need, or CUDA_VISIBLE_DEVICES hides some of them."""
    needed = draft.recipe.workers * draft.recipe.worker_gpus
    here, why = gpus.why_too_few(needed)
    if not why:
        return _hidden(draft, needed)
    fewer = [set_line("workers", here)] if here else []
    return [
        Problem(
            f"{counted(draft.recipe.workers, 'worker')} with {draft.shown('workerGpus')} need"
            f" {counted(needed, 'GPU')}, and this machine has {here}: {why}",
            fixes=(*fewer, REMOVE),
        )
    ]


def _hidden(draft: Draft, needed: int) -> list[Problem]:
    """Return a problem if CUDA_VISIBLE_DEVICES hides GPUs that a run would take. A run takes the first GPUs of the
    machine; on a shared machine, this variable gives a user some of the GPUs."""
    visible = os.environ.get(VISIBLE)
    if visible is None:
        return []
    named = [each.strip() for each in visible.split(",")]
    hidden = [uuid for number, uuid in enumerate(gpus.first(needed)) if not _names(named, number, uuid)]
    if not hidden:
        return []
    return [
        Problem(
            f"{draft.shown('workerGpus')} takes the first {counted(needed, 'GPU')} of this machine, and {VISIBLE} is"
            f" {visible!r}, so {', '.join(hidden)} may be somebody else's",
            fixes=(f"unset {VISIBLE}", REMOVE),
        )
    ]


def _names(named: list[str], number: int, uuid: str) -> bool:
    """Return whether CUDA_VISIBLE_DEVICES names a GPU, by its number or by its UUID, whose end may be left out."""
    return any(each == str(number) or (each.startswith("GPU-") and uuid.startswith(each)) for each in named)
