"""The wheel's launcher, in the oldest Python: where it lays the project down, what a home keeps, what one types."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from cli.setup.project import ROOT
from cli.wheel import backend, launcher
from tests.limits import wait_for

RWI = """
import json, os, sys
folder = os.path.dirname(os.path.abspath(__file__))
print(json.dumps({"typed": sys.argv[1:], "home": folder, "door": os.environ["RWI_DOOR"], "cwd": os.getcwd(),
                  "module": open(os.path.join(folder, "cli", "module.py")).read()}), flush=True)
if "wait" in sys.argv:
    sys.stdin.read()
"""
"""Stands for the project's `rwi`."""
TREE = {
    "rwi": RWI,
    "cli/module.py": "one",
    "cli/old.py": "",
    "stacks/Pulumi.local.yaml": "a",
    "stacks/Pulumi.b.yaml": "b",
}

Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path) -> Install:
    """Give a folder of packages, which nobody may write in, with a launcher that carries such a tree."""

    def installed(version: str, files: Mapping[str, str]) -> Path:
        package = tmp_path / f"site {version}" / "ray_worth_it"
        package.mkdir(parents=True)
        archive = backend.zipped({name: text.encode() for name, text in files.items()})
        (package / f"{version}-{hashlib.sha256(archive).hexdigest()}.zip").write_bytes(archive)
        (package / "__init__.py").touch()
        (package / "__main__.py").write_text(backend.START, encoding="utf-8")
        shutil.copy(ROOT / "cli" / "wheel" / "launcher.py", package)
        for folder in (package, package.parent):
            folder.chmod(0o555)
        return package.parent

    return installed


