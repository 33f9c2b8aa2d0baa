"""cli.stack.state: whose a lock is, what an update left half done, and how much a stack holds."""

from __future__ import annotations

import gzip
import json
import os
import shlex
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from cli.setup.project import ToolError
from cli.stack import followed, recovery, session, state
from cli.stack import stack as stack_command
from cli.stack.update import Update
from tests.golden import Wording
from tests.limits import wait_for

URN = "urn:pulumi:local::p::t::a"
ROOT = {"type": "pulumi:pulumi:Stack", "urn": "urn:pulumi:local::p::pulumi:pulumi:Stack::p-local"}
PROVIDER = {"type": "pulumi:providers:pulumi-python", "urn": "urn:provider"}
RESOURCE = {"type": "pulumi-python:dynamic:Resource", "urn": URN}
CREATING = {"type": "creating", "resource": RESOURCE}


@pytest.fixture
def living_pulumi() -> Iterator[int]:
    """The number of a live process with pulumi in its command line."""
    command = ["sh", "-c", "echo; read line", "pulumi"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()  # before that its command line may still be empty
        yield process.pid


@pytest.fixture
def dead_pid() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def _lock(backend: Path, pid: int, hostname: str = "") -> None:
    folder = backend / "locks/organization/p/local"
    folder.mkdir(parents=True, exist_ok=True)
    content = {"pid": pid, "username": "u", "hostname": hostname or socket.gethostname()}
    (folder / f"{len(list(folder.iterdir()))}.json").write_text(json.dumps(content), encoding="utf-8")


def test_a_lock_of_a_dead_process_of_this_machine_is_stale(tmp_path: Path, dead_pid: int) -> None:
    """pulumi was killed and could not remove it. Where there is no lock, `pulumi cancel` is not called for nothing."""
    assert not state.has_only_stale_locks(tmp_path, "p", "local")
    _lock(tmp_path, dead_pid)

    assert state.has_only_stale_locks(tmp_path, "p", "local")
    assert not state.has_only_stale_locks(tmp_path, "p", "other")


def test_a_lock_of_a_live_pulumi_is_not_stale(tmp_path: Path, living_pulumi: int, dead_pid: int) -> None:
    """Also beside a stale one: `pulumi cancel` removes them all."""
    _lock(tmp_path, dead_pid)
    assert state.running(tmp_path, "p", "local") is None
    _lock(tmp_path, living_pulumi)

    assert not state.has_only_stale_locks(tmp_path, "p", "local")
    assert state.running(tmp_path, "p", "local") == living_pulumi


def test_a_lock_whose_number_another_program_has_by_now_is_stale(tmp_path: Path) -> None:
    """Process numbers are used again."""
    process = subprocess.Popen(["sleep", "60"])
    _lock(tmp_path, process.pid)
    stale = state.has_only_stale_locks(tmp_path, "p", "local")
    process.kill()
    process.wait()

    assert stale


def test_a_lock_of_another_machine_is_left_alone(tmp_path: Path, dead_pid: int) -> None:
    """Whether its process lives can't be seen from here."""
    _lock(tmp_path, dead_pid, hostname="elsewhere")

    assert state.running(tmp_path, "p", "local") is None
    assert not state.has_only_stale_locks(tmp_path, "p", "local")


@pytest.mark.parametrize("content", ["", '{"pid": 1', "[]", '{"hostname": "x"}'])
def test_a_lock_that_was_cut_off_is_nobody_s(tmp_path: Path, dead_pid: int, content: str) -> None:
    """A full disk does it. It is not removed, whoever has the others, and is no traceback."""
    _lock(tmp_path, dead_pid)
    cut = tmp_path / "locks/organization/p/local/cut.json"
    cut.write_text(content, encoding="utf-8")
    file = _state(tmp_path, "local.json", b"")
    _state(tmp_path, "local.json.bak", WHOLE)

    assert [cut] == state.unreadable_locks(tmp_path, "p", "local")
    assert not state.has_only_stale_locks(tmp_path, "p", "local")
    assert state.running(tmp_path, "p", "local") is None
    assert not restored(tmp_path)
    assert b"" == file.read_bytes()


def test_a_lock_that_was_cut_off_is_said_with_the_line_that_removes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is changed."""
    monkeypatch.setattr(recovery, "project_name", lambda: "p")
    cut = tmp_path / "with blank/.pulumi/locks/organization/p/local/cut.json"
    cut.parent.mkdir(parents=True)
    cut.touch()
    variables = {"PULUMI_BACKEND_URL": f"file://{tmp_path}/with%20blank"}
    stack = recovery.Recovery(stack="local", target="local", environment=variables)

    with pytest.raises(ToolError, match="nothing was changed") as refused:
        stack.clear(tmp_path, {})

    (line,) = [line for line in str(refused.value).splitlines() if line.startswith("  rm ")]
    assert [str(cut)] == shlex.split(line)[1:]


@pytest.fixture
def container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Has the processes of a checkout's commands be in the container of that number, first of all in 7."""

    def be_in(number: str) -> None:
        monkeypatch.setattr(state, "_namespace", lambda: number and f"boot pid:[{number}]")

    monkeypatch.setattr(state, "ROOT", tmp_path / "checkout")
    be_in("7")
    return be_in


def test_in_a_container_a_lock_is_stale_only_if_it_was_taken_there(
    tmp_path: Path, dead_pid: int, container: Callable[[str], None]
) -> None:
    """Another container, or the machine itself, may have the same name, and processes that are not seen from here."""
    with state.begun(tmp_path, "p", "local"):
        pass
    _lock(tmp_path, dead_pid)
    assert not state.has_only_stale_locks(tmp_path, "p", "local")
    for lock in tmp_path.rglob("locks/**/*.json"):
        lock.unlink()

    with state.begun(tmp_path, "p", "local"):  # killed: it leaves its lock
        _lock(tmp_path, dead_pid)

    assert state.has_only_stale_locks(tmp_path, "p", "local")
    container("8")
    assert not state.has_only_stale_locks(tmp_path, "p", "local")
    container("4026531836")
    assert state.has_only_stale_locks(tmp_path, "p", "local")


def test_an_update_that_another_container_makes_is_never_cancelled(
    tmp_path: Path, dead_pid: int, container: Callable[[str], None]
) -> None:
    """Whatever is begun here meanwhile: it is refused by the other's lock, and leaves none of its own."""
    with state.begun(tmp_path, "p", "local"):
        _lock(tmp_path, dead_pid)  # alive there, and not seen from here
        container("8")
        for _ in range(2):
            with state.begun(tmp_path, "p", "local"):
                assert not state.has_only_stale_locks(tmp_path, "p", "local")
            assert not state.has_only_stale_locks(tmp_path, "p", "local")
        container("7")

    assert state.has_only_stale_locks(tmp_path, "p", "local")  # killed: it is known where


@pytest.mark.parametrize("number", ["7", ""], ids=["removed", "containers are not told apart, as /proc is hidden"])
def test_a_lock_of_which_no_command_here_knows_is_not_stale(
    number: str, tmp_path: Path, dead_pid: int, container: Callable[[str], None]
) -> None:
    """After `pulumi cancel` a plain `pulumi up` in another container has a lock that no `make` there recorded."""
    container(number)
    with state.begun(tmp_path, "p", "local"):
        _lock(tmp_path, dead_pid)
    if number:
        (left,) = tmp_path.rglob("locks/**/*.json")
        left.rename(left.with_name("another.json"))

    assert not state.has_only_stale_locks(tmp_path, "p", "local")


def test_a_preview_takes_no_lock_and_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what may leave a lock is."""
    seen: list[str] = []

    def stand_in(module: object, function: str, answer: object, name: str) -> None:
        def call(*_: object, **__: object) -> object:
            seen.append(name)
            return answer

        monkeypatch.setattr(module, function, call)

    stand_in(state, "begun", nullcontext(), "begun")
    stand_in(session, "run", 0, "plain")
    stand_in(followed, "run", (0, Update()), "run")
    stand_in(followed, "run_quietly", (0, Update()), "run_quietly")
    monkeypatch.setattr(followed, "print_output", lambda *_: None)
    config = tmp_path / "Pulumi.local.yaml"
    config.write_text("config: {}\n")
    monkeypatch.setattr(stack_command.Stack, "select", lambda _: 0)
    monkeypatch.setattr(stack_command.Stack, "_write_config", lambda _: config)
    stack = object.__new__(stack_command.Stack)
    handled = recovery.Recovery(stack="local", target="local", environment={})
    vars(stack).update(name="local", target="local", environment={}, overrides={}, _recovery=handled)
    stack.preview()
    for verb in ("up", "destroy"):
        stack._run(verb, config=config)

    assert ["run_quietly", "begun", "run", "begun", "plain"] == seen


@pytest.mark.skipif(not Path("/proc/self").exists() or os.geteuid() != 0, reason="makes a container's processes")
def test_a_pulumi_in_a_container_is_said_by_its_number_here(tmp_path: Path) -> None:
    """Its lock has the number that it has inside: `kill -INT 1` would end something else."""
    inside = ["unshare", "--pid", "--fork", "--kill-child", "bash", "-c", "exec -a pulumi sleep 600"]
    process = subprocess.Popen(inside)
    try:
        _lock(tmp_path, 1)
        found = wait_for(lambda: state.running(tmp_path, "p", "local"), "its number")
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    finally:
        process.kill()
        process.wait()

    assert [str(found)] == children


def test_a_pulumi_in_a_container_is_seen_by_its_number_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lock has the number that it has inside, which nothing or something else has outside."""
    process = tmp_path / "4711"
    process.mkdir()
    (process / "status").write_text("Name:\tpulumi\nNSpid:\t4711\t12\n")
    (process / "cmdline").write_bytes(b"pulumi\0up\0")

    assert {4711, 12} == state._numbers(process)
    assert state._is_pulumi(process)
    assert {4712} == state._numbers(tmp_path / "4712")
    assert not state._is_pulumi(tmp_path / "4712")


def _state(backend: Path, name: str, content: bytes) -> Path:
    file = backend / "stacks/p" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    file.with_name(f"{name}.attrs").write_text("{}")
    return file


def restored(backend: Path) -> bool:
    """Whether a state of the project was cut off, and there was a whole one to put back."""
    return any(state.restore(backend, file) for file in state.cut_off(backend, "p").values())


WHOLE = json.dumps({"version": 3, "checkpoint": {"latest": {"resources": [ROOT]}}}).encode()


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [({"comparison": "{}"}, "{}"), ({}, None), (None, None), ({"comparison": {"ciphertext": ""}}, {"ciphertext": ""})],
    ids=["a text", "none", "no outputs", "a secret"],
)  # fmt: skip
@pytest.mark.parametrize(("ending", "packed"), [(".json", bytes), (".json.gz", gzip.compress)])
def test_an_output_is_read_from_the_state(
    tmp_path: Path, ending: str, packed: Callable[[bytes], bytes], outputs: dict[str, object] | None,
    expected: object,
) -> None:  # fmt: skip
    """As it stands there: of a secret the ciphertext."""
    stack = ROOT | ({} if outputs is None else {"outputs": outputs})
    content = json.dumps({"version": 3, "checkpoint": {"latest": {"resources": [stack]}}}).encode()
    _state(tmp_path, f"local{ending}", packed(content))
    _state(tmp_path, f"local{ending}.bak", b"")
    _state(tmp_path, "other.json", WHOLE)

    assert expected == state.output(tmp_path, "p", "local", "comparison")


