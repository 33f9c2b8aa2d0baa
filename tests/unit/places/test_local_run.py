"""A local run's provider without an engine: when it repeats a run, how it is called, what it prints and says."""

import itertools
from pathlib import Path
from typing import Any

import pytest
from pulumi.output import UNKNOWN

from infra.places.local import guard
from infra.places.local import run as local_run
from tests.golden import Wording
from training.contract.arms import ARMS
from training.contract.progress import Progress
from training.contract.provenance import PROJECT
from training.contract.recipe import from_texts, texts
from training.launch import entry
from training.machine import output
from training.workloads.cnn.recipe import CnnRecipe

OLDS = {"ownKey": "a", "measurement": "m", "result": "{}", "timeoutMinutes": 30}


def properties(arm: str = "ray", **changes: Any) -> dict[str, Any]:
    """A run's properties as Pulumi hands them over: its numbers are floats."""
    recipe = texts(CnnRecipe(workers=3, sync_batch_norm=True, learning_rate=1e-05).to_dict())
    given = {
        "stack": "local",
        "name": f"{arm}-1",
        "arm": arm,
        "recipe": recipe,
        "datasetPath": "",
        "storage": "",
        "rayDashboard": False,
    }
    return given | {"timeoutMinutes": 30.0} | changes


@pytest.mark.parametrize(
    ("news", "expected"),
    [
        # Neither its deadline nor an input that a later version of the program adds
        ({"timeoutMinutes": 99, "somethingNew": "x"}, []),
        ({"ownKey": "b"}, ["ownKey"]),
        ({"measurement": "n"}, ["measurement"]),
        # Of a kept run the measurement in the state stays that of its creation
        ({"keep": True, "measurement": "n"}, []),
        ({"keep": True, "ownKey": "b"}, ["ownKey"]),
        # A preview shows what is not known as a repeat, rather than failing on a value that is none
        ({"ownKey": UNKNOWN, "measurement": UNKNOWN}, ["ownKey", "measurement"]),
    ],
)
def test_a_run_is_repeated_when_what_it_depends_on_changed(news: dict[str, Any], expected: list[str]) -> None:
    """By its own key, and by that of all runs unless it is kept."""
    found = local_run.TrainingRunProvider().diff("id", OLDS, {"ownKey": "a", "measurement": "m", "keep": False} | news)

    # None: a preview shows what differs, and no more
    assert (expected, None if expected else False) == (found.replaces, found.changes)


def test_only_the_first_run_of_an_update_is_warmed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It alone would read files from the disk, and the comparison would hold that against its arm."""
    monkeypatch.setattr(local_run, "_runs_begun", itertools.count())
    commands = [local_run._guard_command(properties(arm), Path("/runs/x")) for arm in ("baseline", "ray")]

    of_guard = [command[: command.index("--")] for command in commands]

    assert [True, False] == [any(word.startswith("--warm-up={") for word in words) for words in of_guard]


@pytest.mark.parametrize("arm", ARMS)
def test_the_entry_point_reads_the_same_recipe(arm: str) -> None:
    """Every field, through the command line; the dashboard and the data set's folder with it."""
    given = properties(arm, datasetPath=str(PROJECT), rayDashboard=True)
    command = local_run._guard_command(given, Path("/runs/x"))
    flags = command[command.index(f"training.{arm}") + 1 :]

    request = entry.parse(arm, None, flags)

    assert CnnRecipe.from_dict(from_texts(given["recipe"])) == request.recipe
    assert str(PROJECT) == request.dataset_path
    assert (ARMS[arm].start == "ray") == request.dashboard
    assert "1800" == command[command.index("--deadline") + 1]


def test_a_run_s_folder_is_this_user_s_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its log and Ray's files tell of this machine; the folder around it is made when it is missing."""
    monkeypatch.setattr(local_run, "PROJECT", tmp_path)
    folder = local_run._new_folder("local", "ray-1")

    assert tmp_path / "runs" / "local" == folder.parent
    assert 0o700 == folder.stat().st_mode & 0o777


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (1, "exit code 1"),
        (guard.DEADLINE, "pulumi config set runTimeoutMinutes 60"),
        (guard.DEADLINE, "a first download of its data included"),
        (guard.SIGNALLED + 9, "memory"),
        (guard.SIGNALLED + 15, "SIGTERM"),
        (-9, "guard process was killed by SIGKILL"),
    ],
)
def test_the_cause_of_a_failure_is_said(code: int, says: str) -> None:
    """With the line to type where there is one."""
    assert says in local_run._cause(code, properties())


def test_a_run_prints_its_first_and_its_last_line_and_few_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred quick epochs are no hundred lines. How to stop is said with the first run of an update alone."""
    printed: list[str] = []
    monkeypatch.setattr("os.write", lambda _, line: printed.append(line.decode()))
    monkeypatch.setattr(local_run, "_runs_reported", itertools.count())
    say, progress = local_run._Reporter("ray-1", tmp_path), Progress(tmp_path)
    values = {"loss": 1.0, "accuracy": 0.5, "imagesPerSecond": 10.0, "secondsLeft": 1.0}
    for epoch in range(1, 101):
        progress.write("epoch", epoch=epoch, epochs=100, **values)
        say.news()
    progress.write("note", text="a note")
    say.news()
    progress.write("epoch", epoch=100, epochs=100, **values)

    say.news(last=True)

    assert printed[0].startswith("ray-1: starts (Ctrl-C")
    assert "ray-1: a note\n" in printed
    assert printed[-1].startswith("ray-1: epoch 100/100")
    assert 5 > len(printed)
    local_run._Reporter("ray-2", tmp_path)
    assert [local_run.HOW_TO_STOP in line for line in (printed[0], printed[-1])] == [True, False]


def test_a_log_without_a_newline_makes_a_short_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pulumi hands it on: a progress bar would else be all of it."""
    monkeypatch.setattr(local_run, "PROJECT", tmp_path)
    (tmp_path / "log.txt").write_bytes(b"y" * 2**20)

    message = local_run._failure("ray-1", "it ended with exit code 3", tmp_path)

    assert output.LONGEST_SHOWN < len(message) < 2 * output.LONGEST_SHOWN


def test_a_failure_on_a_busy_machine_repeats_the_last_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """In one line below the log: what Ray or TensorFlow print about lost heartbeats does not name the cause."""
    monkeypatch.setattr(local_run, "PROJECT", tmp_path)
    (tmp_path / "log.txt").write_text("heartbeat timeout\n")
    quiet = local_run._failure("ray-1", "it ended with exit code 1", tmp_path)
    for cpus in (1.2, 1.9):
        Progress(tmp_path).write("note", text=f"other programs take {cpus} of 2 CPUs", isBusy=True)
    Progress(tmp_path).write("note", text="another note")

    busy = local_run._failure("ray-1", "it ended with exit code 1", tmp_path)

    assert [line for line in busy.splitlines() if line not in quiet.splitlines()] == [busy.splitlines()[-2]]
    assert "1.9" in busy.splitlines()[-2]
    wording("local", busy)
