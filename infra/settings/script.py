"""The settings of a user's script in addition to its recipe, and their checks: the file, its arguments, its folder.

A preview checks all of it, from texts and from the packages that the script's Python lists; nothing of the script is
run.
"""

import math
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from infra.settings import gpus, script_data
from infra.settings.draft import Check, is_readable_folder
from infra.settings.key import CLUSTER, setting
from infra.settings.problem import Problem, secret_line, set_line
from infra.settings.table import OfWorkload
from training.contract.rules import text
from training.contract.workload import Installed, OfOtherImage, OfRayCluster
from training.workloads.script import commands, python_environment, ray_layer, resolve, source
from training.workloads.script.printed import LEAST_SECRET, hidden_parts
from training.workloads.script.recipe import environment_rule, variables
from training.workloads.script.recognise import PLACEHOLDERS, Script, ScriptError

LEFT_OUT = ("ray.rllib", "ray.llm")
"""The parts of Ray that the training image does not contain."""
_TAKES_WORKERS = "--num-workers {workers}"
_MAY_LACK = (
    "{script} imports {modules}{where}, and no package of the image or of `requirements` has that name: where none "
    "brings it, a run ends by it, minutes after `up` began. The file of the key `requirements` names packages"
)


@dataclass(frozen=True, kw_only=True)
class ScriptSettings:
    """The keys of a script in addition to its recipe."""

    requirements: str | None = setting(
        "",
        text("a path to a requirements file"),
        "pinned packages for the training image, beside Ray, TensorFlow and tf-keras",
        targets=CLUSTER,
        derived="none",
        example="../mine/requirements.txt",
    )
    secret_environment: str = setting(
        "",
        environment_rule(),
        "secret variables, set with --secret; they are in no log, result or plain state",
        derived="none",
        example="HF_TOKEN=hf_abcdef",
        unset="",
        secret=True,
    )


@dataclass(frozen=True, kw_only=True)
class ScriptDraft(script_data.DataDraft):
    """The settings of a stack that trains a script, not checked yet."""

    own: ScriptSettings


def is_recognised(draft: ScriptDraft) -> Iterator[Problem]:
    """Yield a problem unless the script exists, is Python, and gets the arguments that its kind needs."""
    if not draft.recipe.script:
        yield Problem(
            draft.shown("script"), "the file that trains", (set_line("script", draft.keys["script"].example),),
            why="workload script measures a script of your own",
        )  # fmt: skip
        return
    try:
        resolve.script_of(draft.recipe)
    except ScriptError as error:
        yield _not_recognised(draft, error)


def _recognised(draft: ScriptDraft) -> Script | None:
    """Return what was recognised in the script; None without, or if another check reports why it was not."""
    try:
        return resolve.script_of(draft.recipe) if draft.recipe.script else None
    except ScriptError:
        return None


def _not_recognised(draft: ScriptDraft, error: ScriptError) -> Problem:
    if error.about == "kind":  # the key's own rule allows none but those that there are
        raise error
    if error.about in ("arguments", "placeholder"):
        known = "|".join((*PLACEHOLDERS, *draft.recipe.placeholders()))
        arguments = re.sub(rf"\{{(?!(?:{known})\}})(\w*)\}}", r"\1", draft.recipe.script_arguments)
        fix = arguments if "{workers}" in arguments else f"{arguments} {_TAKES_WORKERS}".strip()
        allowed = draft.keys["scriptArguments"].rule.allowed
        return Problem(draft.shown("scriptArguments"), allowed, (set_line("scriptArguments", fix),), why=str(error))
    return Problem(draft.shown("script"), "a Python file that trains in every arm", (), why=str(error))


def settings_reach_it(draft: ScriptDraft) -> Iterator[Problem]:
    """Yield a problem if `epochs` is set but has no effect, because the script's arguments lack {epochs}."""
    if draft.recipe.epochs != int(draft.keys["epochs"].default) and "{epochs}" not in draft.recipe.script_arguments:
        yield Problem(
            f"{draft.shown('epochs')} with {draft.shown('scriptArguments')}",
            "another number of epochs where scriptArguments has {epochs}",
            (set_line("epochs", draft.keys["epochs"].default),),
            why="the script trains as many epochs as its arguments say",
        )


def python_has_imports(draft: ScriptDraft) -> Iterator[Problem]:
    """Yield a problem if the script's Python does not answer, or lacks a package or has one too old to be observed."""
    script, python = _recognised(draft), resolve.interpreter(draft.recipe.python)
    try:
        python_environment.checked(python, script)
    except python_environment.PythonError as error:
        key = draft.keys["python"]
        named = [set_line("python", error.interpreter or key.example)]
        fixes = [error.fix, *named] if error.interpreter else [error.fix or named[0]]
        fix = " && ".join(filter(None, fixes))
        yield Problem(draft.shown("python"), key.rule.allowed, (fix,), why=error.why)


