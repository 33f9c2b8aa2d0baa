"""Which files a run loads, in a project of the test's own that changes while this process goes on."""

from pathlib import Path

from training.contract import provenance


def modules(project: Path, *names: str) -> list[str]:
    """What `names` load, without the folder."""
    return [str(path.relative_to(project)) for path in provenance.modules_of(names, project)]


def test_an_edit_between_two_plans_of_one_process_is_seen(tmp_path: Path) -> None:
    """A new import, a new file, other code, and a file that is gone: nothing of an earlier look is kept."""
    folder = tmp_path / "training"
    folder.mkdir()
    (folder / "one.py").write_text("import training.two\n")
    before, code = modules(tmp_path, "training.one"), provenance.code_hash("one", "cnn", tmp_path)

    (folder / "two.py").write_text("from training import three\n")
    new_file = modules(tmp_path, "training.one")
    (folder / "three.py").write_text("x = 1\n")
    new_import, other_code = modules(tmp_path, "training.one"), provenance.code_hash("one", "cnn", tmp_path)
    (folder / "three.py").write_text("x = 2\n")
    changed_code = provenance.code_hash("one", "cnn", tmp_path)
    (folder / "two.py").unlink()

    assert ["training/one.py"] == before == modules(tmp_path, "training.one")
    assert ["training/one.py", "training/two.py"] == new_file
    assert ["training/one.py", "training/three.py", "training/two.py"] == new_import
    assert len({code, other_code, changed_code}) == 3


def test_modules_that_import_each_other_are_found_once(tmp_path: Path) -> None:
    """However often each is named; a package that one is in is loaded, too."""
    folder = tmp_path / "training" / "parts"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "one.py").write_text("import training.parts.two, training.parts.two\n")
    (folder / "two.py").write_text("START = 'training.parts.one'\nfrom training.parts import one\n")

    expected = [f"training/parts/{name}.py" for name in ("__init__", "one", "two")]
    assert expected == modules(tmp_path, "training.parts.one")
