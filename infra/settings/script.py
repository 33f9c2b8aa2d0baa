"""The settings of a user's script in addition to its recipe, and their checks: the file, its arguments, its folder.

A preview checks all of it, from texts and from the packages that the script's Python lists; nothing of the script is
run.
"""

import math
import re
import shlex
from collections.abc import Iterator, Mapping
from functools import partial

from infra.settings.checks import Check, lines_for_storage
from infra.settings.draft import Draft, Problem, secret_line, set_line
from infra.settings.key import CLUSTER, Key
from infra.settings.table import OfWorkload
from training.contract.rules import text
from training.contract.workload import Installed, OfOtherImage, OfRayCluster
from training.workloads.script import commands, package, python_environment, resolve, source
from training.workloads.script.recipe import environment_rule, variables
from training.workloads.script.recognise import PLACEHOLDERS, Script, ScriptError, recognise

SCRIPT_KEYS = ("script", "scriptArguments", "scriptKind")
LEFT_OUT = ("ray.rllib", "ray.llm")
"""Parts of Ray that are not in the image."""
_TAKES_WORKERS = "--num-workers {workers}"
_UNKNOWN_PLACEHOLDER = re.compile(r"\{(?!(?:" + "|".join(PLACEHOLDERS) + r")\})(\w*)\}")


def is_recognised(draft: Draft) -> Iterator[Problem]:
    """Check that the script exists, is Python, and takes its number of workers from outside."""
    if not draft["script"]:
        yield Problem(
            draft.shown("script"), "the file that trains", (set_line("script", draft.keys["script"].example),),
            why="workload script measures a script of your own",
        )  # fmt: skip
        return
    try:
        _script(draft)
    except ScriptError as error:
        yield _not_recognised(draft, error)


def _script(draft: Draft) -> Script:
    """Return the recognised script. Raises ScriptError."""
    arguments = tuple(shlex.split(draft["scriptArguments"]))
    return recognise(resolve.path_of(draft["script"]), arguments, draft["scriptKind"])


def _recognised(draft: Draft) -> Script | None:
    """Return the recognised script; None if another check reports why it is not."""
    try:
        return _script(draft) if draft["script"] else None
    except ScriptError:
        return None


def _not_recognised(draft: Draft, error: ScriptError) -> Problem:
    if error.about == "kind":  # the key's own rule allows none but those that there are
        raise error
    if error.about == "arguments":
        arguments: str = _UNKNOWN_PLACEHOLDER.sub(r"\1", draft["scriptArguments"])
        fix = arguments if "{workers}" in arguments else f"{arguments} {_TAKES_WORKERS}".strip()
        allowed = draft.keys["scriptArguments"].rule.allowed
        return Problem(draft.shown("scriptArguments"), allowed, (set_line("scriptArguments", fix),), why=str(error))
    return Problem(draft.shown("script"), "a Python file that trains in every arm", (), why=str(error))


def settings_reach_it(draft: Draft) -> Iterator[Problem]:
    """Check that `epochs` reaches the script, by its placeholder; without one it has no effect."""
    if draft["epochs"] != int(draft.keys["epochs"].default) and "{epochs}" not in draft["scriptArguments"]:
        yield Problem(
            f"{draft.shown('epochs')} with {draft.shown('scriptArguments')}",
            "another number of epochs where scriptArguments has {epochs}",
            (set_line("epochs", draft.keys["epochs"].default),),
            why="the script trains as many epochs as its arguments say",
        )