def python_has_ray(draft: ScriptDraft) -> Iterator[Problem]:
    """Yield a problem if the script's Python has no usable Ray, and `up` cannot add Ray as a layer over it either."""
    script, python = _recognised(draft), resolve.interpreter(draft.recipe.python)
    if script is None or any(python_has_imports(draft)):
        return
    try:
        if "ray" in python_environment.versions(python):
            why = ray_layer.why_not_theirs(script, python)
        else:
            why = "" if ray_layer.over(script, python) else resolve.NO_RAY
    except python_environment.PythonError as error:
        why = error.why
    if why:
        yield Problem(
            draft.shown("python"), "an environment with Ray, or one over which Ray can be a layer: without Ray there"
            " is nothing to compare", (ray_layer.line_that_installs(script, python),), why=why,
        )  # fmt: skip


def has_ray_arm(draft: ScriptDraft) -> Iterator[Problem]:
    """Yield a problem if Ray cannot run a script of this kind here."""
    script = _recognised(draft)
    if script and script.kind == "other" and not script.needs_ray:
        yield Problem(
            draft.shown("scriptKind"),
            "a script that imports Ray, or takes its ranks from torchrun's variables or TF_CONFIG",
            tuple(set_line("scriptKind", kind) for kind in ("torchrun", "tf-config", "plain")),
            why="its text has none of these, so the arm ray is absent; if another file does it, set the kind yourself; "
            "a plain one is measured in one process, beside a start of Ray",
        )
    if script and script.kind == "spawn":
        yield Problem(
            draft.shown("scriptKind"),
            "a script whose ranks are started by torchrun's variables, or by Ray Train",
            (set_line("scriptKind", "torchrun"),),
            why="it calls torch.multiprocessing.spawn, so Ray can't start its ranks, and the arm ray is absent; if it "
            "can also take them from torchrun's variables, set the kind yourself",
        )


def curve_has_runs(draft: ScriptDraft) -> Iterator[Problem]:
    """Yield a problem for a curve over numbers of workers if nothing distributes the script: it is one process."""
    script = _recognised(draft)
    if script and commands.not_distributed(script) and draft.run.workers_curve:
        yield Problem(
            f"{draft.shown('workersCurve')} with {draft.shown('script')}",
            "no curve of a script that nothing distributes",
            (set_line("workersCurve", "none"),),
            why="it trains in one process, whatever the number of workers is",
        )


def folder_is_small(draft: ScriptDraft) -> Iterator[Problem]:
    """Yield a problem unless the script's folder exists, and is small enough to be hashed at every preview."""
    if not draft.recipe.script_folder:
        return
    folder = resolve.path_of(draft.recipe.script_folder)
    if not is_readable_folder(folder):
        yield Problem(
            draft.shown("scriptFolder"), "a folder that exists", ("pulumi config rm scriptFolder",),
            why=f"there is no folder {folder}, or it can't be read",
        )  # fmt: skip
        return
    try:
        source.files_of(folder)
    except source.SourceError as error:
        yield Problem(
            draft.shown("scriptFolder"), "a folder of sources", ("pulumi config rm scriptFolder",), why=str(error)
        )


def metric_is_named(draft: ScriptDraft) -> Iterator[Problem]:
    """Yield a problem for a target or tolerance without a metric, and for a metric of a training that ends early."""
    recipe = draft.recipe
    for key, value in {"metricTarget": recipe.metric_target, "metricTolerance": recipe.metric_tolerance}.items():
        if value is not None and not recipe.metric:
            yield Problem(
                f"{draft.shown(key)} with {draft.shown('metric')}", "a metric that it belongs to",
                (set_line("metric", draft.keys["metric"].example), f"pulumi config rm {key}"),
            )  # fmt: skip
    if draft.recipe.metric and draft.recipe.measure_steps:
        yield Problem(
            f"{draft.shown('metric')} with {draft.shown('measureSteps')}", "a metric of a whole training",
            ("pulumi config rm metric", set_line("measureSteps", 0)),
            why="ranks that are ended early reach nothing that counts",
        )  # fmt: skip


