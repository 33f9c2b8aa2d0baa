"""The settings of a search over a script's arguments, and their checks: what is searched, by which metric, and what
stops a trial.

A trial is one process, whose environment needs neither Ray nor Optuna. Checks about the workers of a script apply only
if `trialWorkers` is above 1.
"""

import json
import platform
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version

from infra.settings import script
from infra.settings.draft import Check
from infra.settings.key import LOCAL, RAY, TARGETS
from infra.settings.problem import Problem, set_line
from infra.settings.script import ScriptDraft, ScriptSettings
from infra.settings.table import OfWorkload
from training.contract.workload import Installed, OfOtherImage, OfRayCluster
from training.machine.command_line import rwi
from training.workloads.script import plain, python_environment, resolve
from training.workloads.script.commands import Sizes, commands
from training.workloads.script.recognise import PLACEHOLDERS, ScriptError
from training.workloads.search.recipe import CHECKPOINT, LEAST_TRIALS, SearchRecipe
from training.workloads.search.space import EXAMPLE, Space, SpaceError, is_name

INSTALLS_OPTUNA = "uv sync --frozen --inexact --group search"
TAKES_EPOCHS = "--epochs {epochs}"
PLACEHOLDER = f"{{{CHECKPOINT}}}"
TAKES_CHECKPOINT = f"--checkpoint {PLACEHOLDER}"


def checkpoint_is_handed_over(draft: ScriptDraft) -> Iterator[Problem]:
    """Yield a problem unless the script's arguments have the placeholder for a checkpoint's folder exactly if trials
    continue from checkpoints."""
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
    """Yield a problem for each setting that cannot be combined with population based training."""
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


@dataclass(frozen=True, kw_only=True)
class SearchDraft(ScriptDraft):
    """The settings of a stack that searches, not checked yet."""

    recipe: SearchRecipe


def is_not_on_a_ray_cluster_that_exists(draft: SearchDraft) -> Iterator[Problem]:
    """Yield a problem for target ray, whose nodes have neither Optuna nor a way for a search's processes to meet."""
    if draft.target in RAY:
        allowed = [target for target in TARGETS if target not in RAY]
        yield Problem(
            f"{draft.shown('target')} with {draft.shown('workload')}",
            f"target {' or '.join(allowed)} with workload search",
            tuple(set_line("target", target) for target in allowed),
            why="nodes of a Ray cluster that exists have neither Optuna nor a way for its processes to meet",
        )


def is_recognised(draft: SearchDraft) -> Iterator[Problem]:
    """Yield a problem unless the script exists and is Python. `names_match` reports wrong names in its arguments."""
    try:
        resolve.script_of(draft.recipe)
    except ScriptError as error:
        if error.about == "placeholder":
            return
    yield from script.is_recognised(draft)


def is_space(draft: SearchDraft) -> Iterator[Problem]:
    """Yield a problem if the search space cannot be read. Its fix sets the space that was probably meant, or a space
    for the names in the arguments."""
    if not draft.recipe.search_space:
        why, meant = "a search goes over values of the script's arguments", ""
    else:
        try:
            Space.parse(draft.recipe.search_space)
        except SpaceError as error:
            why, meant = str(error), error.instead
        else:
            return
    names = [name for name in _names_in_arguments(draft) if is_name(name)]
    of_arguments = _text_of(dict.fromkeys(names, EXAMPLE)) if names else draft.keys["searchSpace"].example
    yield Problem(
        draft.shown("searchSpace"),
        draft.keys["searchSpace"].rule.allowed,
        (set_line("searchSpace", meant or of_arguments),),
        why=why,
    )


def _space(draft: SearchDraft) -> Mapping[str, object] | None:
    """Return the search space as data, by name; None if it cannot be read, which another check reports."""
    try:
        Space.parse(draft.recipe.search_space)
    except SpaceError:
        return None
    space: dict[str, object] = json.loads(draft.recipe.search_space)
    return space


