"""Builds the wheel and the source archive: `uv build`. A PEP 517 backend with the standard library alone.

pyproject.toml's `[project]` describes the environment that measures, with TensorFlow and Ray. The wheel needs none of
it: it holds the launcher, and the project's tree as one archive. So its metadata are its own, which no other backend
allows. Archives of the same files are equal byte for byte.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import subprocess
import tarfile
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "ray_worth_it"
PYTHONS = tuple(f"3.{minor}" for minor in range(9, 15))
"""Versions of Python with which the launcher, and so `./rwi`, is promised to start."""
LEFT_OUT = (".ci/", ".github/", ".gitignore", "AGENTS.md", "action.yml", "tests/")
DESCRIPTION = "cli/wheel/README.md"
"""The text that a package index shows: README would link to files and pictures that an index has not."""
LIST = "FILES"
"""The file in a source archive that lists its files: the folder may have more after a build or a run."""
START = '"""Starts the launcher: `python -m ray_worth_it`."""\n\nfrom ray_worth_it import launcher\n\nlauncher.main()\n'
DATE = (1980, 1, 1, 0, 0, 0)
"""The time stamp of all files: the oldest that a zip archive can hold, so that archives of equal files are equal."""


def build_wheel(wheel_directory: str, config_settings: object = None, metadata_directory: object = None) -> str:
    """Write the wheel, and return its name."""
    tree = zipped(tree_files())
    version = _project()["version"]
    info = f"{PACKAGE}-{version}.dist-info"
    launcher = (ROOT / "cli" / "wheel" / "launcher.py").read_bytes()
    entry_points = f"[console_scripts]\nrwi = {PACKAGE}.launcher:main\nray-worth-it = {PACKAGE}.launcher:main\n"
    files = {
        f"{PACKAGE}/__init__.py": b"",
        f"{PACKAGE}/__main__.py": START.encode(),
        f"{PACKAGE}/launcher.py": launcher,
        f"{PACKAGE}/{version}-{_sha256(tree).hex()}.zip": tree,
        f"{info}/METADATA": _metadata().encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: ray-worth-it\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": entry_points.encode(),
        f"{info}/licenses/LICENSE": (ROOT / "LICENSE").read_bytes(),
    }
    files[f"{info}/RECORD"] = _record(files, f"{info}/RECORD")
    name = f"{PACKAGE}-{version}-py3-none-any.whl"
    Path(wheel_directory, name).write_bytes(zipped(files))
    return name


def build_sdist(sdist_directory: str, config_settings: object = None) -> str:
    """Write the source archive, from which the same wheel can be built, and return its name."""
    folder = f"{PACKAGE}-{_project()['version']}"
    path = Path(sdist_directory, f"{folder}.tar.gz")
    with gzip.GzipFile(path, "wb", mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
        tree = tree_files()
        for name, content in {**tree, "PKG-INFO": _metadata().encode(), LIST: "\n".join(tree).encode()}.items():
            about = tarfile.TarInfo(f"{folder}/{name}")
            about.size, about.mode = len(content), _mode(name)
            archive.addfile(about, io.BytesIO(content))
    return f"{folder}.tar.gz"


def tree_files() -> dict[str, bytes]:
    """Return the files of the wheel by path: those that git tracks, without those for development, or in a source
    archive those that it lists. Raise FileNotFoundError if this is neither a clone nor a source archive."""
    if (ROOT / LIST).exists():
        names = (ROOT / LIST).read_text(encoding="utf-8").splitlines()
    elif (ROOT / ".git").exists():
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
        names = [name for name in listed.split("\0") if name]
    else:
        raise FileNotFoundError(f"{ROOT} is no clone and no source archive, so nothing says which files the wheel has")
    kept = [name for name in names if not name.startswith(LEFT_OUT)]
    return {name: (ROOT / name).read_bytes() for name in sorted(kept)}


def zipped(files: Mapping[str, bytes]) -> bytes:
    """Return a zip archive of these files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            about = zipfile.ZipInfo(name, DATE)
            about.external_attr, about.compress_type = (0o100000 | _mode(name)) << 16, zipfile.ZIP_DEFLATED
            archive.writestr(about, content)
    return buffer.getvalue()


def _mode(name: str) -> int:
    return 0o755 if name == "rwi" else 0o644


def _project() -> Mapping[str, str]:
    project: Mapping[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project


def _metadata() -> str:
    project = _project()
    fields = {
        "Metadata-Version": "2.4",
        "Name": project["name"],
        "Version": project["version"],
        "Summary": project["description"],
        "License-Expression": project["license"],
        "License-File": "LICENSE",
        "Requires-Python": f">={PYTHONS[0]}",
        "Description-Content-Type": "text/markdown",
    }
    text = (ROOT / DESCRIPTION).read_text(encoding="utf-8")
    lines = [f"{name}: {value}" for name, value in fields.items()]
    lines += [f"Classifier: Programming Language :: Python :: {version}" for version in PYTHONS]
    return "\n".join([*lines, "", text])


def _record(files: Mapping[str, bytes], own: str) -> bytes:
    lines = [f"{name},sha256={_base64(_sha256(content))},{len(content)}" for name, content in files.items()]
    return "\n".join([*lines, f"{own},,", ""]).encode()


def _sha256(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def _base64(digest: bytes) -> str:
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")
