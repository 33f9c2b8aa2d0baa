"""The checks of `dataArguments` and `dataCpus`: arguments with which a script reads through Ray Data, in an arm of its
own.

Ray Data's tasks need a CPU of Ray that no worker holds. With two workers on two CPUs, a run did not end within 90 s, so
settings that take every CPU are refused here.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from infra.settings.draft import Draft
from infra.settings.key import LOCAL
from infra.settings.problem import Problem, set_line
from training.workloads.script import commands, resolve
from training.workloads.script.recipe import ScriptRecipe
from training.workloads.script.recognise import PLACEHOLDERS, WORDS, Script, ScriptError

REMOVED = "pulumi config rm dataArguments"
ALIKE = ("epochs", "seed")
"""Placeholders that change how often or in which order rows are read."""


@dataclass(frozen=True, kw_only=True)
class DataDraft(Draft):
    """The settings of a stack with the recipe of a script, not checked yet."""

    recipe: ScriptRecipe


def is_used(draft: DataDraft) -> Iterator[Problem]:
    """Yield a problem for `dataCpus` without `dataArguments`: every arm would have CPUs that it does not use."""
    if draft.is_set("dataCpus") and not draft.recipe.data_arguments:
        yield Problem(
            f"{draft.shown('dataCpus')} without dataArguments", "dataCpus with dataArguments",
            (set_line("dataArguments", draft.keys["dataArguments"].example), "pulumi config rm dataCpus"),
            why="without these the CPUs of a worker are workerCpus",
        )  # fmt: skip


def is_on_this_machine(draft: DataDraft) -> Iterator[Problem]:
    """Yield a problem for `dataArguments` on clusters, where no CPU serves both a loader's processes and Ray Data."""
    if draft.recipe.data_arguments and draft.target not in LOCAL:
        yield Problem(
            f"{draft.shown('dataArguments')} with {draft.shown('target')}",
            f"dataArguments with target {LOCAL[0]}",
            (set_line("target", LOCAL[0]), REMOVED),
            why="on a cluster Ray Data would have the CPUs of other pods or nodes than the workers, which a loader's "
            "processes cannot use: the arms would not have the same CPUs",
        )


def is_another_way(draft: DataDraft) -> Iterator[Problem]:
    """Yield a problem if `dataArguments` equal `scriptArguments`, because the two arms would then be the same."""
    recipe = draft.recipe
    if recipe.data_arguments and shlex.split(recipe.data_arguments) == shlex.split(recipe.script_arguments):
        yield Problem(
            f"{draft.shown('dataArguments')} with {draft.shown('scriptArguments')}",
            "other arguments than scriptArguments",
            (REMOVED,),
            why="with the same arguments the arms ray and raydata are one",
        )


def reads_as_often(draft: DataDraft) -> Iterator[Problem]:
    """Yield a problem if only one of `dataArguments` and `scriptArguments` has {epochs}, or only one has {seed},
    because the two arms would then not read the same rows as often and in the same order."""
    recipe = draft.recipe
    for name in ALIKE if recipe.data_arguments else ():
        having = ["{" + name + "}" in text for text in (recipe.script_arguments, recipe.data_arguments)]
        if having[0] != having[1]:
            yield Problem(
                f"{draft.shown('dataArguments')} with {draft.shown('scriptArguments')}",
                f"{{{name}}} in both, or in none",
                (set_line("dataArguments", _with(recipe.data_arguments, name, wanted=having[0])), REMOVED),
                why=f"one arm would have the key {name}, and the other what the script does by itself",
            )


def _with(arguments: str, name: str, *, wanted: bool) -> str:
    return f"{arguments} --{name} {{{name}}}" if wanted else " ".join(arguments.replace(f"{{{name}}}", "1").split())


def can_read_so(draft: DataDraft) -> Iterator[Problem]:
    """Yield a problem unless the script can read through Ray Data while Ray Train trains it, and takes its number of
    workers from `dataArguments`, too."""
    script = _recognised(draft)
    if script is None:
        return
    if script.kind not in commands.OF_RAY_DATA or not script.uses_ray_data:
        lacks = f"it is {WORDS[script.kind]}" if script.uses_ray_data else "nothing in it names ray.data"
        yield Problem(
            f"{draft.shown('dataArguments')} with {draft.shown('script')}",
            "a script of Ray Train for Torch or TensorFlow that can read through ray.data",
            (REMOVED,),
            why=f"{lacks}: so the arm raydata would read as all others do",
        )
        return
    try:
        resolve.with_ray_data(draft.recipe)
    except ScriptError as error:
        yield Problem(
            draft.shown("dataArguments"), draft.keys["dataArguments"].rule.allowed,
            (set_line("dataArguments", _with_workers(draft.recipe.data_arguments)), REMOVED),
            why=str(error),
        )  # fmt: skip


def _with_workers(arguments: str) -> str:
    """Return the arguments with {workers} in an option, and with unknown placeholders turned into plain text."""
    known = re.sub(rf"\{{(?!(?:{'|'.join(PLACEHOLDERS)})\}})(\w*)\}}", r"\1", arguments)
    return known if "{workers}" in known else f"{known} --num-workers {{workers}}"


def leaves_a_cpu(draft: DataDraft) -> Iterator[Problem]:
    """Yield a problem if the script's workers ask for every CPU that Ray has, because none is left for Ray Data."""
    script, recipe = _recognised(draft), draft.recipe
    if script is None or script.most_cpus_asked < recipe.worker_cpus + recipe.input_cpus:
        return
    cpus = script.most_cpus_asked
    yield Problem(
        f"{draft.shown('dataArguments')} with resources_per_worker={{'CPU': {cpus:g}}} in {script.path.name}",
        f"workers that ask for less than workerCpus + dataCpus, which is {recipe.worker_cpus + recipe.input_cpus:g}",
        (set_line("dataCpus", int(cpus - recipe.worker_cpus) + 1), REMOVED),
        why="Ray Data needs a CPU of Ray that no worker holds: where workers had all of them, runs did not end",
    )


def _recognised(draft: DataDraft) -> Script | None:
    """Return what was recognised in a script that has `dataArguments`; None for other scripts, or if it was not
    recognised, which another check reports."""
    if not (draft.recipe.script and draft.recipe.data_arguments):
        return None
    try:
        return resolve.script_of(draft.recipe)
    except ScriptError:
        return None


CHECKS = (is_used, is_on_this_machine, is_another_way, reads_as_often, can_read_so, leaves_a_cpu)
