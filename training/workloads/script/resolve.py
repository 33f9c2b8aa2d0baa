"""Resolves a recipe: the script as it was recognised, its environment, the command of each arm."""

import hashlib
import os
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from training.contract.provenance import PROJECT
from training.contract.recipe import canonical
from training.contract.result import PROOF
from training.contract.workload import Files, Installed, OfOtherImage, OfRayCluster
from training.launch.environment import BESIDE_SCRIPT, IN_OTHER_IMAGE
from training.workloads.script import commands, plain, python_environment, ray_layer, source
from training.workloads.script.commands import ArmCommand, Sizes, WithRay
from training.workloads.script.python_environment import PythonError
from training.workloads.script.ray_layer import Layer
from training.workloads.script.recipe import ScriptRecipe
from training.workloads.script.recognise import Script, ScriptError, Takes, recognise

HERE = Path(__file__).resolve().parent
IMPORTS = """
import importlib, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except Exception as error:
        print(f"{name} was not imported before the first run: {error!r}")
if "ray" in sys.modules:
    from pathlib import Path
    for program in Path(sys.modules["ray"].__file__).parent.glob("core/src/ray/*/*"):
        program.is_file() and program.read_bytes()
"""
NO_RAY = "its environment has no Ray"
SHOWN_VALUES = {"storage": "{storage}"}
"""Placeholder for the storage folder, which is another one in each run."""
APP = "/app"
"""Folder of the project in the image."""


@dataclass(frozen=True, kw_only=True)
class ResolvedScript:
    """A script that can be run."""

    recipe: ScriptRecipe
    script: Script
    python: str
    versions: Mapping[str, str]
    """Versions of Python and of the packages in the script's environment."""
    in_pods: bool = False
    """True if each rank runs in a pod of its own, whose image has the environment."""
    layer: Layer | None = None
    """The layer with Ray for a script whose environment lacks Ray."""
    lacks_ray: str = ""
    """Why no Ray is available for the script; "" if one is."""

    @property
    def inputs(self) -> dict[str, Any]:
        """Return what decides its runs besides the recipe: its files, environment, and what observes and splits it."""
        program = plain.mechanism(self.script) if self.splits else None
        return {
            "script": self.script.path.name,
            "kind": self.script.kind,
            "files": source.digest(self.script, folder_of(self.recipe)),
            "versions": dict(self.versions),
            "observer": observer_hash(),
            **({"mechanism": hash_of_folders(program)} if program else {}),
        }

    @property
    def splits(self) -> bool:
        """Return whether ranks of the script, or of a trial, are measured although it trains in one process."""
        recipe = self.recipe
        ranks = recipe.workers if recipe.workload == "script" else recipe.processes_each
        return ranks > 1 and not recipe.worker_gpus and plain.mechanism(self.script) is not None

    def proof(self, storage: Path, file: Path) -> ArmCommand:
        """Return the command that proves what the ranks of a script that `splits` do, and writes that into `file`."""
        return commands.proof(
            self.script, self.python, self._sizes(plan="{plan}"), self._known({"storage": str(storage)}), file
        )

    def proof_key(self, needed: Mapping[str, str]) -> str:
        """Return a key of what decides the outcome of the proof, without the files that it reads: the outcome has
        them."""
        arguments = commands.own_arguments(PROOF, self.script, self._sizes(), self._known({}))
        decides = {"inputs": self.inputs, "arguments": arguments, "workers": self.recipe.workers}
        return hashlib.sha256(canonical(decides | {"needed": dict(needed)}).encode()).hexdigest()[:16]

    def where_to_install(self, module: str) -> str:
        """Return a message that says where to install the package of a module that the script did not find; the package
        may have another name."""
        if not self.in_pods and self.python == "python":
            return f"Install the package of the module {module} on every node of the Ray cluster"
        if not self.in_pods:
            return (
                f"{self.python} has no module {module}: install its package there, or name an environment that has it:"
                "\n  pulumi config set python ../mine/.venv/bin/python"
            )
        if str(PROJECT) == IN_OTHER_IMAGE:
            return f"Install the package of the module {module} in the image that the key `image` names"
        return (
            f"The image has no module {module}: name its package, as name==version, in the file of the key"
            " `requirements`:\n  pulumi config set requirements ../mine/requirements.txt"
        )

    def arms(
        self,
        values: Mapping[str, str],
        master_port: int = Sizes.master_port,
        devices: tuple[str, ...] = (),
        plan: str = "{plan}",
    ) -> dict[str, ArmCommand]:
        """Return the commands of all arms that a script can have, by name; `values` replace {storage}. `devices` are
        the UUIDs of this machine's GPUs; without them a command has words for the first, the second, …. `plan` is the
        path of the plan by which ranks of a plain script split their batches."""
        sizes, known = self._sizes(master_port, devices, plan), self._known(values)
        with_ray = WithRay(python=self.layer.python if self.layer else "", lacking=self.lacks_ray)
        arm_commands = commands.commands(self.script, self.python, sizes, known, with_ray)
        return {each.arm: each for each in arm_commands}

    def _known(self, values: Mapping[str, str]) -> dict[str, str]:
        return {"seed": str(self.recipe.seed), "epochs": str(self.recipe.epochs), **values}

    def _sizes(self, master_port: int = Sizes.master_port, devices: tuple[str, ...] = (), plan: str = "") -> Sizes:
        return Sizes(
            workers=self.recipe.workers,
            worker_cpus=self.recipe.worker_cpus,
            input_cpus=self.recipe.input_cpus,
            master_port=master_port,
            in_pods=self.in_pods,
            gpus=self.recipe.worker_gpus,
            devices=devices or tuple(f"{{GPU {number}}}" for number in range(1, self.recipe.workers + 1)),
            plan=plan if self.splits else "",
        )


