"""Recognises the kind of a script from its text alone: its framework, and how it gets its ranks. Runs nothing.

The script's own neighbours that it imports are read, too. What can't work is refused here, before minutes are spent.
"""

import ast
import re
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from training.machine.command_line import quoted

Kind = Literal[
    "ray-torch", "torchrun", "spawn", "ray-tensorflow", "tf-config", "ray-xgboost", "ray-lightgbm", "ray-rllib",
    "plain", "other",
]  # fmt: skip
KINDS: tuple[Kind, ...] = get_args(Kind)
WORDS: dict[Kind, str] = {
    "ray-torch": "Ray Train for Torch",
    "torchrun": "PyTorch for torchrun",
    "spawn": "PyTorch that starts its own ranks",
    "ray-tensorflow": "Ray Train for TensorFlow",
    "tf-config": "TensorFlow with TF_CONFIG",
    "ray-xgboost": "Ray Train for XGBoost",
    "ray-lightgbm": "Ray Train for LightGBM",
    "ray-rllib": "RLlib",
    "plain": "trains in one process, as far as its imports tell",
    "other": "a script of no known kind",
}
TRAINERS: dict[str, Kind] = {
    "ray.train.torch": "ray-torch",
    "ray.train.tensorflow": "ray-tensorflow",
    "ray.train.xgboost": "ray-xgboost",
    "ray.train.lightgbm": "ray-lightgbm",
    "ray.rllib": "ray-rllib",
}
BY_TORCHRUN = ("torch.distributed", "torch.nn.parallel", "accelerate", "lightning", "pytorch_lightning", "transformers")
"""Modules that get their ranks from torchrun's environment variables."""
ASK_THEMSELVES = BY_TORCHRUN[2:]
"""Modules among BY_TORCHRUN that find out themselves whether there are other ranks."""
FRAMEWORKS = ("torch", "tensorflow", "keras", "tf_keras", "xgboost", "lightgbm", "sklearn", "gymnasium", "ray")
RLLIB_LOADS = ("gymnasium", "torch")
PLACEHOLDERS = ("workers", "seed", "epochs", "storage")
_FINDS_MODULES = re.compile(
    r"^sys\.(path|meta_path|path_hooks|modules)\b|\bpath\.(insert|append|extend)$|\baddsitedir$"
)
"""Matches names in a script that may let it import modules from anywhere, also under another name for `sys`."""
_OF_IMPORTS = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}
_OF_PYTHON = {"__main__", "sitecustomize", "usercustomize"}
_PLACEHOLDER = re.compile(r"\{(\w*)\}")


class ScriptError(ValueError):
    """The script can't be measured as given; the message says what to do, and `about` names the part that is wrong."""

    def __init__(self, about: Literal["script", "arguments", "placeholder", "kind"], message: str) -> None:
        super().__init__(message)
        self.about = about


@dataclass(frozen=True, kw_only=True)
class Takes:
    """What a script may be given by its arguments, which depends on what the script is run for."""

    placeholders: tuple[str, ...] = ()
    """Names of placeholders that are replaced in addition to PLACEHOLDERS."""
    one_process: bool = False
    """True if every run is one process, so that the script need not take a number of workers."""
    gpus: bool = False
    """True if each process is given a GPU."""


IN_EVERY_ARM = Takes()
"""Stands for a script that is run in every arm, and takes its number of workers from its arguments."""


