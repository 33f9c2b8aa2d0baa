"""Whether this machine has the GPUs that workers need."""

from infra.settings.draft import Draft
from infra.settings.problem import Problem, set_line
from training.contract.arms import counted
from training.machine import gpus

REMOVE = "pulumi config rm workerGpus"


def too_few_here(draft: Draft) -> list[Problem]:
    """Return that this machine has fewer GPUs than the workers need."""
    needed = draft.recipe.workers * draft.recipe.worker_gpus
    here, why = gpus.why_too_few(needed)
    if not why:
        return []
    fewer = [set_line("workers", here)] if here else []
    return [
        Problem(
            f"{counted(draft.recipe.workers, 'worker')} with {draft.shown('workerGpus')} need"
            f" {counted(needed, 'GPU')}, and this machine has {here}: {why}",
            fixes=(*fewer, REMOVE),
        )
    ]
