"""Whether a command of the documents can work in this project as it is: its options, keys, values, modules and paths.

`problems` says what is wrong; nothing is run here, so this holds for commands that need a cluster or minutes, too.
"""

import contextlib
import io
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from cli.door import parse
from cli.setup.project import SMOKE, ToolError
from cli.sweep import plan as sweep_plan
from infra.settings.table import every_key
from tests.docs.markdown import ROOT
from training.contract.arms import ARMS
from training.launch import entry

MADE = (".state", ".tools", ".venv", "runs", "results", "data")
"""Folders that are not in git: paths into them may be absent."""
VERBS: dict[str, dict[str, set[str]]] = {
    "pulumi": {
        "cancel": set(),
        "config": {"", "get", "rm", "set", "set-all"},
        "destroy": set(),
        "install": set(),
        "login": set(),
        "new": set(),
        "plugin": {"install", "ls"},
        "preview": set(),
        "refresh": set(),
        "stack": {"", "export", "graph", "history", "init", "ls", "output", "rename", "rm", "select"},
        "up": set(),
        "version": set(),
    },
    "kubectl": {
        verb: set()
        for verb in (
            "auth",
            "cluster-info",
            "config",
            "describe",
            "exec",
            "explain",
            "get",
            "logs",
            "patch",
            "port-forward",
            "top",
            "version",
        )
    },
    "minikube": {
        verb: set() for verb in ("delete", "image", "ip", "logs", "node", "profile", "ssh", "start", "status", "stop")
    },
    "ray": {"job": {"list", "logs", "status", "stop"}, "list": {"actors", "nodes", "tasks"}, "status": set()},
    "uv": {"lock": set(), "pip": {"install"}, "python": {"install", "list"}, "sync": set(), "venv": set()},
}
"""Subcommands that the documents may use; an empty set: nothing is said about what follows."""
PLAIN = frozenset(
    {
        *("awk", "base64", "cat", "cd", "cp", "curl", "diff", "dmesg", "docker", "echo", "eval", "export", "free"),
        *(
            "git",
            "go",
            "grep",
            "head",
            "helm",
            "sha256sum",
            "ls",
            "mkdir",
            "nproc",
            "ps",
            "rm",
            "sed",
            "sort",
            "tail",
            "tar",
            "top",
            "uniq",
            "wc",
        ),
    }
)
OWN_STACKS = ("mine", "train", "search-best")
"""Stacks whose file a document has its reader make, and that `rwi try --write` names after a script."""
SEPARATORS = frozenset({"&&", "||", "|", ";", "&", "(", ")", "$"})
SUFFIXES = (".md", ".py", ".yaml", ".toml", ".lock")

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_SUBSTITUTION = re.compile(r"\$\(([^()]*(?:\([^()]*\)[^()]*)*)\)")
_TRAINING = {f"training.{arm}": arm for arm in ARMS}


def problems(text: str) -> list[str]:
    """What is wrong with a command line; empty when all of it is known."""
    try:
        simple = list(_simple_commands(text))
    except ValueError as error:
        return [f"it is no shell command ({error})"]
    nested = [found for inner in _SUBSTITUTION.findall(text) for found in problems(inner)]
    return nested + [problem for words in simple for problem in _simple(words)]