def resolve(recipe: ScriptRecipe, image: Installed = None) -> ResolvedScript:
    """Return the recipe's script with its environment and what its arms need. Raise ScriptError or PythonError if it
    can't be run. `image` has the packages of the pods' image; None if the script runs on this machine."""
    if not recipe.script:
        raise ScriptError("script", "no script is named: it is the file that trains, as ../mine/train.py")
    python = interpreter(recipe.python) if image is None else "python"
    script = script_of(recipe)
    versions = python_environment.checked(python, script) if image is None else python_environment.of_image(image)
    layer, lacks_ray = _layer(recipe, script, python, versions, is_here=image is None)
    in_pods = image is not None and not isinstance(image, OfRayCluster)
    return ResolvedScript(
        recipe=recipe, script=script, python=python, in_pods=in_pods,
        versions={**versions, "ray": layer.version} if layer else versions, layer=layer, lacks_ray=lacks_ray,
    )  # fmt: skip


def _layer(
    recipe: ScriptRecipe, script: Script, python: str, versions: Mapping[str, str], *, is_here: bool
) -> tuple[Layer | None, str]:
    """Return the layer with Ray for a script on this machine, or None and why no Ray can train the script; "" if the
    Ray in its environment can."""
    of_layer = is_here and recipe.workload == "script"
    if "ray" in versions:
        return None, ray_layer.why_not_theirs(script, python) if of_layer else ""
    try:
        layer = ray_layer.over(script, python) if of_layer else None
    except PythonError as error:
        return None, error.why
    return layer, "" if layer else NO_RAY


def script_of(recipe: ScriptRecipe) -> Script:
    """Return the recipe's script, recognised. Raise ScriptError if it can't be measured."""
    arguments = tuple(shlex.split(recipe.script_arguments))
    takes = Takes(placeholders=recipe.placeholders(), one_process=recipe.one_process, gpus=bool(recipe.worker_gpus))
    script = recognise(path_of(recipe.script), arguments, recipe.script_kind, takes)
    return replace(script, data_arguments=tuple(shlex.split(recipe.data_arguments)))


def with_ray_data(recipe: ScriptRecipe) -> Script:
    """Return the recipe's script with its `dataArguments`, recognised. Raise ScriptError if it can't be measured."""
    return script_of(replace(recipe, script_arguments=recipe.data_arguments, data_arguments=""))


def folder_of(recipe: ScriptRecipe) -> Path | None:
    """Return the folder that belongs to the script in addition to its imports; None if the recipe names none."""
    return path_of(recipe.script_folder) if recipe.script_folder else None