def _names_in_arguments(draft: SearchDraft) -> list[str]:
    """Return the names of the placeholders in the arguments that only a search has. Each name occurs once."""
    names = re.findall(r"\{(\w*)\}", draft.recipe.script_arguments)
    return [name for name in dict.fromkeys(names) if name not in (*PLACEHOLDERS, CHECKPOINT)]


def _text_of(space: Mapping[str, object]) -> str:
    return json.dumps(space)


def names_match(draft: SearchDraft) -> Iterator[Problem]:
    """Yield a problem unless the search space and the arguments contain the same names."""
    space, in_arguments = _space(draft), _names_in_arguments(draft)
    if space is None:
        return
    both = f"{draft.shown('scriptArguments')} with {draft.shown('searchSpace')}"
    arguments = draft.recipe.script_arguments
    if missing := [name for name in in_arguments if name not in space]:
        wanted = {**space, **dict.fromkeys(filter(is_name, missing), EXAMPLE)}
        literal = re.sub(rf"\{{({'|'.join(missing)})\}}", r"\1", arguments)
        fixes = [set_line("searchSpace", _text_of(wanted))] if all(map(is_name, missing)) else []
        yield Problem(
            both, "the same names in both", (*fixes, set_line("scriptArguments", literal)),
            why=f"searchSpace has no range of that name, so nothing replaces {_listed(missing)}",
        )  # fmt: skip
    if unused := [name for name in space if name not in in_arguments]:
        wanted = {name: range_ for name, range_ in space.items() if name not in unused}
        taken = " ".join([arguments, *(f"--{name} {{{name}}}" for name in unused)]).strip()
        fixes = [set_line("searchSpace", _text_of(wanted))] if wanted else []
        yield Problem(
            both, "the same names in both", (set_line("scriptArguments", taken), *fixes),
            why=f"the script would never get {_listed(unused)}, so all trials would be the same in it",
        )  # fmt: skip


def _listed(names: list[str]) -> str:
    return " and ".join(f"{{{name}}}" for name in names)


def metric_is_named(draft: SearchDraft) -> Iterator[Problem]:
    """Yield a problem if no metric is set."""
    if not draft.recipe.metric:
        yield Problem(
            draft.shown("metric"), "the name of a number that the script reports",
            (set_line("metric", draft.keys["metric"].example),),
            why="a search is for the trial with the best one",
        )  # fmt: skip


def pattern_finds_a_number(draft: SearchDraft) -> Iterator[Problem]:
    """Yield a problem unless the metric's pattern is a regular expression with one group, which matches the number."""
    pattern, key = draft.recipe.metric_pattern, draft.keys["metricPattern"]
    if why := _why_no_pattern(pattern) if pattern else "":
        metric = re.escape(draft.recipe.metric) or "metric"
        fixes = (set_line(key.name, rf"{metric}=(\S+)"), f"pulumi config rm {key.name}")
        yield Problem(draft.shown(key.name), key.rule.allowed, fixes, why=why)


def _why_no_pattern(pattern: str) -> str:
    try:
        groups = re.compile(pattern).groups
    except (re.error, OverflowError, RecursionError) as error:
        return f"it is no regular expression: {error}"
    if groups == 1:
        return ""
    return f"it has {groups} groups, and the number is what the one group matches; (?:…) groups without being one"


def epochs_reach_it(draft: SearchDraft) -> Iterator[Problem]:
    """Yield a problem unless `epochs` reaches the script: otherwise nobody knows whether a trial trained to its end."""
    if "{epochs}" not in draft.recipe.script_arguments:
        arguments = f"{draft.recipe.script_arguments} {TAKES_EPOCHS}".strip()
        yield Problem(
            draft.shown("scriptArguments"), "arguments with {epochs}: passes, rounds, or what else it counts",
            (set_line("scriptArguments", arguments),),
            why="else nobody knows how long a whole trial is: when it ended early, and what stopping would save",
        )  # fmt: skip