@pytest.mark.parametrize("content", [b"", b"[]", WHOLE[:40], b'{"version": 3, "checkpoint": {"latest": null}}'])
def test_of_what_is_no_whole_state_the_engine_is_asked(tmp_path: Path, content: bytes) -> None:
    """Nothing is read from it, nor from that of a stack that is not there, or is there twice."""
    _state(tmp_path, "local.json", content)
    _state(tmp_path, "twice.json", WHOLE)
    _state(tmp_path, "twice.json.gz", gzip.compress(WHOLE))

    assert [None] * 3 == [state.output(tmp_path, "p", stack, "comparison") for stack in ("local", "twice", "none")]


@pytest.mark.parametrize("cut", [b"", WHOLE[:40]])
@pytest.mark.parametrize(("ending", "packed"), [(".json", bytes), (".json.gz", gzip.compress)])
def test_a_state_that_was_cut_off_is_the_one_before_it(
    tmp_path: Path, cut: bytes, ending: str, packed: Callable[[bytes], bytes]
) -> None:
    """What a full disk leaves: every command would say that the checkpoint ends too early."""
    file = _state(tmp_path, f"local{ending}", packed(WHOLE)[: len(cut)])
    _state(tmp_path, f"local{ending}.bak", packed(WHOLE))

    assert restored(tmp_path)
    assert packed(WHOLE) == file.read_bytes()
    assert not restored(tmp_path)