def has_python(draft: Draft) -> Iterator[Problem]:
    """Check that the interpreter answers, and has Ray and the script's imports, new enough to be observed."""
    script, python = _recognised(draft), resolve.interpreter(draft["python"])
    try:
        versions = python_environment.checked(python, script)
    except python_environment.PythonError as error:
        key = draft.keys["python"]
        named = [set_line("python", error.interpreter or key.example)]
        fix = " && ".join([error.fix, *named] if error.interpreter else [error.fix] if error.fix else named)
        yield Problem(draft.shown("python"), key.rule.allowed, (fix,), why=error.why)
        return
    if script and "ray" not in versions:
        yield Problem(
            draft.shown("python"), "an environment with Ray: without the arm ray there is nothing to compare",
            (python_environment.line_that_gives(script, ["ray"], python),),
            why="the arm ray runs the script as Ray Train's training function",
        )  # fmt: skip


def has_ray_arm(draft: Draft) -> Iterator[Problem]:
    """Refuse a script of a kind that Ray cannot run here."""
    script = _recognised(draft)
    if script and script.kind == "other" and not script.needs_ray:
        yield Problem(
            draft.shown("scriptKind"),
            "a script that imports Ray, or takes its ranks from torchrun's variables or TF_CONFIG",
            (set_line("scriptKind", "torchrun"), set_line("scriptKind", "tf-config")),
            why="its text has none of these, so the arm ray is absent; if another file does it, set the kind yourself",
        )
    if script and script.kind == "spawn":
        yield Problem(
            draft.shown("scriptKind"),
            "a script whose ranks are started by torchrun's variables, or by Ray Train",
            (set_line("scriptKind", "torchrun"),),
            why="it calls torch.multiprocessing.spawn, so Ray can't start its ranks, and the arm ray is absent; if it "
            "can also take them from torchrun's variables, set the kind yourself",
        )


def folder_is_small(draft: Draft) -> Iterator[Problem]:
    """Check that the script's folder exists, and is small enough to be hashed at every preview."""
    if not draft["scriptFolder"]:
        return
    folder = resolve.path_of(draft["scriptFolder"])
    if not folder.is_dir():
        yield Problem(
            draft.shown("scriptFolder"), "a folder that exists", ("pulumi config rm scriptFolder",),
            why=f"there is no folder {folder}",
        )  # fmt: skip
        return
    try:
        source.files_of(folder)
    except source.SourceError as error:
        yield Problem(
            draft.shown("scriptFolder"), "a folder of sources", ("pulumi config rm scriptFolder",), why=str(error)
        )


def metric_is_named(draft: Draft) -> Iterator[Problem]:
    """Check that a metric's target has a metric, and that the training is not ended early."""
    for key in ("metricTarget", "metricTolerance"):
        if draft[key] is not None and not draft["metric"]:
            yield Problem(
                f"{draft.shown(key)} with {draft.shown('metric')}", "a metric that it belongs to",
                (set_line("metric", draft.keys["metric"].example), f"pulumi config rm {key}"),
            )  # fmt: skip
    if draft["metric"] and draft["measureSteps"]:
        yield Problem(
            f"{draft.shown('metric')} with {draft.shown('measureSteps')}", "a metric of a whole training",
            ("pulumi config rm metric", set_line("measureSteps", 0)),
            why="ranks that are ended early reach nothing that counts",
        )  # fmt: skip


def artifacts_have_a_place(draft: Draft) -> Iterator[Problem]:
    """Check that artifacts have storage, and that the script gets the folder they are collected from."""
    if not draft["artifacts"]:
        return
    if not draft["storage"]:
        yield Problem(
            f"{draft.shown('artifacts')} with {draft.shown('storage')}", "artifacts where there is storage",
            (*lines_for_storage(draft), "pulumi config rm artifacts"),
            why="they are copied there before the script's own folder goes",
        )  # fmt: skip
    if "{storage}" not in draft["scriptArguments"]:
        arguments = f"{draft['scriptArguments']} --storage {{storage}}".strip()
        yield Problem(
            f"{draft.shown('artifacts')} with {draft.shown('scriptArguments')}",
            "artifacts of a script that has {storage}",
            (set_line("scriptArguments", arguments),),
            why="they are looked for in the folder that {storage} stands for",
        )  # fmt: skip


