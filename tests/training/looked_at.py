"""A run of an arm as the program starts it, and what was seen of it from outside while it went on."""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

import psutil

from tests.limits import LONGEST_SECONDS
from training.contract import provenance
from training.contract.result import RAY_TOKEN
from training.launch import environment
from training.machine import process_session

PROJECT = Path(__file__).resolve().parents[2]
FLAGS = [
    "--dataset=synthetic", "--train-images=230", "--model=cnn-half", "--epochs=2", "--global-batch-size=50",
    "--warmup-steps=2", "--save-model=true", "--learning-rate-schedule=cosine",
]  # fmt: skip
"""207 images train in five steps, the last of seven."""
FOREIGN = {
    "RAY_ADDRESS": "10.255.255.1:6379",
    "RAY_AUTH_MODE": "disabled",
    "RAY_AUTH_TOKEN": "0" * 32,
    "TF_CONFIG": '{"cluster": {"worker": ["10.255.255.1:1", "x:1"]}, "task": {"type": "worker", "index": 1}}',
    "PULUMI_ACCESS_TOKEN": "secret",
    "HOME": "/proc/nowhere",
}
"""What a user's environment may have, and changes nothing: every run here has it."""
ENVIRONMENT = os.environ | FOREIGN | {"OMP_DYNAMIC": "0"}
WORKER = "ray::RayTrainWorker"
LISTEN = "0A"
"""TCP_LISTEN, as /proc/net/tcp has it."""
LOOK_EVERY_SECONDS = 1.0
DIES_WITHIN_SECONDS = 5.0
RANDOM = 8
"""Characters that `tempfile` adds to a name."""


class Process(NamedTuple):
    """One that an arm started: its command, less the method that an actor runs just then, and its scheduling."""

    name: str
    nice: int
    policies: set[int]
    """Of its threads."""
    variables: dict[str, str]


class Listening(NamedTuple):
    """A TCP socket that accepts connections, and the network that it is in."""

    network: str
    address: str
    port: int


class Ended(NamedTuple):
    """A finished run, and what was seen when its training began."""

    folder: Path
    processes: list[Process]
    listening: set[Listening]
    """From its start on."""
    reached: list[tuple[str, int]]
    """Its ports that another network's process was let in at."""
    files: dict[str, int]
    """Modes of what it had in its temporary folder, `TMPDIR`, and beside its result."""
    token_length: int
    """Of the token beside its result; 0: there was none."""
    home: Path
    left: list[str]
    """What was in both after its end."""
    outlived: list[str]
    """Processes that were there after its end."""


def command(arm: str, folder: Path, flags: list[str]) -> list[str]:
    """What the program starts an arm with."""
    return [sys.executable, "-m", f"training.{arm}", "--result", str(folder / "result.json"), *flags]


def run_arm(arm: str, folder: Path, flags: list[str]) -> subprocess.CompletedProcess[str]:
    """An entry point as the program starts it."""
    return subprocess.run(
        command(arm, folder, flags), cwd=PROJECT, env=ENVIRONMENT, capture_output=True, text=True,
        timeout=LONGEST_SECONDS, check=False,
    )  # fmt: skip


def with_modules_of(arm: str, project: Path) -> None:
    """What a run of the arm can import, at the same places as in the project, and the lock that it is recorded with."""
    for path in (*provenance.modules_of_run(arm, "cnn"), PROJECT / "uv.lock"):
        copy = project / path.relative_to(PROJECT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())


