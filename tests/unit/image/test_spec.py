"""The image's tag follows from its content, and from nothing else."""

import ast
import io
import re
import shutil
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from infra.image import command as image_script
from infra.image import spec as image_spec
from infra.image.spec import Content
from infra.places.cluster.manifests import project_modules
from infra.places.ray import jobs
from infra.settings.rules import BASE_IMAGE
from training.contract.provenance import PROJECT
from training.contract.recipe import WORKLOADS

CONTENT = Content("cnn", "python:3.11-slim", "digits", None)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of what an image is made of."""
    shutil.copytree(PROJECT / "training", tmp_path / "training", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("uv.lock", ".python-version"):
        shutil.copy(PROJECT / name, tmp_path)
    return tmp_path


def test_a_tag_is_repeatable() -> None:
    """The same content has the same tag, on every machine."""
    assert CONTENT.tag() == CONTENT.tag()
    assert re.fullmatch("[0-9a-f]{12}", CONTENT.tag())


def test_a_module_of_training_changes_it(project: Path) -> None:
    """Otherwise pods would train with older code than the program says."""
    before = CONTENT.tag(project)
    (project / "training/workloads/cnn/loop.py").write_text("# changed\n")

    assert before != CONTENT.tag(project)


def test_what_pods_never_import_does_not(project: Path) -> None:
    """A new word in the verdict must not repeat a measurement."""
    before = CONTENT.tag(project)
    (project / "training/launch/warm_up.py").write_text("# changed\n")

    assert before == CONTENT.tag(project)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_module_of_an_image_finds_what_it_imports(workload: str, tmp_path: Path) -> None:
    """With nothing but the image's files, as a pod has them; relative imports included."""
    files = {path.relative_to(PROJECT) for path in image_spec.modules(workload) if path.suffix == ".py"}
    absent = [
        (str(path), str(imported))
        for path in files
        for node in ast.walk(ast.parse((PROJECT / path).read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        for imported in imported_files(path, node)
        if imported not in files
    ]

    assert len(files) > 50
    assert [] == absent


def imported_files(path: Path, node: ast.ImportFrom) -> Iterator[Path]:
    """Yield the files of `training` that an import of a file of the project loads."""
    folder = path.parents[node.level - 1] if node.level else Path()
    module = folder / (node.module or "").replace(".", "/")
    for name in (module, *(module / alias.name for alias in node.names)):
        for file in (name.with_suffix(".py"), name / "__init__.py"):
            if file.parts[0] == "training" and (PROJECT / file).is_file():
                yield file


@pytest.mark.parametrize("name", ["observe/path/sitecustomize.py", "observe/keras_steps.py", "ranks/under_ray.py"])
def test_what_a_script_s_processes_load_by_its_path_is_in_its_image(project: Path, name: str) -> None:
    """No import tells of it; and the CNN's image has nothing of it."""
    script, path = replace(CONTENT, workload="script"), project / "training/workloads/script" / name
    before, of_cnn = script.tag(project), CONTENT.tag(project)
    path.write_text("# changed\n")

    assert path in image_spec.modules("script", project)
    assert before != script.tag(project)
    assert of_cnn == CONTENT.tag(project)


@pytest.mark.parametrize(("workload", "has_them"), [("cnn", True), ("script", False)])
def test_the_digits_are_where_the_workload_s_modules_are(workload: str, has_them: bool) -> None:
    """In our image, in pods of another one, and in the jobs of a Ray cluster."""
    path = PROJECT / "training/workloads/cnn/digits.csv.gz"
    packed = zipfile.ZipFile(io.BytesIO(project_modules.of_workload(workload).content)).namelist()

    assert has_them == (path in image_spec.modules(workload))
    assert has_them == (str(path.relative_to(PROJECT)) in packed)
    assert has_them == (path in jobs.modules("ray", workload))


def test_what_the_image_leaves_out_is_not_installed() -> None:
    """The lock has Keras 3, whose modules are in no image."""
    found = image_spec.installed()

    assert {"ray", "tensorflow-cpu", "tf-keras", "python"} <= set(found)
    assert "keras" not in found


@pytest.mark.parametrize(("package", "changes"), [("tensorflow-cpu", True), ("ray", True), ("pulumi", False)])
def test_only_packages_in_the_image_change_it(project: Path, package: str, changes: bool) -> None:
    """The lock holds the program's packages too."""
    lock = project / "uv.lock"
    before = CONTENT.tag(project)
    text, count = re.subn(rf'(name = "{package}"\nversion = ")[^"]+', r"\g<1>9.9.9", lock.read_text())
    lock.write_text(text)
    image_spec.packages.cache_clear()
    after = CONTENT.tag(project)
    image_spec.packages.cache_clear()

    assert 1 == count
    assert changes == (before != after)


@pytest.mark.parametrize("name", ["DOCKERFILE", "BUILD_FILES"])
def test_how_it_is_built_changes_it(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Dockerfile, and the script that it runs."""
    before = CONTENT.tag()
    changed = tmp_path / "changed"
    changed.write_text("# changed\n")
    monkeypatch.setattr(image_spec, name, changed if name == "DOCKERFILE" else (changed,))

    assert before != CONTENT.tag()


def test_base_and_data_change_it(tmp_path: Path) -> None:
    """Both are in the image."""
    (tmp_path / "data_batch_1").write_bytes(b"images")
    downloaded = replace(CONTENT, dataset="cifar10")
    given = replace(downloaded, dataset_path=str(tmp_path))

    tags = {one.tag() for one in (CONTENT, replace(CONTENT, base_image="python:3.11"), downloaded, given)}

    assert 4 == len(tags)


def test_only_cifar10_is_in_the_image() -> None:
    """The others are made by code, or come with a package."""
    assert [] == CONTENT.dataset_flag()
    assert ["--dataset-path=/data/cifar-10-batches-py"] == replace(CONTENT, dataset="cifar10").dataset_flag()


def test_pods_expect_the_locked_versions() -> None:
    """Of all that decides what is computed; Python's as the project pins it."""
    expected = image_spec.expected_versions()

    assert {"ray", "tensorflow", "python"} == set(expected)
    assert f"ray=={expected['ray']}" in image_spec.packages()


def test_the_image_holds_what_its_entries_import() -> None:
    """A module that is missing is found out when a pod starts."""
    names = {str(path.relative_to(PROJECT)).removesuffix(".py").replace("/", ".") for path in image_spec.modules("cnn")}

    assert {"training.__init__", "training.workloads.cnn.__init__", *image_spec.ENTRIES} <= names
    assert {"training.workloads.cnn.train", "training.workloads.cnn.loop", "training.contract.result"} <= names
    assert "training.launch.warm_up" not in names


SIGNED = "apt-get install --quiet=2 --yes --no-install-recommends libgomp1"
"""Debian signs the hashes of its packages, and the base has the key."""


def instructions(text: str) -> list[str]:
    """Each instruction of a Dockerfile in one line."""
    code = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    return [" ".join(line.split()) for line in code.replace("\\\n", " ").splitlines() if line.strip()]


@pytest.mark.parametrize("builder", ["BuildKit", "classic"])
def test_whatever_the_image_installs_is_compared_with_a_hash(builder: str) -> None:
    """uv with those beside the Dockerfile, everything else with those of uv.lock; no package is named in a command.

    What a user's own file names is compared with the hashes that it has.
    """
    text = image_spec.DOCKERFILE.read_text()
    commands = instructions(text if builder == "BuildKit" else image_script.classic(text))
    installs = [part for line in commands for part in line.split("&&") if re.search(r"\bpip3? +install\b", part)]

    files = [part.split("--requirement ")[1].split()[0].rstrip(";") for part in installs]
    assert ["/build/uv.txt", "/requirements.txt", "/more/requirements.txt"] == files
    for part in installs:
        assert "--require-hashes" in part or "--constraint /requirements.txt" in part
        assert not re.search(r"==|https?:|git\+|--no-verify-hashes", part)
    assert [] == [line for line in commands if re.search(r"\b(curl|wget|ADD)\b", line)]
    assert [SIGNED] == re.findall(r"\bapt(?:-get)? (?!update\b)[^&]*[^& ]", "\n".join(commands))
    (export,) = (line for line in commands if "uv export" in line)
    assert "--frozen" in export
    assert "--no-hashes" not in export


def test_the_base_is_named_with_its_digest() -> None:
    """Also by who builds the image without the program."""
    assert f"ARG BASE_IMAGE={BASE_IMAGE}" in instructions(image_spec.DOCKERFILE.read_text())
    assert re.search(r"@sha256:[0-9a-f]{64}$", BASE_IMAGE)


def test_the_classic_builder_has_the_same_stages() -> None:
    """It gets the secret in a file, under a label by which its stages are removed, and in the last one neither."""
    text = image_spec.DOCKERFILE.read_text()
    classic = image_script.classic(text)

    stage = f"LABEL {image_script.INDEX_LABEL}\nCOPY secret/ "
    assert 3 == text.count(image_script.INDEX_MOUNT) == classic.count(stage)
    assert "--mount" not in classic
    assert image_script.INDEX_LABEL not in classic.rpartition("FROM ")[2]


def test_what_the_dockerfile_leaves_out_is_locked() -> None:
    """A package that is renamed would come back in silence."""
    left_out = re.findall(r"--no-emit-package (\S+)", image_spec.DOCKERFILE.read_text())

    assert left_out
    assert set(left_out) <= {name.partition("==")[0] for name in image_spec.packages()}


def test_the_last_stage_gets_nothing_of_the_machine_s_package_index() -> None:
    """Its layers and its history go to a registry."""
    final = image_spec.DOCKERFILE.read_text().rpartition("FROM ")[2]

    assert not re.search("host|ARG|mount|secret|/run", final)