def secrets_are_secret(draft: Draft) -> Iterator[Problem]:
    """Refuse a secret that is unencrypted in the stack's file."""
    if draft["secretEnvironment"] and "secretEnvironment" not in draft.facts.secret_keys:
        yield Problem(
            "secretEnvironment is set without --secret",
            "a value that Pulumi encrypts",
            (secret_line("secretEnvironment"),),
            why="the stack's file has it in clear text; the command below asks for the value",
        )


def each_variable_once(draft: Draft) -> Iterator[Problem]:
    """Refuse a variable that is set twice: either value would be a guess."""
    twice = set(variables(draft["environment"])) & set(variables(draft["secretEnvironment"]))
    if twice:
        name = sorted(twice)[0]
        yield Problem(
            f"environment and secretEnvironment both have {name}", "each variable in one of them",
            (set_line("environment", _without(draft["environment"], name)),),
        )  # fmt: skip


def _without(environment: str, name: str) -> str:
    return shlex.join(f"{key}={value}" for key, value in variables(environment).items() if key != name)


def secrets(draft: Draft) -> Mapping[str, str]:
    """Return the variables of `secretEnvironment`."""
    return variables(draft["secretEnvironment"])


def ranks_have_pods_of_their_own(draft: Draft) -> Iterator[Problem]:
    """Refuse workers of several CPUs for ranks of one: Ray packs them into one pod, and other pods stay idle."""
    script = _recognised(draft)
    if script and script.asks_one_cpu and draft["workerCpus"] > 1:
        cpus = math.ceil(draft["workerCpus"])
        yield Problem(
            f"{draft.shown('workerCpus')} with {draft.shown('script')}",
            f"a ScalingConfig with resources_per_worker={{'CPU': {cpus}}}, or workerCpus 1",
            (set_line("workerCpus", 1),),
            why="its ScalingConfig asks for one CPU a worker, so Ray packs several into one pod and leaves others idle",
        )


def python_is_the_image_s(draft: Draft) -> Iterator[Problem]:
    """Refuse an interpreter of this machine, which exists on no other."""
    if draft["python"]:
        yield Problem(
            draft.shown("python"), "not set on a cluster", ("pulumi config rm python",),
            why="pods run the script with the Python of their image, and Ray's nodes with theirs",
        )  # fmt: skip


def image_has_it(installed: Mapping[str, str], draft: Draft) -> Iterator[Problem]:
    """Check that the image has the frameworks that the script imports at its top level."""
    script = _recognised(draft)
    why = _why_image_lacks(script, installed, draft) if script else ""
    if why:
        yield Problem(
            draft.shown("script"), "a script that imports what the training image has: Ray, TensorFlow and tf-keras",
            (set_line("requirements", draft.keys["requirements"].example), set_line("target", "local")), why=why,
        )  # fmt: skip


def _why_image_lacks(script: Script, installed: Mapping[str, str], draft: Draft) -> str:
    if script.uses(*LEFT_OUT) and not draft["requirements"]:
        return (
            f"it imports {' or '.join(LEFT_OUT)}, which the image's Ray lacks: add a line "
            f"ray[rllib]=={installed['ray']}, or the same with ray[llm], to requirements; RLlib needs PyTorch, too"
        )
    if lacking := python_environment.lacking(script, installed):
        return f"it imports {' and '.join(sorted(lacking))}, which the image lacks"
    if old := python_environment.too_old(script, installed):
        return f"the image would have {old[0]} {installed[old[0]]}, and {old[1]}"
    if script.uses("tf.keras", "tensorflow.keras") and "keras" not in installed and not _legacy(script, draft):
        return (
            "tf.keras is Keras 3, which the image lacks: add keras to requirements, or set "
            "TF_USE_LEGACY_KERAS=1 in environment; it is then tf-keras, which the image has"
        )
    return ""