@dataclass(frozen=True, kw_only=True)
class Script:
    """A script with what was recognised about it."""

    path: Path
    kind: Kind
    modules: frozenset[str]
    """Dotted names that the script or its neighbours (the modules beside it) import."""
    arguments: tuple[str, ...]
    """Arguments of the script, with placeholders."""
    data_arguments: tuple[str, ...] = ()
    """Arguments with which the script reads its data through Ray Data, which it does not with `arguments`; empty if it
    has no such arguments."""
    files: frozenset[Path] = frozenset()
    """The script's file, and those of the modules beside it that it imports."""
    loads: frozenset[str] = frozenset()
    """Names in FRAMEWORKS that the script imports as soon as it is started, so that it fails if they are missing."""
    imports: frozenset[str] = frozenset()
    """All modules that the script imports at once and that are neither beside it nor in the standard library; empty if
    the script changes `sys.path`."""
    imports_later: frozenset[str] = frozenset()
    """Modules that the script imports in a function or a condition, where it fails if they are missing."""
    asks_one_cpu: bool = False
    """True if the script makes a ScalingConfig that leaves the number of CPUs of a worker to Ray, which is one."""
    asks_no_gpu: bool = False
    """True if the script makes a ScalingConfig without `use_gpu`, so that Ray hides the GPUs from its workers."""
    most_cpus_asked: float = 0
    """The largest number of CPUs of a worker that a ScalingConfig in the script asks for; 0 if none gives a number."""
    trains_alone: bool = True
    """True if the script can tell that it has no other ranks; else one process needs torchrun's variables, too."""

    @property
    def needs_ray(self) -> bool:
        """Return whether the script imports Ray itself."""
        return any(_is_in(name, "ray") for name in self.modules)

    @property
    def frameworks(self) -> list[str]:
        """Return the names in FRAMEWORKS that the script imports."""
        return [top for top in FRAMEWORKS if any(_is_in(name, top) for name in self.modules)]

    def uses(self, *modules: str) -> bool:
        """Return whether the script, or a module beside it, names one of these modules."""
        return any(_is_in(name, module) for name in self.modules for module in modules)

    @property
    def uses_ray_data(self) -> bool:
        """Return whether the script imports Ray Data, which in Ray's local mode serves one process alone."""
        return any(_is_in(name, "ray.data") for name in self.modules)


def recognise(path: Path, arguments: tuple[str, ...], kind: str = "auto", takes: Takes = IN_EVERY_ARM) -> Script:
    """Return the recognised script at `path`; `kind`: of KINDS, or `auto`. Raise ScriptError if not measurable."""
    if kind not in ("auto", *KINDS):
        raise ScriptError("kind", f"no script is of kind {kind!r}: allowed are auto, {', '.join(KINDS)}")
    tree = parsed(path)
    files: set[Path] = {path}
    modules = frozenset(_imports(path, tree, files))
    at_once, later = (_imports(path, tree, set(), of_file) for of_file in (_imported_at_once, _not_optional))
    kind_of_it = _kind(modules, _names(tree), arguments, kind)
    if kind == "auto" and kind_of_it == "torchrun" and _starts_ranks(modules, files):
        kind_of_it = "spawn"
    if kind_of_it == "other" and _is_plain(modules, arguments, takes):
        kind_of_it = "plain"
    script = Script(
        path=path, kind=kind_of_it, modules=modules, arguments=arguments, files=frozenset(files),
        loads=_loads(path, at_once), imports=_packages(path, at_once, files),
        imports_later=_packages(path, later, files) - _packages(path, at_once, files),
        asks_one_cpu=_lacks(tree, "resources_per_worker"), asks_no_gpu=_lacks(tree, "use_gpu"),
        most_cpus_asked=_most_cpus_asked(tree),
        trains_alone=kind_of_it != "torchrun" or _can_be_alone(modules, files),
    )  # fmt: skip
    _check_text(script, tree, takes)
    _check_arguments(script, takes)
    return script


def kind_by_imports(path: Path) -> Kind:
    """Return the kind of a script, even if it could have no arms. Raise ScriptError if it can't be parsed."""
    tree = parsed(path)
    try:
        modules = frozenset(_imports(path, tree, {path}))
    except ScriptError:  # a module next to it, of another Python, which it may never import
        modules = _of_file(tree, "")
    return _kind(modules, _names(tree), (), "auto")


def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a Python file. Raise ScriptError if the file can't be read or parsed."""
    try:
        _refuse_other_than_file(path)
        content = path.read_bytes()
    except OSError as error:  # no permission, a name too long
        raise ScriptError("script", f"{path} can't be read: {error.strerror}") from None
    try:
        return _tree(content, str(path))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:  # the last two: nested too deeply
        version = ".".join(map(str, sys.version_info[:2]))
        raise ScriptError("script", f"{path} is no Python {version}, with which it is read here: {error}") from None


def _trees(files: Collection[Path]) -> Iterator[ast.Module]:
    """Yield the syntax trees of the files that can be parsed. What the script imports was parsed before; its package
    may have other files, which nobody imports."""
    for path in files:
        with suppress(ScriptError):
            yield parsed(path)


