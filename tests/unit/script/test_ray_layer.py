"""Ray as a layer over an environment without it: when there is one, what a script sees in it, and how it is made."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pulumi
import pytest

from cli.setup import project
from cli.setup import uv as installed_uv
from infra.places.local.place import Local
from tests.golden import Wording
from tests.unit.settings_machine import settings
from training.launch import entry
from training.machine import machine_lock
from training.workloads.script import launch, python_environment, ray_layer, resolve
from training.workloads.script.python_environment import PythonError
from training.workloads.script.ray_layer import Layer
from training.workloads.script.recipe import ScriptRecipe
from training.workloads.script.recognise import Script, recognise

Theirs = tuple[str, Path]
"""The Python of an environment, and the folder of its packages."""
RAY = metadata.version("ray")
LOOK = "import json, sys; import %s as it; print(json.dumps([it.WHO, it.__file__]))"


def installed(packages: Path, name: str, version: str, text: str) -> None:
    """Put a package of one module into a folder, as an installer leaves it."""
    (packages / f"{name}.py").write_text(text, encoding="utf-8")
    about = packages / f"{name}-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")


def environment(folder: Path, *, with_system: bool = False) -> Theirs:
    """Make one without packages, as venv does; return its Python, and the folder of its packages."""
    base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    packages = folder / "lib" / base.name / "site-packages"
    packages.mkdir(parents=True)
    about = f"home = {base.parent}\ninclude-system-site-packages = {str(with_system).lower()}\n"
    (folder / "pyvenv.cfg").write_text(about, encoding="utf-8")
    (folder / "bin").mkdir()
    (folder / "bin" / "python").symlink_to(base)
    return str(folder / "bin" / "python"), packages


@pytest.fixture
def theirs(tmp_path: Path) -> Theirs:
    """An environment with a package that Ray needs, too, one that is edited where it lies, and one that prints."""
    python, packages = environment(tmp_path / "theirs")
    installed(packages, "click", "8.0.1", "WHO = 'theirs'\n")
    source = tmp_path / "source"
    source.mkdir()
    (source / "edited.py").write_text("WHO = 'edited'\n", encoding="utf-8")
    (packages / "edited.pth").write_text(f"{source}\n", encoding="utf-8")
    (packages / "greeting.pth").write_text("import sys; print('welcome')\n", encoding="utf-8")
    return python, packages


class Uv:
    """Stands for uv: makes environments, knows what Ray needs, and installs it; counts its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, ...]] = []
        self.fails = ""
        self.keeps = True
        """Whether there are versions that fit those that an environment has."""

    def __call__(self, *arguments: str) -> None:
        """Do what the arguments ask for."""
        self.calls.append(arguments)
        if self.fails in arguments[:2]:
            raise ray_layer._FailedError(f"{self.fails} failed")
        folder = Path(arguments[-1])
        if arguments[0] == "venv":
            environment(folder)
        elif arguments[1] == "compile":
            constraints = Path(arguments[arguments.index("--constraint") + 1]).read_text(encoding="utf-8")
            if constraints and not self.keeps:
                raise ray_layer._FailedError("because of this and that")
            click = "click==8.0.1" if constraints else "click==9.9"
            folder.write_text(f"{click}\nmsgpack==1.1\nray=={RAY}\n", encoding="utf-8")
        else:
            (packages,) = folder.parent.glob("lib/python*/site-packages")
            for name, _, version in (line.partition("==") for line in folder.read_text("utf-8").split()):
                installed(packages, name, version, "WHO = 'layer'\n")
            (packages / "ray.py").unlink()
            (packages / "ray").mkdir()
            (packages / "ray" / "__init__.py").write_text("WHO = 'layer'\n", encoding="utf-8")
            (packages / "ray" / "train.py").write_text("import click, msgpack\n", encoding="utf-8")
            installed(packages, "clicked", "1.0", "WHO = 'layer'\n")
            (packages / "click.py").write_text(
                "WHO = 'layer'\n", encoding="utf-8"
            )  # as a package of another name might


@pytest.fixture
def uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Uv:
    """Layers are in a folder of this test, and wait for no measurement."""
    stand_in = Uv()
    monkeypatch.setattr(ray_layer, "_uv", stand_in)
    monkeypatch.setattr(ray_layer, "FOLDER", tmp_path / "layers")
    monkeypatch.setattr(machine_lock, "take", lambda _: ExitStack())
    return stand_in


def test_rays_version_is_known_without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """What only tries a script has no Ray here: the layer has the version that is locked, and uv finds conflicts."""
    here = ray_layer.rays_version()
    monkeypatch.setattr(ray_layer, "util", SimpleNamespace(find_spec=lambda _: None))

    assert here == RAY == ray_layer.rays_version()
    assert "" == ray_layer._conflict("3.11.0", {"click": "0.1"})


def plain(folder: Path, text: str = "import argparse\n") -> Script:
    """A script that knows nothing of Ray."""
    path = folder / "train.py"
    path.write_text(text, encoding="utf-8")
    return recognise(path, ())