@pytest.mark.parametrize("cut", [b"", None])
@pytest.mark.parametrize("newest", ["of the last update", "in this update"])
def test_the_newest_of_the_copies_is_put_back(tmp_path: Path, newest: str, cut: bytes | None) -> None:
    """There was no room for the copy before the write, so it is older than the last update's, which has the outputs."""
    file = _state(tmp_path, "local.json", b"")
    older, newer = _at("2026-11-28T01:36:50.061818441Z"), _at("2026-11-28T02:36:50.1+01:00")
    in_update, of_update = (older, newer) if newest == "of the last update" else (newer, older)
    _state(tmp_path, "local.json.bak", in_update if cut is None else cut)
    folder = tmp_path / "backups/p/local"
    folder.mkdir(parents=True)
    (folder / "local.1795829812306447174.json").write_bytes(of_update)
    (folder / "local.1795829812306447174.json.attrs").write_text("attributes of the backup", encoding="utf-8")

    assert restored(tmp_path)
    assert (newer if cut is None else of_update) == file.read_bytes()


def _at(time: str) -> bytes:
    latest = {"manifest": {"time": time}, "resources": [ROOT]}
    return json.dumps({"version": 3, "checkpoint": {"latest": latest}}).encode()


def test_a_state_without_attributes_is_put_back_too(tmp_path: Path) -> None:
    """Where the backend's address has metadata=skip."""
    file, before = _state(tmp_path, "local.json", b""), _state(tmp_path, "local.json.bak", WHOLE)
    for one in (file, before):
        one.with_name(f"{one.name}.attrs").unlink()

    assert restored(tmp_path)
    assert WHOLE == file.read_bytes()