def _refuse_other_than_file(path: Path) -> None:
    """Raise ScriptError, or OSError, if the path is not a file; the message names the Python files beside it."""
    if path.is_dir():
        raise ScriptError("script", f"{path} is a folder: name the file in it that trains")
    if path.suffix == ".ipynb":
        raise ScriptError("script", f"{path} is a notebook: `jupyter nbconvert --to script {quoted(str(path))}`")
    if not path.is_file():
        beside = sorted(file.name for file in path.parent.glob("*.py"))[:8] if path.parent.is_dir() else []
        neighbours = f"there are {', '.join(beside)}" if beside else "its folder holds no Python file"
        raise ScriptError("script", f"{path}: there is no such file; {neighbours}")


@cache
def _tree(source: bytes, name: str) -> ast.Module:
    """Return the syntax tree of a file, parsed once, because a preview asks several times what a script is. What is
    derived from the tree alone is cached, too."""
    return ast.parse(source, name)


def _kind(modules: frozenset[str], names: frozenset[str], arguments: tuple[str, ...], chosen: str) -> Kind:
    if chosen != "auto":
        return next(kind for kind in KINDS if kind == chosen)
    trainers = [kind for module, kind in TRAINERS.items() if any(_is_in(name, module) for name in modules)]
    if trainers:  # of several the one that the arguments name
        return next((kind for kind in trainers if kind.removeprefix("ray-") in arguments), trainers[0])
    if any(_is_in(name, "ray") for name in modules):
        return "other"
    if any(_is_in(name, module) for name in modules for module in BY_TORCHRUN):
        return "torchrun"
    if names & {"MultiWorkerMirroredStrategy", "TF_CONFIG"}:
        return "tf-config"
    return "other"


def _is_plain(modules: frozenset[str], arguments: tuple[str, ...], takes: Takes) -> bool:
    """Return whether nothing distributes a script for all arms: it has no {workers}, and does not import Ray."""
    has_workers = any("{workers}" in argument for argument in arguments)
    return not (takes.one_process or has_workers or any(_is_in(name, "ray") for name in modules))


def _starts_ranks(modules: frozenset[str], files: set[Path]) -> bool:
    """Return whether the script has torch.multiprocessing start its ranks, as PyTorch's tutorial does."""
    by_torch = any(_is_in(name, "torch.multiprocessing") for name in modules)
    return by_torch and any(_calls(tree, name) for tree in _trees(files) for name in ("spawn", "start_processes"))


def _can_be_alone(modules: frozenset[str], files: set[Path]) -> bool:
    """Return whether the script or its framework checks for other ranks, as far as its text tells."""
    if any(_is_in(name, module) for name in modules for module in ASK_THEMSELVES):
        return True
    return any(_asks_for_ranks(tree) for tree in _trees(files))


@cache
def _asks_for_ranks(tree: ast.Module) -> bool:
    return any(_asks(node) for node in ast.walk(tree))


def _asks(node: ast.AST) -> bool:
    """Return whether a node is like `os.environ.get("RANK", …)`, `os.getenv("RANK")` or `"RANK" in os.environ`."""
    if isinstance(node, ast.Compare):
        return any(isinstance(each, ast.In | ast.NotIn) for each in node.ops) and _is_rank_variable(node.left)
    if isinstance(node, ast.Call):
        return _last_name(node.func) in ("get", "getenv") and any(_is_rank_variable(each) for each in node.args[:1])
    return isinstance(node, ast.Attribute) and node.attr == "is_torchelastic_launched"