def made(python: str, folder: Path, say: Callable[[str], None] = print) -> Layer:
    """A layer over an environment, made."""
    script = plain(folder)
    layer = ray_layer.over(script, python)
    assert layer is not None
    ray_layer.make(layer, script, say)
    return layer


def who(layer: Layer, module: str) -> list[str]:
    """Whose module a script imports in the layer, and its file."""
    done = subprocess.run([layer.python, "-c", LOOK % module], check=True, capture_output=True, text=True)
    answer: list[str] = json.loads(done.stdout.splitlines()[-1])
    return answer


def listed(folder: Path) -> dict[str, str]:
    """Every file of a folder with its hash."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_a_script_finds_their_packages_first_and_ray_after_them(uv: Uv, theirs: Theirs, tmp_path: Path) -> None:
    """Theirs in their version, what their own .pth names, and of the layer what they lack; theirs stay as they were."""
    python, packages = theirs
    before = listed(tmp_path / "theirs")
    layer = made(python, tmp_path)
    assert before == listed(tmp_path / "theirs")

    assert ["theirs", str(packages / "click.py")] == who(layer, "click")
    assert ["edited", str(tmp_path / "source" / "edited.py")] == who(layer, "edited")
    assert "layer" == who(layer, "ray")[0] == who(layer, "msgpack")[0]
    assert ["msgpack==1.1", f"ray=={RAY}"] == json.loads((layer.folder / ray_layer.MADE).read_text())["added"]
    assert f"{RAY}+layer" == layer.version
    asks = plain(tmp_path, "try:\n    import click, msgpack\nexcept ImportError:\n    pass\n")
    assert ["msgpack"] == ray_layer.brings(layer, asks)


def test_a_layer_is_made_once_and_another_where_theirs_has_changed(
    uv: Uv, theirs: Theirs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one over the environment as it was goes; that over another environment stays."""
    python, packages = theirs
    other = made(environment(tmp_path / "other")[0], tmp_path)
    first = made(python, tmp_path)
    calls = len(uv.calls)
    again = made(python, tmp_path)
    assert calls == len(uv.calls)
    assert first == again

    installed(packages, "msgpack", "1.0.9", "WHO = 'theirs'\n")
    python_environment._probed.cache_clear()
    second = made(python, tmp_path)

    assert first != second
    assert not first.folder.exists()
    assert other.is_made
    assert "theirs" == who(second, "msgpack")[0]


def test_one_that_was_interrupted_is_made_again(uv: Uv, theirs: Theirs, tmp_path: Path) -> None:
    """Nothing of it is left: what is there may be half of a file. So is one whose Python is no more where it was."""
    layer = made(theirs[0], tmp_path)
    (layer.folder / ray_layer.MADE).unlink()
    (layer.folder / "half").write_text("x", encoding="utf-8")
    (other := layer.folder.with_name("interrupted")).mkdir()
    assert not layer.is_made

    made(theirs[0], tmp_path)

    assert layer.is_made
    assert not (layer.folder / "half").exists()
    assert not other.exists()
    Path(layer.python).unlink()
    Path(layer.python).symlink_to(tmp_path / "removed")
    assert made(theirs[0], tmp_path).is_made
    assert "layer" == who(layer, "ray")[0]