def stopping_has_an_effect(draft: SearchDraft) -> Iterator[Problem]:
    """Yield a problem if stopping is on and can stop no trial, and for keys about stopping if it is off."""
    recipe = draft.recipe
    if recipe.search_scheduler == "none":
        for key in ("searchGrace", "searchReduction"):
            if key in draft.values and draft.is_set(key):
                yield Problem(
                    f"{draft.shown(key)} with {draft.shown('searchScheduler')}",
                    "set with searchScheduler asha or pbt only",
                    (f"pulumi config rm {key}", set_line("searchScheduler", "asha")),
                    why="no trial is stopped, so it would have no effect",
                )  # fmt: skip
    elif recipe.search_grace >= recipe.epochs:
        fewer = [set_line("searchGrace", recipe.epochs - 1)] if recipe.epochs > 1 else []
        yield Problem(
            f"{draft.shown('searchGrace')} with {draft.shown('epochs')}", "searchGrace below epochs",
            (*fewer, set_line("epochs", recipe.search_grace + 1)),
            why="a trial would have one segment, so none would go on from another's checkpoint"
            if recipe.is_population
            else "no trial is stopped before searchGrace epochs, so none would be",
        )  # fmt: skip


def trials_are_many_enough(draft: SearchDraft) -> Iterator[Problem]:
    """Yield a problem if there are fewer trials than workers."""
    trials, workers = draft.recipe.search_trials, draft.recipe.workers
    if trials < workers:
        yield Problem(
            f"{draft.shown('searchTrials')} with {draft.shown('workers')}", "searchTrials of at least workers",
            (set_line("searchTrials", workers), set_line("workers", trials)),
            why="as many trials as workers run at a time, so some workers would have none",
        )  # fmt: skip


def configurations_are_many_enough(draft: SearchDraft) -> Iterator[Problem]:
    """Yield a problem if the search space has fewer configurations than there are trials."""
    if _space(draft) is None:
        return
    trials, count = draft.recipe.search_trials, Space.parse(draft.recipe.search_space).count
    if trials <= count:
        return
    fits = count >= max(LEAST_TRIALS, draft.recipe.workers)
    wider = _text_of(dict.fromkeys(Space.parse(draft.recipe.search_space).ranges, EXAMPLE))
    yield Problem(
        f"{draft.shown('searchTrials')} with {draft.shown('searchSpace')}",
        f"searchTrials of at most {count:g}, or a space with more configurations",
        (set_line("searchTrials", int(count)),) if fits else (set_line("searchSpace", wider),),
        why=f"the space has {count:g} of them, so some would be tried again",
    )


def has_no_curve(draft: SearchDraft) -> Iterator[Problem]:
    """Yield a problem for `workersCurve`, whose fit is valid only for workers that exchange gradients."""
    if draft.is_set("workersCurve"):
        yield Problem(
            draft.shown("workersCurve"), "none with workload search", ("pulumi config rm workersCurve",),
            why="the curve is that of one training whose workers wait for each other, and trials don't",
        )  # fmt: skip


def trials_of_several_workers_run_here(draft: SearchDraft) -> Iterator[Problem]:
    """Yield a problem for trials with several workers on targets other than local."""
    if draft.recipe.trial_workers > 1 and draft.target not in LOCAL:
        yield Problem(
            f"{draft.shown('trialWorkers')} with {draft.shown('target')}",
            f"trialWorkers 1, or target {' or '.join(LOCAL)}",
            (set_line("trialWorkers", 1), set_line("target", LOCAL[0])),
            why="a trial of several workers needs a place for its driver besides theirs, and in pods there is none: it "
            "would wait for ever",
        )  # fmt: skip


