"""Who may import whom: `imports.toml` is the rule, and nothing in it is untrue. The reasons: docs/adr."""

import ast
import gc
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
TENSORFLOW = {"checkpoints", "summary", "dataset", "loop", "model", "train"}
RAY = {
    "ray_alone",
    "driver",
    "memory_kills",
    "node_packages",
    "recovery",
    "under_ray",
    "submit",
    "ray_store",
    "with_population",
    "with_tune",
}
PURE = ("training.contract", "training.machine", "compare")
"""What is read at every preview, in pods, and by every tool: the standard library alone when it is imported."""


def table() -> dict[str, set[str]]:
    """Rooms by dotted name, each with the rooms that it may import."""
    rows = tomllib.loads(Path(__file__).with_name("imports.toml").read_text(encoding="utf-8"))
    return {_dotted(room): {_dotted(name) for name in allowed} for room, allowed in rows.items()}


def _dotted(room: str) -> str:
    return room.removesuffix(".py").replace("/", ".")


TABLE = table()


def files() -> list[Path]:
    """Every module of the project but tests."""
    tops = sorted({room.partition(".")[0] for room in TABLE} - {"__main__"})
    return [PROJECT / "__main__.py", *(path for top in tops for path in sorted((PROJECT / top).rglob("*.py")))]


def module_of(path: Path) -> str:
    """Its dotted name; a package's is that of its folder."""
    return _dotted(str(path.relative_to(PROJECT))).removesuffix(".__init__")


def room_of(module: str) -> str | None:
    """The innermost room of the table that a module is in; None for one of another project."""
    parts = module.split(".")
    prefixes = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((prefix for prefix in prefixes if prefix in TABLE), None)


@cache
def parsed(path: Path) -> ast.Module:
    """The tree of a file, for every test that reads the project's own text.

    Trees hold no circles, and the collector would look at all of them again after every few files.
    """
    gc.disable()
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    finally:
        gc.enable()


@cache
def imports(path: Path, *, at_module_level: bool = False) -> frozenset[str]:
    """The modules that a file imports, by their dotted names; optionally only when it is itself imported."""
    return frozenset(_names(parsed(path), at_module_level=at_module_level))


def _names(node: ast.AST, *, at_module_level: bool) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module:
            yield from (_module(child.module, alias.name) for alias in child.names)
        elif at_module_level and isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        elif not (at_module_level and isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)):
            yield from _names(child, at_module_level=at_module_level)


def _module(package: str, name: str) -> str:
    """What `from package import name` imports: a module of that name, or the package itself."""
    inner = PROJECT / package.replace(".", "/") / name
    return f"{package}.{name}" if inner.is_dir() or inner.with_suffix(".py").is_file() else package


def reached(module: str) -> set[str]:
    """The modules that importing `module` imports, itself included; those of other projects by name alone."""
    seen: set[str] = set()
    pending = [module]
    while pending:
        name = pending.pop()
        if name not in seen:
            seen.add(name)
            pending += _imported_by(name)
    return seen


@cache
def _imported_by(module: str) -> frozenset[str]:
    path = PROJECT / module.replace(".", "/")
    files = [file for file in (path.with_name(f"{path.name}.py"), path / "__init__.py") if file.is_file()]
    return frozenset().union(*(imports(file, at_module_level=True) for file in files))


def tops(names: frozenset[str] | set[str]) -> set[str]:
    """The packages that dotted names are in."""
    return {name.partition(".")[0] for name in names}


FILES = files()


def in_room(*rooms: str) -> list[Path]:
    """Modules of these rooms and of the rooms inside them."""
    return [path for path in FILES if any(f"{module_of(path)}.".startswith(f"{room}.") for room in rooms)]


def refused(paths: Sequence[Path], what: Callable[[Path], set[str]]) -> dict[str, set[str]]:
    """What a rule refuses of these files, by file; empty if all keep it."""
    assert paths
    return {str(path.relative_to(PROJECT)): names for path in paths if (names := what(path))}


def test_a_module_imports_what_the_table_allows_its_room() -> None:
    """At module level, in a function, or for a type: every way counts."""

    def not_allowed(path: Path) -> set[str]:
        room = room_of(module_of(path))
        assert room is not None, path
        return {other for name in imports(path) if (other := room_of(name)) is not None and other != room} - TABLE[room]

    assert {} == refused(FILES, not_allowed)