def _is_rank_variable(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in ("RANK", "WORLD_SIZE")


def _check_arguments(script: Script, takes: Takes) -> None:
    """Raise ScriptError if a placeholder is unknown, or if no argument tells a script its number of workers."""
    used = {name for argument in script.arguments for name in _PLACEHOLDER.findall(argument)}
    known = (*PLACEHOLDERS, *takes.placeholders)
    if unknown := used - set(known):
        raise ScriptError(
            "placeholder",
            f"the script's arguments have {{{sorted(unknown)[0]}}}, which nothing replaces: "
            f"allowed are {', '.join('{' + name + '}' for name in known)}",
        )
    if "workers" in used or script.kind in ("torchrun", "tf-config"):
        return
    if takes.one_process:
        _check_it_is_one(script)
    elif script.kind != "plain":
        who = WORDS[script.kind] if script.kind != "other" else f"{script.path.name}, which imports Ray,"
        raise ScriptError(
            "arguments",
            f"the script's arguments have no {{workers}}, and {who} takes the number of workers from "
            "them: every arm would be the same. Give the script such an argument: … --num-workers {workers}",
        )


def _check_it_is_one(script: Script) -> None:
    """Raise ScriptError if the script would start workers of its own, as many as its default is."""
    if script.kind not in ("plain", "other") or script.needs_ray:
        raise ScriptError(
            "arguments",
            f"the script's arguments have no {{workers}}, and {script.path.name} starts workers of its own: each run "
            "is one process, which it is with that number. Give the script such an argument: … --num-workers {workers}",
        )


def _lacks(tree: ast.Module, word: str) -> bool:
    """Return whether the script makes a ScalingConfig without this keyword, as far as its text tells."""
    calls = _calls(tree, "ScalingConfig")
    return any({None, word}.isdisjoint(keyword.arg for keyword in call.keywords) for call in calls)


@cache
def _calls(tree: ast.Module, name: str) -> tuple[ast.Call, ...]:
    """Return the calls of what has the last name `name`, as `train.ScalingConfig` for `ScalingConfig`."""
    return tuple(node for node in ast.walk(tree) if isinstance(node, ast.Call) and _last_name(node.func) == name)


@cache
def _most_cpus_asked(tree: ast.Module) -> float:
    """Return the largest number of CPUs in the script's `resources_per_worker={"CPU": 2}`; 0 if none is a number."""
    entries = [
        pair
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword) and node.arg == "resources_per_worker" and isinstance(node.value, ast.Dict)
        for pair in zip(node.value.keys, node.value.values, strict=True)
    ]
    numbers = [
        value.value
        for key, value in entries
        if isinstance(key, ast.Constant) and key.value == "CPU" and isinstance(value, ast.Constant)
    ]
    return max((float(number) for number in numbers if isinstance(number, (int, float))), default=0)


def _check_text(script: Script, tree: ast.Module, takes: Takes) -> None:
    for call in _calls(tree, "ScalingConfig"):
        values = {word.arg: word.value for word in call.keywords if word.arg}
        workers, gpu = values.get("num_workers"), values.get("use_gpu")
        where = f"{script.path.name}, line {call.lineno}"
        if isinstance(workers, ast.Constant) and isinstance(workers.value, int):
            raise ScriptError(
                "script",
                f"{where}: num_workers={workers.value} is written into the script, so every arm would be the same. "
                "Take it from an argument (num_workers=args.num_workers) and give the script that: "
                "… --num-workers {workers}",
            )
        if isinstance(gpu, ast.Constant) and gpu.value is True and not takes.gpus:
            raise ScriptError(
                "script",
                f"{where}: use_gpu=True asks for a GPU, and no arm is given one: Ray would wait for it for ever. "
                "Make it an argument, or use_gpu=torch.cuda.is_available(); the setting workerGpus gives each worker "
                "one",
            )


def _imports(
    path: Path,
    tree: ast.Module,
    files: set[Path],
    of_file: Callable[[ast.Module, str], Collection[str]] | None = None,
) -> set[str]:
    """Return the dotted names that the script and its neighbours (the modules beside it) import, and add the neighbours
    to `files`. `of_file` returns the names of one file that count, by which neighbours are found, too; None means all
    names."""
    of_file = of_file or _of_file
    names = set(of_file(tree, ""))
    todo, followed = sorted(names), {path}
    while todo:
        for neighbour, package in _neighbours(path.parent, todo.pop(), files):
            if neighbour not in followed:
                followed.add(neighbour)
                new_names = set(of_file(parsed(neighbour), package)) - names
                names |= new_names
                todo += sorted(new_names)
    return names


