"""Who may import whom: the table in CONTRIBUTING, and the reasons in docs/adr."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
CONTRACT = {
    "cgroup",
    "arms",
    "clock",
    "config",
    "emit",
    "environment",
    "machine_lock",
    "peers",
    "ports",
    "progress",
    "provenance",
    "registry",
    "result",
    "rules",
    "schedule",
    "topology",
    "versions",
}
"""Modules of `training` that everybody may read: standard library only."""
TENSORFLOW = {"account", "dataset", "loop", "model", "train"}
RAY = {"ray", "ray_driver", "tuned", "tuned_trainer", "submit"}


def imports(path: Path, *, at_module_level: bool = False) -> set[str]:
    """The dotted names that a file imports; optionally only those it imports when it is itself imported."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return set(_names(tree, at_module_level=at_module_level))


def _names(node: ast.AST, *, at_module_level: bool) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module:
            yield from (child.module, *(f"{child.module}.{alias.name}" for alias in child.names))
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        elif not (at_module_level and isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)):
            yield from _names(child, at_module_level=at_module_level)


def tops(names: set[str]) -> set[str]:
    """The packages that dotted names are in."""
    return {name.partition(".")[0] for name in names}


def modules(folder: str) -> list[Path]:
    """The Python files of a folder, also below it."""
    return sorted((PROJECT / folder).rglob("*.py"))


def named(paths: list[Path]) -> list[str]:
    """Test ids."""
    return [str(path.relative_to(PROJECT)) for path in paths]


@pytest.mark.parametrize("path", modules("training"), ids=named(modules("training")))
def test_training_knows_neither_pulumi_nor_infra(path: Path) -> None:
    """What runs is used unchanged in a pod, without the program."""
    assert not {"pulumi", "infra", "report", "tools", "policy", "compare"} & tops(imports(path))


@pytest.mark.parametrize("path", modules("compare"), ids=named(modules("compare")))
def test_the_comparison_is_pure(path: Path) -> None:
    """Itself, the standard library and training's contract; it reads no file, runs nothing and prints nothing."""
    used = imports(path)
    outside = {name for name in tops(used) if name not in sys.stdlib_module_names}

    assert outside <= {"compare", "training"}
    assert {name.split(".")[1] for name in used if name.startswith("training.")} <= CONTRACT
    assert not {"os", "pathlib", "subprocess", "sys", "time"} & tops(used)


@pytest.mark.parametrize("name", sorted(CONTRACT))
def test_contract_modules_import_the_standard_library_only(name: str) -> None:
    """The program reads them at every preview."""
    path = PROJECT / "training" / f"{name}.py"
    outside = {n for n in imports(path, at_module_level=True) if n.partition(".")[0] not in sys.stdlib_module_names}

    assert {n for n in outside if not n.startswith("training.")} <= {"training"}
    assert {n.split(".")[1] for n in outside if n.count(".") == 1} <= CONTRACT


@pytest.mark.parametrize("path", modules("infra"), ids=named(modules("infra")))
def test_infra_imports_nothing_of_training_but_the_contract(path: Path) -> None:
    """Least of all TensorFlow."""
    used = {name.split(".")[1] for name in imports(path) if name.startswith("training.")}

    assert used <= CONTRACT
    assert not {"tensorflow", "ray", "numpy"} & tops(imports(path))


@pytest.mark.parametrize("path", modules("training"), ids=named(modules("training")))
def test_only_what_trains_imports_tensorflow_and_only_the_ray_arm_ray(path: Path) -> None:
    """At module level: a data set or a model imports what it needs inside its function."""
    top = tops(imports(path, at_module_level=True))

    assert "tensorflow" not in top or path.stem in TENSORFLOW
    assert "ray" not in tops(imports(path)) or path.stem in RAY


@pytest.mark.parametrize("name", ["ray", "ray_driver"])
def test_the_ray_arm_uses_public_names_of_ray_alone(name: str) -> None:
    """What a reader of its documentation would write; the tuned arm is the place for anything else."""
    path = PROJECT / "training" / f"{name}.py"
    of_ray = {found for found in imports(path) if found.partition(".")[0] == "ray"}

    assert [] == [found for found in of_ray if any(part.startswith("_") for part in found.split("."))]
    assert not {"training.tuned", "training.tuned_trainer", "training.tuned_priority"} & imports(path)


@pytest.mark.parametrize("path", modules("infra"), ids=named(modules("infra")))
def test_only_settings_read_the_configuration(path: Path) -> None:
    """One reader; and exports are `__main__.py`'s."""
    text = path.read_text(encoding="utf-8")

    assert "pulumi.Config(" not in text or path.name == "settings.py"
    assert "pulumi.export(" not in text


@pytest.mark.parametrize("path", sorted((PROJECT / "infra").glob("*_spec.py")), ids=lambda path: path.name)
def test_builders_are_pure(path: Path) -> None:
    """Plain dicts in, plain dicts out."""
    assert "pulumi" not in tops(imports(path))


@pytest.mark.parametrize("path", modules("policy"), ids=named(modules("policy")))
def test_policy_shares_nothing_with_what_it_judges(path: Path) -> None:
    """A rule that reads the builders' constants would change with them."""
    assert not {"compare", "infra", "training", "report", "tools"} & tops(imports(path))


@pytest.mark.parametrize("path", modules("tools") + modules("report"), ids=named(modules("tools") + modules("report")))
def test_infra_and_training_are_not_bound_to_their_users(path: Path) -> None:
    """tools/ and report/ read; nobody imports them but themselves."""
    for folder in ("infra", "training"):
        for user in modules(folder):
            assert f"{path.parent.name}.{path.stem}" not in imports(user)


def test_the_program_is_a_table_of_contents() -> None:
    """At most 40 lines."""
    assert len((PROJECT / "__main__.py").read_text(encoding="utf-8").splitlines()) <= 40