def _legacy(script: Script, draft: Draft) -> bool:
    named = {**variables(draft["environment"]), **commands.VARIABLES_OF.get(script.kind, {})}
    return "TF_USE_LEGACY_KERAS" in named


def fits_pods(draft: Draft) -> Iterator[Problem]:
    """Check that the script and its files fit into one Kubernetes object."""
    script = _recognised(draft)
    folder = resolve.path_of(draft["scriptFolder"]) if draft["scriptFolder"] else None
    if script is None or (folder and not folder.is_dir()):
        return
    try:
        package.of_script(script, folder)
    except source.SourceError as error:
        yield Problem(
            draft.shown("scriptFolder" if folder else "script"),
            f"files of {package.MOST_BYTES // 2**10} KiB compressed, without links out of them",
            (set_line("target", "local"),), why=str(error),
        )  # fmt: skip


def checks_where(installed: Installed) -> tuple[Check, ...]:
    """Return the checks of the script's requirements: by its own Python on this machine, or by the image of its pods.

    The packages of an existing Ray cluster, or of a prebuilt image, are checked there.
    """
    if installed is None:
        return (Check(has_python, (*SCRIPT_KEYS, "python")),)
    elsewhere = (
        Check(python_is_the_image_s, ("python",)),
        Check(ranks_have_pods_of_their_own, (*SCRIPT_KEYS, "workerCpus")),
        Check(fits_pods, (*SCRIPT_KEYS, "scriptFolder")),
    )
    if isinstance(installed, (OfRayCluster, OfOtherImage)):
        return elsewhere
    return (
        *elsewhere,
        Check(partial(image_has_it, installed), (*SCRIPT_KEYS, "environment", "requirements")),
    )


def line_that_pins(requirements: str) -> str:
    """Return the line that pins the file `requirements` to the image's versions; uv reports a conflict."""
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


_KEYS = (
    Key(
        name="requirements",
        targets=CLUSTER,
        rule=text("a path to a requirements file"),
        derived="none",
        example="../mine/requirements.txt",
        help="file of pinned packages for the training image, in addition to Ray, TensorFlow and tf-keras",
    ),
    Key(
        name="secretEnvironment",
        rule=environment_rule(),
        derived="none",
        example="HF_TOKEN=hf_x",
        unset="",
        help="secret environment variables of the script, set with --secret; they are in no log, result or plain state",
        secret=True,
    ),
)
OWN = OfWorkload(
    keys=_KEYS,
    derived={
        "script": ("none", ""),
        "scriptArguments": ("none", ""),
        "artifacts": ("none", ""),
        "scriptFolder": ("the script, and modules beside it that it imports", ""),
        "python": ("the project's own", ""),
        "environment": ("none", ""),
        "metric": ("none", ""),
        "metricTarget": ("none", None),
        "metricTolerance": ("none", None),
    },
    examples={
        "script": "../mine/train.py",
        "scriptArguments": "--epochs 1 --num-workers {workers}",
        "artifacts": "train/checkpoint_*/*.pt",
        "scriptFolder": "../mine",
        "python": "../mine/.venv/bin/python",
        "metric": "val_accuracy",
        "metricTarget": "0.9",
        "metricTolerance": "0.01",
        "environment": "DATA=/data HF_HOME=/models",
    },
    checks=(
        Check(is_recognised, SCRIPT_KEYS),
        Check(settings_reach_it, ("epochs", "scriptArguments")),
        Check(has_ray_arm, SCRIPT_KEYS),
        Check(folder_is_small, ("scriptFolder",)),
        Check(metric_is_named, ("metric", "metricTarget", "metricTolerance", "measureSteps")),
        Check(artifacts_have_a_place, ("target", "artifacts", "scriptArguments", "storage")),
        Check(secrets_are_secret, ("scriptFolder", "secretEnvironment")),
        Check(each_variable_once, ("environment", "secretEnvironment")),
    ),
    checks_where=checks_where,
    local_only=("python",),
    secrets=secrets,
)
