"""Ray as the ray arm starts it on this machine, for real: what another user or another machine could use of it."""

import json
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from training.launch import environment
from training.launch import ray_driver as ray_arm

PROJECT = Path(__file__).resolve().parents[2]
PROGRAM = """
import json, os, psutil, sys
from training.launch import entry, ray_driver as arm
from training.ray import SET_UP
import ray
own = arm.start_ray(entry.parse("ray", None, ["--result", sys.argv[1]]), "ray", SET_UP)
seen = {
    "private": str(own.private), "token": own.token.read_text(), "tokenMode": own.token.stat().st_mode,
    "modes": {str(one.relative_to(own.private)): one.stat().st_mode for one in [own.private, *own.private.rglob("*")]},
    "mode": os.environ["RAY_AUTH_MODE"], "tokenPath": os.environ["RAY_AUTH_TOKEN_PATH"],
    "addresses": [node["NodeManagerAddress"] for node in ray.nodes()],
    "listening": sorted({socket.laddr.ip for process in psutil.Process().children(recursive=True)
        for socket in process.net_connections("tcp") if socket.status == psutil.CONN_LISTEN}),
}
arm.shut_down(own)
print("seen", json.dumps(seen))
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a Ray was like that was started for an arm, with a HOME of its own and misleading variables."""
    home, run = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("runs") / "run"
    run.mkdir()
    # As long as a folder may be before another is taken: the sockets in it are reached all the same.
    temporary = Path("/tmp").joinpath("t" * (environment.LONGEST_TEMPORARY - len("/tmp/")))  # noqa: S108
    temporary.mkdir(exist_ok=True)
    misleading = {"RAY_AUTH_MODE": "disabled", "RAY_AUTH_TOKEN": "0" * 32, "RAY_ADDRESS": "192.0.2.9:6379"}
    try:
        ended = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(run / "result.json")],
            cwd=PROJECT, env=os.environ | {"HOME": str(home), "TMPDIR": str(temporary)} | misleading,
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stderr[-3000:]
        left = [str(path) for folder in (home, temporary, run) for path in folder.rglob("*")]
    finally:
        temporary.rmdir()
    (line,) = [line for line in ended.stdout.splitlines() if line.startswith("seen ")]
    return dict(json.loads(line.removeprefix("seen "))) | {"left": left, "temporary": str(temporary)}


def test_nobody_else_reaches_ray_s_files(seen: dict[str, Any]) -> None:
    """Ray opens its own folder to everybody; the one around it is this user's alone."""
    assert seen["private"].startswith(seen["temporary"])
    assert 0o700 == stat.S_IMODE(seen["modes"]["."])
    assert any(stat.S_ISSOCK(mode) for mode in seen["modes"].values())


def test_the_token_is_this_run_s_alone(seen: dict[str, Any]) -> None:
    """Readable by this user alone, asked for whatever the environment says, and gone with the run."""
    assert 0o600 == stat.S_IMODE(seen["tokenMode"])
    assert seen["tokenPath"].endswith(f"/run/{ray_arm.TOKEN}")
    assert "token" == seen["mode"]
    assert 64 == len(seen["token"])


def test_nothing_is_left_of_it(seen: dict[str, Any]) -> None:
    """Neither beside the result, nor in the temporary folder, nor in HOME, where Ray would keep its token."""
    assert [] == seen["left"]


def test_ray_is_told_to_listen_on_loopback(seen: dict[str, Any]) -> None:
    """Also where the run has no network of its own; and it starts here, whatever RAY_ADDRESS says."""
    assert [ray_arm.LOOPBACK] == seen["addresses"]
    assert ray_arm.LOOPBACK.startswith("127.")
    assert set(seen["listening"]) <= {ray_arm.LOOPBACK, "::", "0.0.0.0"}  # noqa: S104


def test_the_folder_s_limit_leaves_room_for_ray_s_longest_socket() -> None:
    """Under macOS's limit of 103 characters too, with the longest number that a process can have."""
    session = "session_2026-01-01_00-00-00_000000_4194304"
    longest = environment.LONGEST_TEMPORARY + len(f"/ray-xxxxxxxx/r/{session}/sockets/plasma_store")

    assert 103 >= longest
    assert "/tmp" == environment.short_folder() or len(tempfile.gettempdir()) <= environment.LONGEST_TEMPORARY  # noqa: S108