def test_the_table_is_true() -> None:
    """Each room exists, and each permission is used: one that nobody needs is taken away."""
    used: dict[str, set[str]] = {room: set() for room in TABLE}
    for path in FILES:
        room = room_of(module_of(path))
        assert room is not None
        used[room] |= {other for name in imports(path) if (other := room_of(name)) is not None} - {room}

    assert used == TABLE
    assert [] == [room for room in TABLE if not (PROJECT / room.replace(".", "/")).exists() and room != "__main__"]


def test_contributing_says_what_rooms_hold() -> None:
    """In its first table; of those alone that there are."""
    page = (PROJECT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    first = page.partition("| folder | holds |\n")[2].partition("\n\n")[0]
    rooms = {_dotted(room) for room in re.findall(r"^\| `([\w./]+)` \|", first, re.MULTILINE)}

    assert rooms
    assert set() == rooms - TABLE.keys()


def test_the_rooms_of_the_program_have_floors() -> None:
    """No room imports one that imports it, over however many others: each can be read after those below it."""
    rooms = {room: {other for other in allowed if other.startswith("infra")} for room, allowed in TABLE.items()}
    order = list(TopologicalSorter({room: rooms[room] for room in rooms if room.startswith("infra")}).static_order())

    assert ("infra.settings", "infra.places") == (order[0], order[-1])


def reaches(*names: str) -> Callable[[Path], set[str]]:
    """A rule that refuses these packages, through whatever a file imports."""
    return lambda path: {*names} & tops(reached(module_of(path)))


def imports_one_of(*names: str) -> Callable[[Path], set[str]]:
    """A rule that refuses these packages, as imports of the file itself."""
    return lambda path: {*names} & tops(imports(path))


KNOWN = sys.stdlib_module_names | {"training", "compare"}
RULES: dict[str, tuple[list[Path], Callable[[Path], set[str]]]] = {
    # The program reads it at every preview, and pods before TensorFlow is set up
    "what all share imports the standard library alone": (
        in_room(*PURE),
        lambda path: tops(reached(module_of(path))) - KNOWN,
    ),
    "the comparison reads no file, runs nothing and prints nothing": (
        in_room("compare"),
        imports_one_of("os", "pathlib", "subprocess", "sys", "time"),
    ),
    # A preview takes seconds because of it
    "the program never loads what trains": (in_room("infra"), reaches("tensorflow", "tf_keras", "ray", "numpy")),
    # Plain dicts in, plain dicts out
    "builders are pure": (
        [*(PROJECT / "infra").rglob("*spec.py"), *in_room("infra.places.cluster.manifests")],
        imports_one_of("pulumi"),
    ),
    # Pods use it unchanged
    "what runs knows nothing of the program": (
        in_room("training"),
        imports_one_of("pulumi", "infra", "report", "cli", "policy", "compare"),
    ),
    "only what trains imports TensorFlow": (
        [path for path in in_room("training") if path.stem not in TENSORFLOW],
        lambda path: {"tensorflow"} & tops(imports(path, at_module_level=True)),
    ),
    "only the arms with Ray import Ray": (
        [path for path in in_room("training") if path.stem not in RAY],
        imports_one_of("ray"),
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_nothing_imports_what_its_room_is_to_do_without(rule: str) -> None:
    """By files that there are."""
    paths, refuses = RULES[rule]

    assert paths
    assert {} == refused(paths, refuses)


@pytest.mark.parametrize("module", ["training.ray", "training.launch.ray.driver", "training.launch.ray.recovery"])
def test_the_ray_arm_uses_public_names_of_ray_alone(module: str) -> None:
    """What a reader of its documentation would write."""
    names = imports(PROJECT / f"{module.replace('.', '/')}.py")
    of_ray = {name for name in names if name.partition(".")[0] == "ray"}

    assert [] == [name for name in of_ray if any(part.startswith("_") for part in name.split("."))]


def test_only_settings_read_the_configuration() -> None:
    """One reader; and exports are `__main__.py`'s."""

    def used(path: Path) -> set[str]:
        return {call for call in ("pulumi.Config(", "pulumi.export(") if call in path.read_text(encoding="utf-8")}

    assert {"infra/settings/settings.py": {"pulumi.Config("}} == refused(in_room("infra"), used)


def test_the_program_is_a_table_of_contents() -> None:
    """At most 40 lines."""
    assert len((PROJECT / "__main__.py").read_text(encoding="utf-8").splitlines()) <= 40