def files(recipe: ScriptRecipe) -> Files:
    """Return the script's files for pods, with the settings of the recipe that do not decide replaced by defaults.
    Raise ScriptError or SourceError."""
    packed = source.package_of(script_of(recipe), folder_of(recipe))
    defaults = {field.name: field.default for field in recipe.settings().values() if not field.metadata["decides"]}
    return Files(content=packed.content, digest=packed.digest, recipe=defaults | {"script": packed.script})


def path_of(text: str) -> Path:
    """Return an absolute path, in the project's folder if it is relative, with links as they are, because an
    environment's Python is a link to one outside of it."""
    expanded = os.path.expanduser(text)  # noqa: PTH111 (Path's raises for an unknown ~user)
    return Path(os.path.normpath(PROJECT / expanded))


def interpreter(text: str) -> str:
    """Return the path of the Python of the script's environment; if `text` is empty, the project's own Python."""
    return str(path_of(text)) if "/" in text else text or sys.executable


def inputs(recipe: ScriptRecipe, image: Installed = None) -> dict[str, Any]:
    """Return `ResolvedScript.inputs` of the recipe."""
    return resolve(recipe, image).inputs


def observer_hash() -> str:
    """Return a hash of the code that is loaded into the script's processes, and of the launchers in its Python."""
    return hash_of_folders(HERE / "observe", HERE / "ranks")


def hash_of_folders(*folders: Path) -> str:
    """Return a hash of the Python files of folders of this package."""
    files = [path for folder in folders for path in folder.rglob("*.py")]
    return source.hash_of((str(path.relative_to(HERE)), path) for path in files)


def prepare(recipe: ScriptRecipe, say: Callable[[str], None]) -> None:
    """Make the layer with Ray for the script, if its environment has no Ray; `say` is told what takes a while. Raise
    ValueError with what to type if the layer can't be made."""
    resolved = resolve(recipe)
    try:
        if resolved.layer:
            ray_layer.make(resolved.layer, resolved.script, say)
    except PythonError as error:
        raise ValueError(f"{error.why}. To have it there:\n  {error.fix}") from None


def warm_up(recipe: ScriptRecipe) -> list[str]:
    """Return the command that imports once, with the script's own Python, the script's frameworks and Ray's library for
    it. The command also reads the programs that Ray starts."""
    resolved = resolve(recipe)
    library = "ray.rllib" if resolved.script.kind == "ray-rllib" else "ray.train"
    python = resolved.layer.python if resolved.layer and resolved.layer.is_made else resolved.python
    return [python, "-c", IMPORTS, *resolved.script.frameworks, library]


def modules(recipe: ScriptRecipe) -> dict[str, str]:
    """Return the modules that the script imports as soon as it is started, with the names of their packages."""
    return {name: python_environment.NAME_OF.get(name, name) for name in script_of(recipe).loads}


def why_not(recipe: ScriptRecipe, arm: str, image: Installed = None) -> str:
    """Return why the script has no such arm; "" if it has the arm."""
    if arm == commands.WITH_DATA and not recipe.data_arguments:
        return "dataArguments is not set"
    if arm == commands.RAY_START and not commands.not_distributed(script_of(recipe)):
        return "the script is distributed, and Ray trains it"
    return resolve(recipe, image).arms(SHOWN_VALUES)[arm].absent


def shown(recipe: ScriptRecipe, arm: str, image: Installed = None) -> str:
    """Return the whole command of an arm, for a review before anything is run."""
    resolved = resolve(recipe, image)
    if image is None:
        remark = f"    # {resolved.layer.words}" if resolved.layer and arm in commands.BY_RAY else ""
        remark += "; `up` makes it" if resolved.layer and remark and not resolved.layer.is_made else ""
        return f"cd {shlex.quote(str(commands.folder(resolved.script)))} && {resolved.arms(SHOWN_VALUES)[arm]}{remark}"
    in_its_folder = replace(resolved, script=replace(resolved.script, path=Path(resolved.script.path.name)))
    return str(in_its_folder.arms(SHOWN_VALUES)[arm]).replace(str(PROJECT), _project(image))


def _project(image: Installed) -> str:
    """Return the folder of the project's modules in the place with this image."""
    if isinstance(image, OfRayCluster):
        return BESIDE_SCRIPT
    return IN_OTHER_IMAGE if isinstance(image, OfOtherImage) else APP