def _simple_commands(text: str) -> Iterator[list[str]]:
    """The words of each command of a line, redirections left out."""
    lexer = shlex.shlex(_SUBSTITUTION.sub("SUBSTITUTED", text), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    redirected = False
    for word in lexer:
        if redirected:
            redirected = False
        elif word in SEPARATORS:
            yield from [words] if words else []
            words = []
        elif set(word) <= set("<>&") and word:
            redirected = True
        else:
            words.append(word)
    yield from [words] if words else []


def _simple(words: list[str]) -> list[str]:
    variables: dict[str, str] = {}
    while words and (given := _ASSIGNMENT.fullmatch(words[0])):
        variables[given[1]] = given[2]
        words = words[1:]
    if not words:
        return []
    program, *arguments = words
    name = program.removeprefix(".venv/bin/")
    check = _CHECKS.get(name)
    if check is None and name not in PLAIN and not name.startswith("$"):
        return [f"{program} is no program that the documents use: see tests/docs/known.py"]
    found = check(arguments, variables) if check else []
    return found + missing_paths(arguments)


def missing_paths(words: list[str]) -> list[str]:
    """The words that name something of this project that is not there."""
    return [f"{word} is not in the project" for word in words if not _is_there(word)]


def _is_there(word: str) -> bool:
    """Whether a word is no path into the project, or one that exists; a bare file name may be in any of its folders."""
    path = word.rpartition("=")[2].rstrip("/")
    first, _, rest = path.partition("/")
    if not re.fullmatch(r"[\w.*-]+(?:/[\w.*-]+)*", path) or first in (*MADE, ".."):
        return True
    if path in {f"stacks/Pulumi.{stack}.yaml" for stack in OWN_STACKS} or f"{path}/".startswith("examples/.venv/"):
        return True
    if rest:
        return not (ROOT / first).is_dir() or any(ROOT.glob(path))
    return Path(path).suffix not in SUFFIXES or "*" in path or any(ROOT.glob(path)) or any(ROOT.glob(f"[!.]*/{path}"))


def _rwi(arguments: list[str], _: dict[str, str]) -> list[str]:
    """What the parser of the commands says; then whether stacks, settings and their values are known."""
    if "--help" in arguments or "-h" in arguments:
        return []
    try:
        given = parse(arguments).params
    except click.exceptions.NoArgsIsHelpError:
        return []
    except click.UsageError as error:
        is_name = isinstance(error, click.MissingParameter) and all(word.isalpha() for word in arguments)
        return [] if is_name else [error.format_message()]
    assignments = given.get("assignments") or {}
    found = _axes(assignments) if arguments[0] == "sweep" else _changes(assignments)
    return [*found, *_stack(given.get("stack") or "local"), *_changes(given.get("settings") or {})]


def _uvx(arguments: list[str], variables: dict[str, str]) -> list[str]:
    """The wheel's program, from a file or an index; then the same as in a clone, but for its own option."""
    words = arguments[2:] if arguments[:1] == ["--from"] else arguments
    if words[:1] not in (["rwi"], ["ray-worth-it"]):
        return [f"uvx runs {' '.join(words[:1]) or 'nothing'}, which is not of the wheel"]
    return _rwi(words[3:] if words[1:2] == ["--home"] else words[1:], variables)


def _stack(name: str) -> list[str]:
    stack = name.removeprefix("sweep-")
    if stack in (SMOKE, *OWN_STACKS) or (ROOT / f"stacks/Pulumi.{stack}.yaml").is_file():
        return []
    return [f"there is no stacks/Pulumi.{stack}.yaml"]


def _axes(typed: dict[str, str]) -> list[str]:
    try:
        axes = sweep_plan.parse_axes(typed)
    except ToolError as error:
        return [str(error)]
    return [problem for key, values in axes.items() for value in values for problem in wrong_value(key, value)]


def _changes(values: dict[str, str]) -> list[str]:
    """What is wrong with assignments; an empty value removes a setting."""
    changes = [(key, value) for key, value in values.items() if value or key not in every_key()]
    return [problem for key, value in changes for problem in wrong_value(key, value)]


def wrong_value(key: str, value: str) -> list[str]:
    """Why a setting cannot have this value, by its own rule."""
    if key not in every_key():
        return [f"{key} is no setting"]
    try:
        every_key()[key].rule.parse(value)
    except ValueError:
        return [f"{key} = {value}: allowed is {every_key()[key].rule.allowed}"]
    return []


def _pulumi(arguments: list[str], _: dict[str, str]) -> list[str]:
    found = _verbs("pulumi", arguments)
    end = arguments.index("--") if "--" in arguments else len(arguments)  # of flags
    words = [word for word in arguments[:end] if not word.startswith("-")] + arguments[end + 1 :]
    if words[:2] == ["config", "set"]:
        found += wrong_value(words[2], words[3]) if len(words) == 4 else []
        is_asked_for = "--secret" in arguments  # Pulumi asks for the value then
        found += ["a key and a value are needed"] if len(words) == 3 and not is_asked_for else []
    if words[:2] in (["config", "rm"], ["config", "get"]):
        found += [f"{key} is no setting" for key in words[2:] if key not in every_key()]
    return found


def _verbs(program: str, arguments: list[str]) -> list[str]:
    words = [word for word in arguments if not word.startswith("-")]
    verb = words[0] if words else ""
    if verb not in VERBS[program]:
        return [f"{program} {verb} is no command that the documents use: see tests/docs/known.py"]
    below = VERBS[program][verb]
    second = words[1] if len(words) > 1 else ""
    return [] if not below or second in below else [f"{program} {verb} has no command {second!r}"]


def _python(arguments: list[str], _: dict[str, str]) -> list[str]:
    if arguments[:1] != ["-m"]:
        return [] if arguments[:1] == ["-c"] else missing_paths(arguments[:1])
    module, *flags = arguments[1:]
    if module in ("json.tool", "http.server", "venv"):
        return []
    path = ROOT.joinpath(*module.split("."))
    if not path.with_suffix(".py").is_file() and not (path / "__main__.py").is_file():
        return [f"there is no module {module} to run"]
    return _flags(_TRAINING[module], flags) if module in _TRAINING else []


def _flags(arm: str, flags: list[str]) -> list[str]:
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            entry.parse(arm, None, flags)
    except SystemExit as ended:
        return [] if ended.code == 0 else [said.getvalue().strip().splitlines()[-1]]
    return []


_CHECKS: dict[str, Callable[[list[str], dict[str, str]], list[str]]] = {
    "./rwi": _rwi,
    "pulumi": _pulumi,
    "python": _python,
    "python3": _python,
    "kubectl": lambda words, _: _verbs("kubectl", words),
    "minikube": lambda words, _: _verbs("minikube", words),
    "ray": lambda words, _: _verbs("ray", words),
    "uv": lambda words, _: _verbs("uv", words),
    "uvx": _uvx,
}
