"""The checks of population based training in a search: what hands a checkpoint over, and where."""

from collections.abc import Iterator

from infra.settings.key import LOCAL
from infra.settings.problem import Problem, set_line
from infra.settings.script import ScriptDraft
from training.workloads.search.recipe import CHECKPOINT, SearchRecipe

PLACEHOLDER = f"{{{CHECKPOINT}}}"
TAKES_CHECKPOINT = f"--checkpoint {PLACEHOLDER}"


def checkpoint_is_handed_over(draft: ScriptDraft) -> Iterator[Problem]:
    """Check that the script gets a folder to go on from where its trials go on from one, and only there."""
    recipe, arguments = _recipe(draft), draft.recipe.script_arguments
    if recipe.is_population and PLACEHOLDER not in arguments:
        taking = f"{arguments} {TAKES_CHECKPOINT}".strip()
        yield Problem(
            f"{draft.shown('scriptArguments')} with {draft.shown('searchScheduler')}",
            f"arguments with {PLACEHOLDER}: a folder from which the script goes on, if it is not empty, and which it "
            "leaves",
            (set_line("scriptArguments", taking), set_line("searchScheduler", "asha")),
            why="else a trial that goes on from a better one would start from the beginning",
        )  # fmt: skip
    if not recipe.is_population and PLACEHOLDER in arguments:
        own = arguments.replace(PLACEHOLDER, "{storage}")
        yield Problem(
            f"{draft.shown('scriptArguments')} with {draft.shown('searchScheduler')}",
            f"{PLACEHOLDER} with searchScheduler pbt only",
            (set_line("searchScheduler", "pbt"), set_line("scriptArguments", own)),
            why="no trial goes on from another's checkpoint, so nothing replaces it",
        )  # fmt: skip


def population_can_be_trained(draft: ScriptDraft) -> Iterator[Problem]:
    """Refuse what population based training can't be combined with."""
    recipe = _recipe(draft)
    if not recipe.is_population:
        return
    if draft.target not in LOCAL:
        yield Problem(
            f"{draft.shown('searchScheduler')} with {draft.shown('target')}",
            f"target {' or '.join(LOCAL)} with searchScheduler pbt",
            (set_line("target", LOCAL[0]),),
            why="a trial goes on from a folder that another has left, and pods have none in common",
        )  # fmt: skip
    if recipe.search_algorithm != "random":
        yield Problem(
            f"{draft.shown('searchAlgorithm')} with {draft.shown('searchScheduler')}",
            "searchAlgorithm random with searchScheduler pbt",
            (set_line("searchAlgorithm", "random"),),
            why="Ray takes no algorithm beside population based training, which chooses the values itself",
        )  # fmt: skip
    if recipe.trial_workers > 1:
        yield Problem(
            f"{draft.shown('trialWorkers')} with {draft.shown('searchScheduler')}",
            "trialWorkers 1 with searchScheduler pbt",
            (set_line("trialWorkers", 1),),
            why="the folder of a checkpoint is that of one process",
        )  # fmt: skip


def _recipe(draft: ScriptDraft) -> SearchRecipe:
    assert isinstance(draft.recipe, SearchRecipe)  # noqa: S101 (the workload's own)
    return draft.recipe