def test_of_two_at_once_one_makes_it(uv: Uv, theirs: Theirs, tmp_path: Path) -> None:
    """The other waits for it."""
    script = plain(tmp_path)
    layer = ray_layer.over(script, theirs[0])
    assert layer is not None
    both = [threading.Thread(target=ray_layer.make, args=(layer, script, print)) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()

    assert layer.is_made
    assert ["venv", "pip", "pip"] == [arguments[0] for arguments in uv.calls]


def test_a_package_that_does_not_fit_is_named(uv: Uv, theirs: Theirs, tmp_path: Path, wording: Wording) -> None:
    """In the version that would fit, and not by how a resolver came to it; theirs is not changed for Ray."""
    uv.keeps = False
    with pytest.raises(PythonError) as caught:
        made(theirs[0], tmp_path)

    wording("script", caught.value.why.replace(RAY, "<version>"))


def test_one_that_can_not_be_made_says_why_and_what_to_type(uv: Uv, theirs: Theirs, tmp_path: Path) -> None:
    """As without a network; the next try makes it."""
    for step in ("venv", "compile", "install"):
        uv.fails = step
        with pytest.raises(PythonError) as caught:
            made(theirs[0], tmp_path)
        assert f"{step} failed" in caught.value.why
        assert caught.value.fix.endswith(f" --python {python_environment.near(theirs[0])} 'ray[train]=={RAY}'")

    uv.fails = ""
    assert made(theirs[0], tmp_path).is_made


def test_packages_of_the_system_that_an_environment_lets_in_are_theirs(uv: Uv, tmp_path: Path) -> None:
    """Its own come first there, and in the layer."""
    python, packages = environment(tmp_path / "theirs", with_system=True)
    layer = made(python, tmp_path)
    seen, in_layer = (python_environment.folders(each) for each in (python, layer.python))

    assert str(packages) == seen[0]
    assert len(seen) > 1
    assert python_environment.packages(python).items() <= python_environment.packages(layer.python).items()
    assert str(layer.folder) in in_layer[-1]


@pytest.mark.parametrize(
    ("packages", "version"),
    [
        pytest.param({"packaging": "23.2"}, "3.11.7", id="a package that is too old"),
        pytest.param({"pyarrow": "12.0"}, "3.11.7", id="one of Ray Train's"),
        pytest.param({}, "3.9.18", id="a Python that is too old"),
    ],
)
def test_a_conflict_is_known_before_anything_is_downloaded(
    wording: Wording, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, packages: dict[str, str], version: str
) -> None:
    """Ray's own requirements are known, and theirs is not changed for them."""
    monkeypatch.setattr(python_environment, "packages", lambda _: packages)
    monkeypatch.setattr(python_environment, "versions", lambda _: {"python": version})
    monkeypatch.setattr(python_environment, "line_that_gives", lambda *_: "LINE")
    with pytest.raises(PythonError) as caught:
        ray_layer.over(plain(tmp_path), "/mine/python")

    assert "LINE" == caught.value.fix
    wording("script", caught.value.why.replace(RAY, "<version>"))


TRAIN = dict.fromkeys(ray_layer.OF_TRAIN, "1.0")


@pytest.mark.parametrize(
    ("text", "packages", "fits"),
    [
        pytest.param("import torch\n", {"ray": RAY, **TRAIN}, True, id="as documented"),
        pytest.param("import torch\n", {"ray": "2.9.3", **TRAIN}, False, id="too old"),
        pytest.param("import torch.distributed\n", {"ray": RAY, **TRAIN, "torch": "2.1"}, True, id="torchrun"),
        pytest.param("import torch.distributed\n", {"ray": RAY, "pandas": "2.0"}, False, id="without Ray Train"),
        pytest.param("import sklearn\n", {"ray": RAY}, True, id="tasks need no Ray Train"),
        pytest.param("import sklearn\n", {"ray": "2.9.3"}, False, id="tasks, too old"),
    ],
)
def test_a_ray_that_can_not_train_it_is_told_before_an_arm(
    wording: Wording,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    text: str,
    packages: dict[str, str],
    *,
    fits: bool,
) -> None:
    """There is no layer over it: what an environment has comes first. Each arm with Ray is absent for this reason."""
    monkeypatch.setattr(python_environment, "packages", lambda _: packages)
    monkeypatch.setattr(python_environment, "checked", lambda *_: {"python": "3.11.7", **packages})
    why = ray_layer.why_not_theirs(script := plain(tmp_path, text), "/mine/python")
    resolved = resolve.resolve(ScriptRecipe(script=str(script.path), python="/mine/python", workers=2))

    assert fits is not bool(why)
    assert fits is not bool(resolved.arms({})["raystart" if script.kind == "plain" else "ray"].absent)
    if why:
        wording("script", why)


def test_up_makes_it_before_its_first_run_and_a_preview_does_not(
    uv: Uv, theirs: Theirs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it can't be made nothing is changed, and the line that installs Ray is the last; a run makes none."""
    script = plain(tmp_path)
    asked = settings(workload="script", script=str(script.path), python=theirs[0])
    layer = ray_layer.over(script, theirs[0])
    assert layer is not None
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    Local().survey(asked)
    assert not uv.calls
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: False)
    monkeypatch.setattr(pulumi.log, "info", print)
    uv.fails = "install"
    with pytest.raises(pulumi.RunError) as caught:
        Local().survey(asked)
    assert ray_layer.line_that_installs(script, theirs[0]) == str(caught.value).splitlines()[-1].strip()
    flags = [f"--result={tmp_path}/result.json", f"--script={script.path}", f"--python={theirs[0]}"]
    with pytest.raises(launch.ArmError, match=re.escape(layer.words)):
        launch.launch(entry.parse("raystart", "", ["--workload=script", *flags]), "raystart")

    uv.fails = ""
    Local().survey(asked)

    assert layer.is_made


def test_the_uv_that_make_installs_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is not on PATH; what a user types is its path."""
    program = tmp_path / installed_uv._ours().relative_to(project.ROOT)
    program.parent.mkdir(parents=True)
    program.touch()
    monkeypatch.setattr(python_environment, "PROJECT", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert program == tmp_path / python_environment.uv()


@pytest.mark.parametrize(
    ("text", "has_layer"),
    [
        ("import torch\n", True),
        ("import torch.distributed\n", True),
        ("import torch.distributed\nimport torch.multiprocessing as mp\nmp.spawn(print)\n", False),
        ("import ray\n", False),
    ],
)
def test_only_scripts_that_ray_trains_without_their_doing_have_one(tmp_path: Path, text: str, has_layer: bool) -> None:
    """One that imports Ray lacks a package of its own, and one that starts its ranks is none of Ray's."""
    path = tmp_path / "train.py"
    path.write_text(text, encoding="utf-8")
    arguments = () if has_layer else ("{workers}",)

    assert has_layer == (ray_layer.over(recognise(path, arguments), sys.executable) is not None)