def test_a_state_that_is_being_written_is_left_alone(tmp_path: Path, living_pulumi: int) -> None:
    """Between emptying the file and writing it there is nothing in it, for a moment."""
    file = _state(tmp_path, "local.json", b"")
    _state(tmp_path, "local.json.bak", WHOLE)
    _lock(tmp_path, living_pulumi)

    assert not restored(tmp_path)
    assert b"" == file.read_bytes()


@pytest.mark.parametrize(("now", "before"), [(WHOLE, WHOLE), (b"", b""), (b"", None)])
def test_a_state_that_is_whole_or_has_none_before_it_is_left_alone(
    tmp_path: Path, now: bytes, before: bytes | None
) -> None:
    """The newest that there is, and nothing where there is none: a backup alone may be of an earlier stack of that
    name."""
    file = _state(tmp_path, "local.json", now)
    if before is not None:
        _state(tmp_path, "local.json.bak", before)
    else:
        folder = tmp_path / "backups/p/local"
        folder.mkdir(parents=True)
        (folder / "local.1795829812306447174.json").write_bytes(WHOLE)

    assert not restored(tmp_path)
    assert now == file.read_bytes()


@pytest.mark.parametrize("copy", [b"", None])
@pytest.mark.parametrize("of", ["local", "other"])
def test_a_state_without_a_whole_copy_is_said_with_what_to_type(
    of: str, copy: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """Of another stack of the project, too: `pulumi stack ls` ends with it. The line leaves nothing to say."""
    monkeypatch.setattr(recovery, "project_name", lambda: "p")
    backend = tmp_path / "with blank/.pulumi"
    file = _state(backend, f"{of}.json", WHOLE[:40])
    if copy is not None:
        _state(backend, f"{of}.json.bak", copy)
    variables = {"PULUMI_BACKEND_URL": f"file://{tmp_path}/with%20blank"}
    stack = recovery.Recovery(stack="local", target="local", environment=variables)

    with pytest.raises(ToolError, match="nothing was changed") as refused:
        stack.restore_state()

    assert WHOLE[:40] == file.read_bytes()
    wording("stack", str(refused.value))
    subprocess.run(str(refused.value).splitlines()[-1], shell=True, check=True)  # noqa: S602 - as its user would
    stack.restore_state()
    assert not file.exists()


@pytest.mark.parametrize("copy", [WHOLE, b""])
def test_what_a_stack_holds_whose_state_was_cut_off(copy: bytes, tmp_path: Path) -> None:
    """It is what the copy says; without one it is not known, and not nothing."""
    _state(tmp_path, "local.json", b"")
    _state(tmp_path, "local.json.bak", copy.replace(b"[", b"[" + json.dumps(RESOURCE).encode() + b", "))

    if copy:
        assert {"p/local": 1} == state.stacks_with_resources(tmp_path)
    else:
        with pytest.raises(ToolError, match="nothing was changed"):
            state.stacks_with_resources(tmp_path)


@pytest.mark.parametrize(
    ("url", "folder"),
    [
        ("file:///a/b", Path("/a/b/.pulumi")),
        ("file:///a%20b?metadata=skip", Path("/a b/.pulumi")),
        ("file://~/x", Path(os.environ["HOME"], "x/.pulumi")),
        ("", None),
        ("https://api.example.com", None),
        ("s3://bucket", None),
    ],
)
def test_the_folder_of_a_file_backend(url: str, folder: Path | None) -> None:
    """As pulumi itself reads the address; the locks of another backend are not files of this machine."""
    assert state.file_backend(url) == folder


def test_what_an_update_left_half_done_is_found() -> None:
    """A pending update or delete is pulumi's to continue; an update that was killed at once has no root yet."""
    pending = {"pending_operations": [CREATING, {"type": "updating", "resource": RESOURCE}]}

    assert [[URN], []] == [state.pending_creates(each) for each in (pending, {})]
    assert [ROOT["urn"], None] == [state.root_urn(each) for each in ({"resources": [PROVIDER, ROOT]}, {})]


def test_what_stacks_hold_is_counted(tmp_path: Path) -> None:
    """Resources and begun creates count, pulumi's own bookkeeping does not; compressed files are read."""
    folder = tmp_path / "stacks" / "p"
    folder.mkdir(parents=True)
    held = {"checkpoint": {"latest": {"resources": [ROOT, PROVIDER, RESOURCE], "pending_operations": [CREATING]}}}
    (folder / "local.json").write_text(json.dumps(held), encoding="utf-8")
    (folder / "local.json.bak").write_text("not read", encoding="utf-8")
    (folder / "local.json.attrs").write_text("not read", encoding="utf-8")
    (folder / "ci.json.gz").write_bytes(gzip.compress(json.dumps(held).encode()))
    (folder / "empty.json").write_text(json.dumps({"checkpoint": {"latest": None}}), encoding="utf-8")

    assert state.stacks_with_resources(tmp_path) == {"p/ci": 2, "p/local": 2}