def script_has_workers(draft: SearchDraft) -> Iterator[Problem]:
    """Yield a problem if trials have several workers, but Ray or the framework cannot distribute the script."""
    try:
        recognised = resolve.script_of(draft.recipe) if draft.recipe.script else None
    except ScriptError:
        return
    if draft.recipe.trial_workers == 1 or recognised is None:
        return
    sizes = Sizes(workers=draft.recipe.trial_workers, plan="{plan}" if plain.mechanism(recognised) else "")
    absent = [each.absent for each in commands(recognised, "python", sizes, {}) if each.arm in ("native", "ray")]
    if why := next(filter(None, absent), ""):
        yield Problem(
            f"{draft.shown('trialWorkers')} with {draft.shown('script')}",
            "trialWorkers 1, or a script that Ray and its framework can distribute",
            (set_line("trialWorkers", 1),), why=why,
        )  # fmt: skip


def ray_is_tune_s(draft: SearchDraft) -> Iterator[Problem]:
    """Yield a problem if trials have several workers, but the script's Python lacks the versions that Tune needs."""
    python = resolve.interpreter(draft.recipe.python)
    if draft.recipe.trial_workers == 1 or any(script.python_has_imports(draft)):
        return
    theirs, ours = python_environment.versions(python), {"ray": version("ray"), "python": platform.python_version()}
    if theirs.get("ray") == ours["ray"] and _minor(theirs["python"]) == _minor(ours["python"]):
        return
    line = python_environment.line_that_installs([f"ray[train]=={ours['ray']}"], python)
    fixes = [line] if _minor(theirs["python"]) == _minor(ours["python"]) else []
    its_ray = f"Ray {theirs['ray']}" if "ray" in theirs else "no Ray"
    yield Problem(
        f"{draft.shown('python')} with {draft.shown('trialWorkers')}",
        f"an environment of Python {_minor(ours['python'])} with Ray {ours['ray']}, or trialWorkers 1",
        (*fixes, set_line("trialWorkers", 1)),
        why=f"Tune's Ray places the workers of each trial, and takes those of its own version alone; the script's "
        f"environment has {its_ray} and Python {theirs['python']}",
    )  # fmt: skip


def _minor(python: str) -> str:
    """Return the minor version of Python, for example `3.11` for `3.11.7`."""
    return ".".join(python.split(".")[:2])


def optuna_is_installed(draft: SearchDraft) -> Iterator[Problem]:
    """Yield a problem if the project's own environment lacks Optuna, because all arms but `ray` search with Optuna."""
    if not draft.facts.optuna_installed:
        yield Problem(
            draft.shown("workload"), "another workload, unless the project's own environment has Optuna",
            (INSTALLS_OPTUNA,),
            why=f"Ray is compared with searches by Optuna; `{rwi('up')}` and `pulumi install` install it, too",
        )  # fmt: skip


def checks_where(installed: Installed) -> tuple[Check, ...]:
    """Return the checks of the environment that searches (this Python, or the pods' image), and of the script's Python,
    which needs its imports, Ray if trials have several workers, and never Optuna."""
    if installed is None:
        return (optuna_is_installed, script.python_has_imports, ray_is_tune_s)
    in_pods = (script.python_is_the_image_s, script.fits_pods)
    if isinstance(installed, (OfRayCluster, OfOtherImage)):
        return in_pods
    return (*in_pods, partial(script.image_has_it, installed))


OWN = OfWorkload(
    section=ScriptSettings,
    draft=SearchDraft,
    checks=(
        is_not_on_a_ray_cluster_that_exists,
        is_recognised,
        is_space,
        names_match,
        metric_is_named,
        pattern_finds_a_number,
        epochs_reach_it,
        checkpoint_is_handed_over,
        population_can_be_trained,
        stopping_has_an_effect,
        trials_are_many_enough,
        configurations_are_many_enough,
        has_no_curve,
        trials_of_several_workers_run_here,
        script_has_workers,
        script.folder_is_small,
        script.secrets_are_secret,
        script.secrets_can_be_hidden,
        script.each_variable_once,
    ),
    checks_where=checks_where,
    remarks=script.image_may_lack,
    secrets=script.secrets,
)
