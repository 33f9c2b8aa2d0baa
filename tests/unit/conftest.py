"""A machine's lock of its own for every unit test: none waits for a measurement of this machine, or holds one off."""

import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from training.machine import machine_lock


@pytest.fixture(autouse=True)
def machine_lock_name(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The lock's name without its first byte, which the processes that a test starts have to be told."""
    name = f"ray-worth-it/test-{uuid.uuid4().hex}"
    monkeypatch.setattr(machine_lock, "NAME", f"\0{name}")
    monkeypatch.setattr(machine_lock, "_kept_locks", [])
    yield name
    for lock in machine_lock._kept_locks:
        lock.close()


@pytest.fixture(autouse=True)
def network_of_the_tests() -> Iterator[None]:
    """A run leaves its process without a network for good: none of these tests may do that to this one."""
    before = Path("/proc/self/ns/net").readlink() if sys.platform == "linux" else None
    yield
    assert before == (Path("/proc/self/ns/net").readlink() if sys.platform == "linux" else None)