def run(arm: str, folder: Path, project: Path, home: Path | None) -> Ended:
    """A run of the arm in `project`, which gets the files of its code hash alone. Without `home` there is none."""
    with_modules_of(arm, project)
    # As long as a folder may be before another is taken: the sockets in it are reached all the same.
    rest = "t" * (environment.LONGEST_TEMPORARY - len("/tmp/") - RANDOM)  # noqa: S108
    temporary = Path(tempfile.mkdtemp(prefix=rest, dir="/tmp"))
    own = {"TMPDIR": str(temporary)} | ({"HOME": str(home)} if home else {})
    listening: set[Listening] = set()
    try:
        with (
            (project / "stderr.txt").open("w+") as log,
            subprocess.Popen(
                command(arm, folder, FLAGS), cwd=project, env=ENVIRONMENT | own, stdout=subprocess.DEVNULL,
                stderr=log, start_new_session=True,
            ) as running,
        ):  # fmt: skip
            looked = time.monotonic()
            while not (folder / "progress.jsonl").exists() and running.poll() is None:
                time.sleep(0.05)
                if time.monotonic() - looked > LOOK_EVERY_SECONDS:
                    listening |= of_session(running.pid)
                    looked = time.monotonic()
            processes = list(_processes(running.pid))
            listening |= of_session(running.pid)
            files = dict(_modes(temporary)) | dict(_modes(folder))
            token = folder / RAY_TOKEN
            token_length = len(token.read_text()) if token.exists() else 0
            reached = list(_reached(listening))
            assert running.poll() is None, "it ended before it was looked at"
            assert 0 == running.wait(LONGEST_SECONDS), log.seek(0) or log.read()[-3000:]
        outlived = list(_outlived(running.pid))
        left = [str(path) for place in (temporary, *([home] if home else [])) for path in place.rglob("*")]
        return Ended(folder, processes, listening, reached, files, token_length, home or Path(), left, outlived)
    finally:
        shutil.rmtree(temporary)


def _modes(folder: Path) -> Iterator[tuple[str, int]]:
    """Of all that is below a folder, by relative paths; what goes meanwhile is left out."""
    for top, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = Path(top, name)
            with suppress(FileNotFoundError):
                yield str(path.relative_to(folder)), path.lstat().st_mode


def _outlived(session: int) -> Iterator[str]:
    """What lives on some seconds after the arm's own end: the system takes a moment for what was killed."""
    deadline = time.monotonic() + DIES_WITHIN_SECONDS
    while (pids := process_session.session_members(session)) and time.monotonic() < deadline:
        time.sleep(0.1)
    for pid in pids:
        with suppress(psutil.Error):
            yield psutil.Process(pid).name()


def _processes(pid: int) -> Iterator[Process]:
    for process in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it ended meanwhile, or is dead and only not waited for
            yield _seen(process)


def _seen(process: psutil.Process) -> Process:
    name = " ".join(process.cmdline()).strip()
    policies = {os.sched_getscheduler(thread.id) for thread in process.threads()}
    variables = process.environ()
    return Process(re.sub(rf"^{WORKER}\..*", WORKER, name), process.nice(), policies, variables)


def of_session(session: int) -> set[Listening]:
    """What listens now in a session, in whatever network: psutil asks that of this process alone."""
    seen = set()
    for pid in process_session.session_members(session):
        with suppress(OSError):  # it ended meanwhile
            descriptors = {os.readlink(one) for one in Path(f"/proc/{pid}/fd").iterdir()}  # noqa: PTH115 (no paths)
            for listening, inode in in_network_of(pid):
                if f"socket:[{inode}]" in descriptors:
                    seen.add(listening)
    return seen


def in_network_of(pid: int | str) -> Iterator[tuple[Listening, str]]:
    """All that listens in the network of a process, whoever's it is, each with its inode."""
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == LISTEN:
                address, port = local.split(":")
                yield Listening(network_of(pid), _in_words(address), int(port, 16)), inode


def network_of(pid: int | str) -> str:
    """The network namespace of a process."""
    return str(Path(f"/proc/{pid}/ns/net").readlink())


def _in_words(address: str) -> str:
    """An address as the kernel's tables have it: words in this machine's byte order."""
    words = bytes.fromhex(address)
    in_order = b"".join(words[at : at + 4][:: 1 if sys.byteorder == "big" else -1] for at in range(0, len(words), 4))
    return str(ip_address(in_order))


def ports_of_its_own(listening: set[Listening]) -> set[int]:
    """Ports in another network than this process's; that of a test beside this one may be the same number."""
    outside = network_of("self")
    return {one.port for one in listening if one.network != outside} - {one.port for one, _ in in_network_of("self")}


def _reached(listening: set[Listening]) -> Iterator[tuple[str, int]]:
    addresses = [one.address for all_ in psutil.net_if_addrs().values() for one in all_ if one.family == socket.AF_INET]
    for address in addresses:
        for port in ports_of_its_own(listening):
            with suppress(ConnectionRefusedError):
                socket.create_connection((address, port), 5).close()
                yield address, port
