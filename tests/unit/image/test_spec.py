"""The image's tag follows from its content, and from nothing else."""

import ast
import io
import re
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
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


@pytest.fixture(scope="module")
def tag() -> str:
    """The tag of the project's own image."""
    return CONTENT.tag()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what an image is made of."""
    folder = tmp_path_factory.mktemp("project")
    shutil.copytree(PROJECT / "training", folder / "training", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("uv.lock", ".python-version"):
        shutil.copy(PROJECT / name, folder)
    return folder


@pytest.fixture(scope="module")
def tags(project: Path) -> dict[str, str]:
    """The tags of its images, by workload."""
    return {workload: replace(CONTENT, workload=workload).tag(project) for workload in ("cnn", "script")}


@contextmanager
def changed(path: Path, text: str) -> Iterator[None]:
    """Have a file of the copy with that text."""
    before = path.read_text(encoding="utf-8")
    path.write_text(text, encoding="utf-8")
    image_spec.packages.cache_clear()
    try:
        yield
    finally:
        path.write_text(before, encoding="utf-8")
        image_spec.packages.cache_clear()


def test_a_tag_is_repeatable(tag: str, tags: dict[str, str]) -> None:
    """The same content has the same tag, on every machine."""
    assert tag == tags["cnn"]
    assert re.fullmatch("[0-9a-f]{12}", tag)


@pytest.mark.parametrize(
    ("module", "workloads"),
    [
        ("workloads/cnn/loop.py", {"cnn"}),  # otherwise pods would train with older code than the program says
        ("launch/warm_up.py", set()),  # pods never import it, and no measurement is repeated for it
        ("workloads/script/observe/path/sitecustomize.py", {"script"}),  # no import tells of these: a script's
        ("workloads/script/observe/keras_steps.py", {"script"}),  # processes load them by their path
        ("workloads/script/ranks/under_ray.py", {"script"}),
    ],
)
def test_a_module_changes_the_images_that_have_it(
    module: str, workloads: set[str], project: Path, tags: dict[str, str]
) -> None:
    """And no other."""
    with changed(project / "training" / module, "# changed\n"):
        after = {workload: replace(CONTENT, workload=workload).tag(project) for workload in tags}

    assert workloads == {workload for workload in tags if tags[workload] != after[workload]}


def test_only_packages_in_the_image_change_it(project: Path, tags: dict[str, str]) -> None:
    """The lock holds the program's packages too."""
    lock = project / "uv.lock"
    for package, changes in {"tensorflow-cpu": True, "ray": True, "pulumi": False}.items():
        text, count = re.subn(rf'(name = "{package}"\nversion = ")[^"]+', r"\g<1>9.9.9", lock.read_text())
        with changed(lock, text):
            assert (1, changes) == (count, tags["cnn"] != CONTENT.tag(project)), package


@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_module_of_an_image_finds_what_it_imports(workload: str) -> None:
    """With nothing but the image's files, as a pod has them; relative imports included."""
    files = {path.relative_to(PROJECT) for path in image_spec.modules(workload) if path.suffix == ".py"}
    absent = [(str(path), str(imported)) for path in files for imported in imported_files(path) - files]

    assert len(files) > 50
    assert [] == absent


@cache
def imported_files(path: Path) -> frozenset[Path]:
    """The files of `training` that the imports in a file of the project load."""
    files = set()
    for node in ast.walk(ast.parse((PROJECT / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            folder = path.parents[node.level - 1] if node.level else Path()
            module = folder / (node.module or "").replace(".", "/")
            for name in (module, *(module / alias.name for alias in node.names)):
                files |= {name.with_suffix(".py"), name / "__init__.py"}
    return frozenset(file for file in files if file.parts[0] == "training" and (PROJECT / file).is_file())


@pytest.mark.parametrize(("workload", "has_them"), [("cnn", True), ("script", False)])
def test_the_digits_are_where_the_workload_s_modules_are(workload: str, has_them: bool) -> None:
    """In our image, in pods of another one, and in the jobs of a Ray cluster."""
    path = PROJECT / "training/workloads/cnn/digits.csv.gz"
    packed = zipfile.ZipFile(io.BytesIO(project_modules.of_workload(workload).content)).namelist()

    assert has_them == (path in image_spec.modules(workload))
    assert has_them == (str(path.relative_to(PROJECT)) in packed)
    assert has_them == (path in jobs.modules("ray", workload))


@pytest.mark.parametrize("name", ["DOCKERFILE", "BUILD_FILES"])
def test_how_it_is_built_changes_it(name: str, tag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Dockerfile, and the script that it runs."""
    other = tmp_path / "changed"
    other.write_text("# changed\n")
    monkeypatch.setattr(image_spec, name, other if name == "DOCKERFILE" else (other,))

    assert tag != CONTENT.tag()


def test_base_and_data_change_it(tag: str, tmp_path: Path) -> None:
    """Both are in the image; CIFAR-10 alone, as the others are made by code, or come with a package."""
    (tmp_path / "data_batch_1").write_bytes(b"images")
    downloaded = replace(CONTENT, dataset="cifar10")
    given = replace(downloaded, dataset_path=str(tmp_path))

    assert 4 == len({tag, replace(CONTENT, base_image="python:3.11").tag(), downloaded.tag(), given.tag()})
    assert [] == CONTENT.dataset_flag()
    assert ["--dataset-path=/data/cifar-10-batches-py"] == downloaded.dataset_flag()


def test_pods_expect_the_locked_versions() -> None:
    """Of all that decides what is computed, Python's as the project pins it; Keras 3 is in the lock alone."""
    expected, found = image_spec.expected_versions(), image_spec.installed()

    assert {"ray", "tensorflow", "python"} == set(expected)
    assert f"ray=={expected['ray']}" in image_spec.packages()
    assert {"ray", "tensorflow-cpu", "tf-keras", "python"} <= set(found)
    assert "keras" not in found


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