def artifacts_have_a_place(draft: ScriptDraft) -> Iterator[Problem]:
    """Yield a problem if artifacts have no storage to be copied to, or the script gets no folder to leave them in."""
    if not draft.recipe.artifacts:
        return
    if not draft.storage.address:
        yield Problem(
            f"{draft.shown('artifacts')} with {draft.shown('storage')}", "artifacts where there is storage",
            (*draft.lines_for_storage(), "pulumi config rm artifacts"),
            why="they are copied there before the script's own folder goes",
        )  # fmt: skip
    if "{storage}" not in draft.recipe.script_arguments:
        arguments = f"{draft.recipe.script_arguments} --storage {{storage}}".strip()
        yield Problem(
            f"{draft.shown('artifacts')} with {draft.shown('scriptArguments')}",
            "artifacts of a script that has {storage}",
            (set_line("scriptArguments", arguments),),
            why="they are looked for in the folder that {storage} stands for",
        )  # fmt: skip


def secrets_are_secret(draft: ScriptDraft) -> Iterator[Problem]:
    """Yield a problem if secret variables are unencrypted in the stack's file."""
    if draft.own.secret_environment and "secretEnvironment" not in draft.facts.secret_keys:
        yield Problem(
            "secretEnvironment is set without --secret",
            "a value that Pulumi encrypts",
            (secret_line("secretEnvironment"),),
            why="the stack's file has it in clear text; the command below asks for the value",
        )


def secrets_can_be_hidden(draft: ScriptDraft) -> Iterator[Problem]:
    """Yield a problem that names a secret which is so short that a log may contain its text by chance."""
    for name, value in variables(draft.own.secret_environment).items():
        if not hidden_parts(value):
            yield Problem(
                f"secretEnvironment has {name} with a value that is too short",
                f"values with a line of {LEAST_SECRET} or more characters; what is no secret stands in environment",
                (secret_line("secretEnvironment"),),
                why="a log has [secret] wherever the text of a secret stands, and one so short stands there by chance: "
                "what is hidden would tell it",
            )


def each_variable_once(draft: ScriptDraft) -> Iterator[Problem]:
    """Yield a problem if `environment` and `secretEnvironment` set the same variable: either value might apply."""
    twice = set(variables(draft.recipe.environment)) & set(variables(draft.own.secret_environment))
    if twice:
        name = sorted(twice)[0]
        yield Problem(
            f"environment and secretEnvironment both have {name}", "each variable in one of them",
            (set_line("environment", _without(draft.recipe.environment, name)),),
        )  # fmt: skip


def _without(environment: str, name: str) -> str:
    return shlex.join(f"{key}={value}" for key, value in variables(environment).items() if key != name)


def secrets(draft: ScriptDraft) -> Mapping[str, str]:
    """Return the variables in `secretEnvironment`, with their values."""
    return variables(draft.own.secret_environment)


def ranks_have_pods_of_their_own(draft: ScriptDraft) -> Iterator[Problem]:
    """Yield a problem if workers have several CPUs but the script's ranks ask Ray for one, because Ray would put
    several ranks into one pod and leave other pods idle."""
    script = _recognised(draft)
    if script and script.asks_one_cpu and draft.recipe.worker_cpus > 1:
        cpus = math.ceil(draft.recipe.worker_cpus)
        yield Problem(
            f"{draft.shown('workerCpus')} with {draft.shown('script')}",
            f"a ScalingConfig with resources_per_worker={{'CPU': {cpus}}}, or workerCpus 1",
            (set_line("workerCpus", 1),),
            why="its ScalingConfig asks for one CPU a worker, so Ray packs several into one pod and leaves others idle",
        )


def python_is_the_image_s(draft: ScriptDraft) -> Iterator[Problem]:
    """Yield a problem if `python` is set on a cluster, because no other machine has an interpreter of this machine."""
    if draft.recipe.python:
        yield Problem(
            draft.shown("python"), "not set on a cluster", ("pulumi config rm python",),
            why="pods run the script with the Python of their image, and Ray's nodes with theirs",
        )  # fmt: skip


def image_has_it(installed: Mapping[str, str], draft: ScriptDraft) -> Iterator[Problem]:
    """Yield a problem if the image lacks a package that the script imports at its top level, or has one too old."""
    script = _recognised(draft)
    why = _why_image_lacks(script, installed, draft) if script else ""
    if why:
        yield Problem(
            draft.shown("script"), "a script that imports what the training image has: Ray, TensorFlow and tf-keras",
            (set_line("requirements", draft.keys["requirements"].example), set_line("target", "local")), why=why,
        )  # fmt: skip


