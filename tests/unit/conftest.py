"""A machine's lock and a state of its own for every unit test.

None waits for a measurement of this machine or holds one off, or writes to the project's state.
"""

import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cli.stack import environment
from infra.places.ray import owner
from training.contract import provenance
from training.machine import machine_lock
from training.workloads.script import resolve


@pytest.fixture(autouse=True)
def machine_lock_name(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The lock's name without its first byte, which the processes that a test starts have to be told."""
    name = f"ray-worth-it/test-{uuid.uuid4().hex}"
    monkeypatch.setattr(machine_lock, "NAME", f"\0{name}")
    monkeypatch.setattr(machine_lock, "_kept_locks", [])
    yield name
    for lock in machine_lock._kept_locks:
        lock.close()


@pytest.fixture(scope="module", autouse=True)
def state_of_the_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A folder for what would stand in the project's .state; nobody makes it before it is needed."""
    state = tmp_path_factory.getbasetemp() / "state"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(environment, "BACKEND", state / "backend")
        patch.setattr(environment, "PASSPHRASE", state / "passphrase")
        patch.setattr(owner, "FILE", state / "owner")
        yield


@pytest.fixture(scope="module", autouse=True)
def network_of_the_tests() -> Iterator[None]:
    """A run leaves its process without a network for good: no file of tests may do that to this one."""
    before = Path("/proc/self/ns/net").readlink() if sys.platform == "linux" else None
    yield
    assert before == (Path("/proc/self/ns/net").readlink() if sys.platform == "linux" else None)


@pytest.fixture(scope="session", autouse=True)
def known_of_the_project() -> Iterator[None]:
    """What hundreds of tests ask of files of the project, none of which changes meanwhile, is found out once.

    That is the hash of what an arm runs, and what the examples are recognised as.
    """
    project = provenance.PROJECT
    with pytest.MonkeyPatch.context() as patch:

        def remember(module: Any, name: str, is_ours: Callable[..., bool]) -> None:
            real = getattr(module, name)
            known = cache(real)
            patch.setattr(module, name, lambda *given: known(*given) if is_ours(*given) else real(*given))

        remember(provenance, "code_hash", lambda _, __, of=project: of == project)
        remember(resolve, "recognise", lambda path, *_: path.is_relative_to(project / "examples"))
        yield


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures are made but for what takes longest, their drawing: for tests of what stands beside them."""
    monkeypatch.setattr("report.svg._text", lambda _: '<svg width="1"><g id="figure_1"></g></svg>')


@pytest.fixture(scope="session")
def oldest_python() -> str:
    """Python 3.9, where there is one: the oldest that scripts, and the first steps of make, run in."""
    there = [*Path.home().glob(".pyenv/versions/3.9.*/bin/python3.9"), Path(shutil.which("python3.9") or "python3.9")]
    # pyenv has a command of that name even where it has no such version for this folder
    for path in filter(Path.is_file, there):
        if subprocess.run([path, "-c", ""], check=False, capture_output=True).returncode == 0:
            return str(path)
    pytest.skip("no Python 3.9 on this machine")
