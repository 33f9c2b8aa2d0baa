"""Who may import whom: the table in CONTRIBUTING is the rule, and nothing in it is untrue. The reasons: docs/adr."""

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| `([\w./]+)` \| .* \| ([^|]+) \|$", re.MULTILINE)
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
    text = (PROJECT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = {room: re.findall(r"`([\w./]+)`", allowed) for room, allowed in ROW.findall(text)}
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
def imports(path: Path, *, at_module_level: bool = False) -> frozenset[str]:
    """The modules that a file imports, by their dotted names; optionally only when it is itself imported."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(_names(tree, at_module_level=at_module_level))


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
        if name in seen:
            continue
        seen.add(name)
        for path in (PROJECT / f"{name.replace('.', '/')}.py", PROJECT / name.replace(".", "/") / "__init__.py"):
            if path.is_file():
                pending += imports(path, at_module_level=True)
    return seen


def tops(names: frozenset[str] | set[str]) -> set[str]:
    """The packages that dotted names are in."""
    return {name.partition(".")[0] for name in names}


FILES = files()
IDS = [str(path.relative_to(PROJECT)) for path in FILES]


def in_room(*rooms: str) -> list[Path]:
    """Modules of these rooms and of the rooms inside them."""
    return [path for path in FILES if any(f"{module_of(path)}.".startswith(f"{room}.") for room in rooms)]


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_a_module_imports_what_the_table_allows_its_room(path: Path) -> None:
    """At module level, in a function, or for a type: every way counts."""
    room = room_of(module_of(path))
    assert room is not None
    used = {other for name in imports(path) if (other := room_of(name)) is not None and other != room}

    assert set() == used - TABLE[room]


def test_the_table_is_true() -> None:
    """Each room exists, and each permission is used: one that nobody needs is taken away."""
    used: dict[str, set[str]] = {room: set() for room in TABLE}
    for path in FILES:
        room = room_of(module_of(path))
        assert room is not None
        used[room] |= {other for name in imports(path) if (other := room_of(name)) is not None} - {room}

    assert used == TABLE
    assert [] == [room for room in TABLE if not (PROJECT / room.replace(".", "/")).exists() and room != "__main__"]


def test_the_rooms_of_the_program_have_floors() -> None:
    """No room imports one that imports it, over however many others: each can be read after those below it."""
    rooms = {room: {other for other in allowed if other.startswith("infra")} for room, allowed in TABLE.items()}
    order = list(TopologicalSorter({room: rooms[room] for room in rooms if room.startswith("infra")}).static_order())

    assert ("infra.settings", "infra.places") == (order[0], order[-1])


@pytest.mark.parametrize("path", in_room(*PURE), ids=lambda path: str(path.relative_to(PROJECT)))
def test_what_all_share_imports_the_standard_library_alone(path: Path) -> None:
    """Through whatever it imports: the program reads it at every preview, and pods before TensorFlow is set up."""
    outside = {name for name in reached(module_of(path)) if name.partition(".")[0] not in sys.stdlib_module_names}

    assert set() == {name for name in outside if not name.startswith(("training", "compare"))}


@pytest.mark.parametrize("path", in_room("compare"), ids=lambda path: path.name)
def test_the_comparison_is_pure(path: Path) -> None:
    """It reads no file, runs nothing and prints nothing."""
    assert not {"os", "pathlib", "subprocess", "sys", "time"} & tops(imports(path))


@pytest.mark.parametrize("path", in_room("infra"), ids=lambda path: str(path.relative_to(PROJECT)))
def test_the_program_never_loads_what_trains(path: Path) -> None:
    """Through whatever it imports: a preview takes seconds because of it."""
    assert not {"tensorflow", "tf_keras", "ray", "numpy"} & tops(reached(module_of(path)))


@pytest.mark.parametrize("path", in_room("training"), ids=lambda path: str(path.relative_to(PROJECT)))
def test_what_runs_knows_nothing_of_the_program(path: Path) -> None:
    """Pods use it unchanged, without Pulumi; and only what trains imports TensorFlow, only the arms with Ray Ray."""
    assert not {"pulumi", "infra", "report", "cli", "policy", "compare"} & tops(imports(path))
    assert "tensorflow" not in tops(imports(path, at_module_level=True)) or path.stem in TENSORFLOW
    assert "ray" not in tops(imports(path)) or path.stem in RAY


@pytest.mark.parametrize("module", ["training.ray", "training.launch.ray.driver", "training.launch.ray.recovery"])
def test_the_ray_arm_uses_public_names_of_ray_alone(module: str) -> None:
    """What a reader of its documentation would write."""
    names = imports(PROJECT / f"{module.replace('.', '/')}.py")
    of_ray = {name for name in names if name.partition(".")[0] == "ray"}

    assert [] == [name for name in of_ray if any(part.startswith("_") for part in name.split("."))]


@pytest.mark.parametrize("path", in_room("infra"), ids=lambda path: str(path.relative_to(PROJECT)))
def test_only_settings_read_the_configuration(path: Path) -> None:
    """One reader; and exports are `__main__.py`'s."""
    text = path.read_text(encoding="utf-8")

    assert "pulumi.Config(" not in text or path == PROJECT / "infra/settings/settings.py"
    assert "pulumi.export(" not in text


@pytest.mark.parametrize(
    "path",
    [*sorted((PROJECT / "infra").rglob("*spec.py")), *in_room("infra.places.cluster.manifests")],
    ids=lambda path: path.name,
)
def test_builders_are_pure(path: Path) -> None:
    """Plain dicts in, plain dicts out."""
    assert "pulumi" not in tops(imports(path))


def test_the_program_is_a_table_of_contents() -> None:
    """At most 40 lines."""
    assert len((PROJECT / "__main__.py").read_text(encoding="utf-8").splitlines()) <= 40