@cache
def _of_file(tree: ast.Module, package: str) -> frozenset[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        names |= _imported(node, package)
        if isinstance(node, ast.Attribute):  # `import ray.train` reaches ray.train.torch by its attribute
            names.add(ast.unparse(node))
    return frozenset(names)


def _neighbours(top: Path, name: str, files: set[Path]) -> Iterator[tuple[Path, str]]:
    """Yield the files beside the script that a dotted name loads; add them, and all of a package, to `files`."""
    parts = name.split(".")
    if not all(part.isidentifier() for part in parts):  # an attribute of something else than a name
        return
    first = top / parts[0]
    if not (first.is_dir() or first.with_suffix(".py").is_file()):
        return
    if (first / "__init__.py").is_file():
        files.update(first.rglob("*.py"))
    for number in range(1, len(parts) + 1):
        module = top.joinpath(*parts[:number])
        if (module / "__init__.py").is_file():
            files.add(module / "__init__.py")
            yield module / "__init__.py", ".".join(parts[:number])
        elif module.with_suffix(".py").is_file() and not module.is_dir():
            files.add(module.with_suffix(".py"))
            yield module.with_suffix(".py"), ".".join(parts[: number - 1])


def _imported(node: ast.AST, package: str = "") -> set[str]:
    """Return the dotted names that one statement imports; `package` is the package of the statement's file."""
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    if not isinstance(node, ast.ImportFrom):
        return set()
    above = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level and package else []
    if node.level and not above:
        return set()
    module = ".".join([*above, *([node.module] if node.module else [])])
    return {module, *(f"{module}.{alias.name}" for alias in node.names)}


def _loads(path: Path, names: set[str]) -> frozenset[str]:
    """Return the frameworks among `names`, and those that Ray's modules among them need."""
    trained = {top for module in TRAINERS if any(_is_in(name, module) for name in names) for top in _loaded_by(module)}
    return frozenset(_not_beside(path, names) & set(FRAMEWORKS) | trained)


def _packages(path: Path, names: set[str], files: set[Path]) -> frozenset[str]:
    """Return the modules among `names` that packages bring; empty if the script may search folders of its own."""
    if any(_FINDS_MODULES.search(name) for tree in _trees(files) for name in _of_file(tree, "")):
        return frozenset()
    return frozenset(_not_beside(path, names) - sys.stdlib_module_names - _OF_PYTHON)


@cache
def _imported_at_once(tree: ast.Module, package: str) -> set[str]:
    """Return dotted names of imports that are not in a function, a condition or a `try`."""
    return {name for node in tree.body for name in _imported(node, package)}


@cache
def _not_optional(tree: ast.AST, package: str) -> set[str]:
    """Return the names of all imports but optional ones, whose `try` goes on without them, and type checkers'."""
    names = _imported(tree, package)
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.Try) and any(_is_for_imports(handler.type) for handler in child.handlers):
            continue
        if isinstance(child, ast.With) and any(_suppresses_imports(item.context_expr) for item in child.items):
            continue
        if not (isinstance(child, ast.If) and _last_name(child.test) == "TYPE_CHECKING"):
            names |= _not_optional(child, package)
    return names


def _is_for_imports(kind: ast.expr | None) -> bool:
    """Return whether an `except` of this class, or of these classes, catches a failed import."""
    caught = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return any(each is None or _last_name(each) in _OF_IMPORTS for each in caught)


def _suppresses_imports(context: ast.expr) -> bool:
    """Return whether the context manager is a `suppress(ImportError)`."""
    is_call = isinstance(context, ast.Call) and _last_name(context.func) == "suppress"
    return isinstance(context, ast.Call) and is_call and any(map(_is_for_imports, context.args))


def _not_beside(path: Path, names: set[str]) -> set[str]:
    """Return the first parts of the dotted names, without names of files and folders next to the script."""
    first = {name.partition(".")[0] for name in names if name}
    return {name for name in first if not ((path.parent / name).is_dir() or any(path.parent.glob(f"{name}.*")))}


def _loaded_by(trainer: str) -> tuple[str, ...]:
    """Return the frameworks that one of Ray's modules in TRAINERS needs."""
    return RLLIB_LOADS if trainer == "ray.rllib" else (trainer.rpartition(".")[2],)


@cache
def _names(tree: ast.Module) -> frozenset[str]:
    """Return all names, attributes and string constants in the script."""
    nodes = list(ast.walk(tree))
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return frozenset(attributes | names | texts)


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_in(name: str, module: str) -> bool:
    return f"{name}.".startswith(f"{module}.")