def _why_image_lacks(script: Script, installed: Mapping[str, str], draft: ScriptDraft) -> str:
    if script.uses(*LEFT_OUT) and not draft.own.requirements:
        return (
            f"it imports {' or '.join(LEFT_OUT)}, which the image's Ray lacks: add a line "
            f"ray[rllib]=={installed['ray']}, or the same with ray[llm], to requirements; RLlib needs PyTorch, too"
        )
    lacking = python_environment.lacking(script, installed)
    if not draft.own.requirements:  # one of these may bring a module of another name
        lacking |= python_environment.in_no_package(script.imports, installed)
    if lacking:
        return f"it imports {' and '.join(sorted(lacking))}, which the image lacks"
    if old := python_environment.too_old(script, installed):
        return f"the image would have {old[0]} {installed[old[0]]}, and {old[1]}"
    if script.uses("tf.keras", "tensorflow.keras") and "keras" not in installed and not _legacy(script, draft):
        return (
            "tf.keras is Keras 3, which the image lacks: add keras to requirements, or set "
            "TF_USE_LEGACY_KERAS=1 in environment; it is then tf-keras, which the image has"
        )
    return ""


def image_may_lack(draft: ScriptDraft, installed: Installed) -> Iterator[str]:
    """Yield a warning for modules that the script may not find in its pods, if that is not certain.

    A package in `requirements` may bring a module of another name, and an import in a function may never run. Nothing
    is known about the packages of an image that this project did not build, or of an existing Ray cluster.
    """
    script = _recognised(draft)
    if script is None or installed is None or isinstance(installed, (OfRayCluster, OfOtherImage)):
        return
    at_once = script.imports if draft.own.requirements else frozenset()
    key = draft.keys["requirements"]
    fixes = () if draft.own.requirements else (set_line(key.name, key.example),)
    for modules, where in ((at_once, ""), (script.imports_later, " in a function or a condition")):
        if missing := python_environment.in_no_package(modules, installed):
            names = ", ".join(sorted(missing))
            yield str(Problem(_MAY_LACK.format(script=script.path.name, modules=names, where=where), fixes=fixes))


def _legacy(script: Script, draft: ScriptDraft) -> bool:
    named = {**variables(draft.recipe.environment), **commands.variables_of(script)}
    return "TF_USE_LEGACY_KERAS" in named


def fits_pods(draft: ScriptDraft) -> Iterator[Problem]:
    """Yield a problem unless the script and its files, compressed, fit into one Kubernetes object."""
    script = _recognised(draft)
    folder = resolve.path_of(draft.recipe.script_folder) if draft.recipe.script_folder else None
    if script is None or any(folder_is_small(draft)):
        return
    try:
        source.package_of(script, folder)
    except source.SourceError as error:
        yield Problem(
            draft.shown("scriptFolder" if folder else "script"),
            f"files of {source.MOST_PACKED_BYTES // 2**10} KiB compressed, without links out of them",
            (set_line("target", "local"),), why=str(error),
        )  # fmt: skip


def checks_where(installed: Installed) -> tuple[Check, ...]:
    """Return the checks of what the script requires: from its own Python on this machine, or from the image of its
    pods.

    The packages of an existing Ray cluster, or of a prebuilt image, are checked later, in that cluster or image.
    """
    if installed is None:
        return (python_has_imports, python_has_ray, gpus.python_is_not_the_cpu_s)
    elsewhere = (python_is_the_image_s, ranks_have_pods_of_their_own, fits_pods)
    if isinstance(installed, (OfRayCluster, OfOtherImage)):
        return elsewhere
    return (*elsewhere, partial(image_has_it, installed), partial(gpus.pytorch_is_not_the_cpu_s, installed))


def line_that_pins(requirements: str) -> str:
    """Return the command line that pins the packages in the file `requirements` to versions compatible with the
    image's. If none are compatible, uv reports the conflict."""
    image, pinned, uv = ".state/image.txt", "pinned.txt", python_environment.uv()
    export = [uv, "export", "--quiet", "--frozen", "--no-default-groups", "--extra", "image"]
    compile_ = [
        uv,
        "pip",
        "compile",
        "--quiet",
        "--python-version",
        "3.11",
        "--constraint",
        image,
        requirements,
        "-o",
        pinned,
    ]
    return (
        f"{shlex.join([*export, '--no-hashes', '--no-emit-project', '-o', image])} && {shlex.join(compile_)}"
        f" && {set_line('requirements', pinned)}"
    )


OWN = OfWorkload(
    section=ScriptSettings,
    draft=ScriptDraft,
    checks=(
        is_recognised,
        settings_reach_it,
        has_ray_arm,
        curve_has_runs,
        folder_is_small,
        metric_is_named,
        artifacts_have_a_place,
        secrets_are_secret,
        secrets_can_be_hidden,
        each_variable_once,
        gpus.script_uses_them,
        gpus.arms_use_them,
        *script_data.CHECKS,
    ),
    checks_where=checks_where,
    remarks=image_may_lack,
    secrets=secrets,
)