@pytest.fixture
def start(tmp_path: Path, oldest_python: str) -> Callable[..., subprocess.Popen[str]]:
    """Start a launcher as a user with an empty home, by default in a folder with a blank in its name."""
    (tmp_path / "my work").mkdir()

    def started(site: Path, *typed: str, folder: str = "my work") -> subprocess.Popen[str]:
        data = {"HOME": str(tmp_path / "home"), "XDG_DATA_HOME": str(tmp_path / "data"), "PYTHONPATH": str(site)}
        return subprocess.Popen(
            [oldest_python, "-m", "ray_worth_it", *typed], cwd=tmp_path / folder, env={**os.environ, **data},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    return started


def ended(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What `rwi` printed, once it has ended well."""
    out, problem = process.communicate()
    assert (0, "") == (process.returncode, problem)
    printed: dict[str, Any] = json.loads(out)
    return printed


Start = Callable[..., "subprocess.Popen[str]"]
Refuse = Callable[..., str]


@pytest.fixture
def refuse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Refuse:
    """Give the one line with which a launcher refuses: Python prints it, with status 1. That needs no other process."""
    (tmp_path / "my work").mkdir(exist_ok=True)

    def refused(site: Path, *typed: str) -> str:
        monkeypatch.chdir(tmp_path / "my work")
        monkeypatch.setattr(sys, "argv", ["rwi", *typed])
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
        monkeypatch.setenv(launcher.DOOR, "what this test had")
        monkeypatch.setattr(os, "execv", lambda *_: pytest.fail("it would have started the project's rwi"))
        with pytest.raises(SystemExit) as ended_with:
            runpy.run_path(str(site / "ray_worth_it" / "launcher.py"))["main"]()
        problem = str(ended_with.value.code)
        assert problem.startswith("error: ")
        assert 1 == len(problem.splitlines())
        return problem

    return refused


def test_rwi_is_run_in_a_home_in_the_current_folder(install: Install, start: Start, tmp_path: Path) -> None:
    """With what was typed, where it was typed; git sees nothing of it, and a folder below has the same home."""
    site, work = install("1.0", TREE), tmp_path / "my work"
    (work / "below").mkdir()
    ran = ended(start(site, "try", "a b.py", "--", "--home", "x"))
    below = ended(start(site, folder="my work/below"))

    assert (["try", "a b.py", "--", "--home", "x"], str(work)) == (ran["typed"], ran["cwd"])
    assert [str(work / ".rwi")] * 2 == [ran["home"], below["home"]]
    assert "*\n" == (work / ".rwi" / ".gitignore").read_text(encoding="utf-8")
    assert {".rwi", "below"} == {path.name for path in work.iterdir()}
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("option", [("--home", "far away"), ("--home=far away",)])
def test_a_home_is_where_home_says(install: Install, start: Start, tmp_path: Path, option: tuple[str, ...]) -> None:
    """Relative to the current folder; what is printed to type has it, too."""
    ran = ended(start(install("1.0", TREE), *option, "up"))

    assert (["up"], str(tmp_path / "my work" / "far away")) == (ran["typed"], ran["home"])
    assert ran["door"].endswith(f" -m ray_worth_it --home '{ran['home']}'")  # not prose: a command


def test_the_tree_is_laid_down_once_a_version_and_repaired(install: Install, start: Start, tmp_path: Path) -> None:
    """In the user's data folder. What was changed or put there gets into no home; what was left there is removed."""
    site = install("1.0", TREE)
    ended(start(site))
    (tree,) = (tmp_path / "data" / "ray-worth-it").glob("1.0-*")
    (tree / "cli" / "module.py").write_text("changed", encoding="utf-8")
    (tree / "cli" / "more.py").touch()
    (tree / "rwi").unlink()
    (tree.parent / ".partial-x").mkdir()  # by a launcher that was killed
    ran = ended(start(site, "--home", "another"))

    assert "one" == ran["module"] == (tree / "cli" / "module.py").read_text(encoding="utf-8")
    assert [".lock", tree.name] == sorted(path.name for path in tree.parent.iterdir())
    assert set(TREE) == {path.relative_to(tree).as_posix() for path in tree.rglob("*") if path.is_file()}
    (tree / "cli" / "more.py").touch()  # alone, it makes the tree no other
    ended(start(site, "--home", "third"))
    assert not (tmp_path / "my work" / "third" / "cli" / "more.py").exists()


def test_a_damaged_installation_is_refused(install: Install, refuse: Refuse, tmp_path: Path) -> None:
    """Before anything of it is laid down."""
    (archive,) = (install("1.0", TREE) / "ray_worth_it").glob("*.zip")
    archive.write_bytes(archive.read_bytes()[:-1])
    problem = refuse(archive.parents[1])

    assert str(archive) in problem
    assert "damaged" in problem
    assert not list((tmp_path / "data" / "ray-worth-it").glob("*"))


def test_another_version_keeps_what_is_the_users(install: Install, start: Start, tmp_path: Path) -> None:
    """Its modules replace those of the other; settings that were changed, runs and environments stay."""
    home = tmp_path / "my work" / ".rwi"
    changed = {name: f"new {text}" for name, text in TREE.items() if name.startswith("stacks/")}
    one = install("1.0", TREE)
    two = install("2.0", {**_without("cli/old.py"), **changed, "cli/module.py": "two"})
    ended(start(one))
    (home / "stacks" / "Pulumi.b.yaml").write_text("mine", encoding="utf-8")
    for name in ("stacks/Pulumi.mine.yaml", "runs/result.json", ".venv/python"):
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).touch()
    ran = ended(start(two))
    texts = {
        name: (home / "stacks" / f"Pulumi.{name}.yaml").read_text(encoding="utf-8") for name in ("local", "b", "mine")
    }

    assert "two" == ran["module"]
    assert {"local": "new a", "b": "mine", "mine": ""} == texts
    assert [True, True, False] == [
        (home / name).exists() for name in ("runs/result.json", ".venv/python", "cli/old.py")
    ]
    assert 2 == len(list((tmp_path / "data" / "ray-worth-it").glob("[12].0-*")))
    assert "one" == ended(start(one))["module"]


def _without(name: str) -> dict[str, str]:
    return {other: text for other, text in TREE.items() if other != name}


def test_no_version_gets_under_a_command_of_another(install: Install, start: Start) -> None:
    """It says that it waits, and goes on at that one's end."""
    one, two = install("1.0", TREE), install("2.0", {**TREE, "cli/module.py": "two"})
    first = start(one, "wait")
    assert first.stdout
    assert "one" == json.loads(first.stdout.readline())["module"]
    second = start(two)
    assert second.stderr
    waits = second.stderr.readline()
    beside = ended(start(one))
    first.communicate("")

    assert "another version" in waits
    assert "one" == beside["module"]
    assert "two" == ended(second)["module"]


@pytest.fixture
def below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, in one that has a folder of the name of a home."""
    (tmp_path / ".rwi").mkdir()
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path / "mine")
    return tmp_path / "mine"


def test_anothers_home_is_not_taken(below: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its code would run as this user: as of one in /tmp, above a folder of one's own. In the current folder there is
    no other place for one: whoever types it names a folder."""
    (below.parent / ".rwi" / launcher.LAID).touch()
    own, _ = launcher.place([])
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    others, _ = launcher.place([])

    assert (below.parent / ".rwi", below / ".rwi") == (own, others)
    monkeypatch.chdir(below.parent)
    with pytest.raises(ValueError, match=launcher.OPTION):
        launcher.place([])


def test_a_link_to_a_file_of_ones_own_makes_no_home(below: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody can make one, in a folder of theirs, to a file of this user's."""
    (below.parent / ".rwi" / launcher.LAID).symlink_to(__file__)
    others = os.getuid() + 1
    real = Path.lstat

    def lstat(path: Path) -> os.stat_result:
        """As if all in `.rwi` were another user's."""
        known = list(real(path))
        known[4] = others if ".rwi" in path.parts else known[4]
        return os.stat_result(known)

    monkeypatch.setattr(Path, "lstat", lstat)

    assert below / ".rwi" == launcher.place([])[0]


@pytest.mark.parametrize("name", ["rwi", "cli/module.py", ".git/HEAD"])
def test_a_project_of_somebodys_is_no_home(install: Install, refuse: Refuse, tmp_path: Path, name: str) -> None:
    """`--home .` in one's own project would replace its README.md; nothing of it is touched."""
    path = tmp_path / "my work" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine", encoding="utf-8")
    problem = refuse(install("1.0", TREE), "--home", ".")
    left = {each for each in (tmp_path / "my work").rglob("*") if each.is_file()}

    assert "--home FOLDER" in problem
    assert "mine" == path.read_text(encoding="utf-8")
    assert {path} == left


def test_a_file_of_the_users_outlives_an_update(install: Install, start: Start, tmp_path: Path) -> None:
    """One that has the name of a file that an earlier version had; and a `.gitignore` of one's own."""
    home = tmp_path / "my work" / ".rwi"
    ended(start(install("1.0", TREE)))
    (home / ".gitignore").write_text("mine", encoding="utf-8")
    ended(start(install("2.0", _without("cli/old.py"))))
    (home / "cli" / "old.py").write_text("mine", encoding="utf-8")
    ended(start(install("3.0", {**_without("cli/old.py"), "cli/new.py": ""})))

    assert "mine" == (home / "cli" / "old.py").read_text(encoding="utf-8")
    assert "mine" == (home / ".gitignore").read_text(encoding="utf-8")


@pytest.mark.parametrize("typed", [("--home",), ("--home", "--help"), ("up", "--home", "x"), ("try", "--home=x")])
def test_a_home_is_named_first_and_is_no_option(
    install: Install, refuse: Refuse, tmp_path: Path, typed: tuple[str, ...]
) -> None:
    """Nothing is laid down or installed for a call that can't be meant so."""
    problem = refuse(install("1.0", TREE), *typed)

    assert "rwi --home" in problem
    assert not list((tmp_path / "my work").iterdir())


def test_a_data_folder_that_cannot_be_written_is_named_with_its_variable(
    install: Install, refuse: Refuse, tmp_path: Path
) -> None:
    """As under a read-only home; a home that is a file says so, too."""
    site = install("1.0", TREE)
    (tmp_path / "data").touch()

    assert "XDG_DATA_HOME" in refuse(site)
    assert "--home FOLDER" in refuse(site, "--home", "../data")


@pytest.mark.parametrize(
    ("error", "status", "lines"),
    [
        pytest.param(
            OSError(errno.ENOSPC, "No space left on device", "/source", None, "/target"), "error: /target: ", 0,
            id="a full disk is named by what could not be written, and not by the file that was to be copied there",
        ),
        pytest.param(KeyboardInterrupt(), "130", 1, id="Ctrl-C ends with a line, and the status that a shell expects"),
    ],
)  # fmt: skip
def test_what_ends_a_launcher_is_said_in_a_line(
    error: BaseException, status: str, lines: int, *,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path,
) -> None:  # fmt: skip
    """Python prints the status itself where that is a text."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["rwi"])
    monkeypatch.setenv(launcher.DOOR, "rwi")
    monkeypatch.setattr(launcher, "ready", Mock(side_effect=error))
    monkeypatch.setattr(Path, "glob", lambda *_: iter([tmp_path]))
    with pytest.raises(SystemExit) as ended_with:
        launcher.main()

    assert str(ended_with.value.code).startswith(status)
    assert lines == len(capsys.readouterr().err.splitlines())


def test_a_user_without_a_home_is_told_which_variable_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container under a number that has no entry: there is no default data folder then."""
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", str)

    with pytest.raises(ValueError, match="XDG_DATA_HOME"):
        launcher.data_folder()


def waits_for_a_lock(pid: int) -> bool:
    """Return whether the process waits for a lock that another one has: it has spoken by then."""
    lines = [line.split() for line in Path("/proc/locks").read_text(encoding="utf-8").splitlines()]
    return any("->" == words[1] and str(pid) == words[5] for words in lines)


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="this system does not say who waits for a lock")
def test_calls_at_once_do_not_speak_of_another_version(install: Install, start: Start, tmp_path: Path) -> None:
    """A launcher in another home has the data folder's lock; a launcher of this version, the home's. None sees a part
    of a tree."""
    site, data = install("1.0", TREE), tmp_path / "data" / "ray-worth-it"
    data.mkdir(parents=True)
    with (data / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        first, second = start(site), start(site)
        wait_for(lambda: all(waits_for_a_lock(process.pid) for process in (first, second)), "both wait")

    assert {"one"} == {ended(process)["module"] for process in (first, second)}


def test_a_line_to_type_is_as_the_user_came(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its name where that is found, and by uvx where the program is in a cache."""
    program = tmp_path / "cache" / "env" / "bin" / "rwi"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o700)
    monkeypatch.setattr(sys, "argv", [str(program)])
    monkeypatch.setattr(sys, "prefix", str(program.parents[1]))
    by_path = launcher.door(None)
    monkeypatch.setenv("PATH", str(program.parent))
    by_name = launcher.door(None)
    (tmp_path / "cache" / "CACHEDIR.TAG").touch()
    by_uvx = launcher.door(None)
    monkeypatch.setattr(launcher, "_origin", lambda: "/a b/x.whl")

    assert (str(program), "rwi", "uvx ray-worth-it") == (by_path, by_name, by_uvx)
    assert "uvx --from '/a b/x.whl' rwi --home /h" == launcher.door(Path("/h"))  # not prose: a command
