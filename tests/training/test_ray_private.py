"""Ray as the ray arm starts it on this machine, for real: what another user or another machine could use of it."""

import stat
import tempfile

import pytest

from tests.training.conftest import Arms
from tests.training.looked_at import Ended, Process
from training.contract.result import RAY_TOKEN
from training.launch import environment
from training.launch.ray import driver


@pytest.fixture(scope="module")
def seen(ended: Arms) -> Ended:
    """A run of the arm, with a HOME of its own and misleading variables."""
    return ended["ray"]


@pytest.fixture(scope="module")
def raylet(seen: Ended) -> Process:
    """Ray's own process of this machine, which all others of it take their settings from."""
    (found,) = (process for process in seen.processes if process.name.split()[0].endswith("/raylet"))
    return found


def test_nobody_else_reaches_ray_s_files(seen: Ended) -> None:
    """Ray opens its own folder to everybody; the one around it is this user's alone."""
    (private,) = {path.split("/")[0] for path in seen.files if path.startswith("ray-") and "/" in path}

    assert 0o700 == stat.S_IMODE(seen.files[private])
    assert any(stat.S_ISSOCK(mode) for path, mode in seen.files.items() if path.startswith(f"{private}/"))


def test_the_token_is_this_run_s_alone(seen: Ended, raylet: Process) -> None:
    """Readable by this user alone, asked for whatever the environment says, and gone with the run."""
    assert 0o600 == stat.S_IMODE(seen.files[RAY_TOKEN])
    assert str(seen.folder / RAY_TOKEN) == raylet.variables["RAY_AUTH_TOKEN_PATH"]
    assert "token" == raylet.variables["RAY_AUTH_MODE"]
    assert "RAY_AUTH_TOKEN" not in raylet.variables
    assert 64 == seen.token_length


OF_TENSORFLOW = ("/.keras", "/__autograph_generated_file", "/__pycache__")
"""Its settings in HOME, and the code that it writes into the temporary folder, which ended workers leave there."""


def test_nothing_is_left_of_it(seen: Ended) -> None:
    """Neither beside the result but Ray Train's storage, nor in the temporary folder, nor in HOME, where Ray would keep
    its token."""
    assert [] == [path for path in seen.left if not any(name in path for name in OF_TENSORFLOW)]
    assert {"model.keras", "progress.jsonl", "ray", "result.json"} == {path.name for path in seen.folder.iterdir()}
    assert {"train", ".validate_storage_marker"} == {path.name for path in (seen.folder / "ray").rglob("*")}


def test_ray_is_told_to_listen_on_loopback(seen: Ended, raylet: Process) -> None:
    """Also where the run has no network of its own; and it starts here, whatever RAY_ADDRESS says."""
    assert f"--node_ip_address={driver.LOOPBACK}" in raylet.name.split()
    assert driver.LOOPBACK.startswith("127.")
    assert {one.address for one in seen.listening} <= {driver.LOOPBACK, "::", "0.0.0.0"}  # noqa: S104


def test_the_folder_s_limit_leaves_room_for_ray_s_longest_socket() -> None:
    """Under macOS's limit of 103 characters too, with the longest number that a process can have."""
    session = "session_2026-01-01_00-00-00_000000_4194304"
    longest = environment.LONGEST_TEMPORARY + len(f"/ray-xxxxxxxx/r/{session}/sockets/plasma_store")

    assert 103 >= longest
    assert "/tmp" == environment.short_folder() or len(tempfile.gettempdir()) <= environment.LONGEST_TEMPORARY  # noqa: S108
