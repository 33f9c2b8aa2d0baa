"""`rwi bench recovery`: what is said of a killed run was seen after the kill."""

import signal
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cli.recovery import recovery as tool
from cli.recovery import run
from cli.recovery.run import Ended, Seen, Victim
from cli.setup.project import ToolError
from cli.stack import settings as stack_settings
from tests.golden import Wording
from tests.limits import LONGEST_SECONDS, wait_for
from tests.unit.results import make_recipe, make_result
from training.contract.result import TrainingResult
from training.launch.storage.checkpoint_store import Manifest
from training.machine import process_session
from training.workloads.cnn.detail import WEIGHTS, detail_of

EVENTS = [
    {"event": "checkpoint", "epoch": 1, "step": 4},
    {"event": "steps", "step": 6},
    {"event": "resume", "epoch": 1, "step": 4},
    {"event": "steps", "step": 7},
]
"""Of a run that is killed in its second epoch."""


def ended(epoch: int, weights: str = "a", result: TrainingResult | None = None) -> Ended:
    """A killed run whose newest checkpoint is that of an epoch."""
    return Ended(
        events=[Seen(float(at), event) for at, event in enumerate(EVENTS)],
        killed_at=1.5,
        result=result or make_result(),
        newest=Manifest(epoch, 0.5, {WEIGHTS: weights}),
    )


def with_another_loss() -> TrainingResult:
    """Of its last epoch."""
    made = make_result()
    *before, last = detail_of(made).history
    return replace(made, detail=replace(detail_of(made), history=[*before, replace(last, loss=last.loss + 0.1)]))


def test_weights_of_before_the_kill_say_nothing(wording: Wording) -> None:
    """Where the newest checkpoint is the one that training went on from, they are equal whatever came after it."""
    with pytest.raises(ToolError) as refused:
        tool.judge(ended(1), ended(1))
    wording("recovery", str(refused.value))

    seen = tool.judge(ended(2), ended(2))
    assert (2, 1, True) == (seen.lost_steps, seen.after_epoch, seen.is_exact)


@pytest.mark.parametrize(
    "changes", [{"weights": "b"}, {"result": with_another_loss()}], ids=["other weights", "another loss"]
)
def test_a_training_that_went_on_elsewhere_is_told(changes: dict[str, Any]) -> None:
    """By its weights, and by the loss of an epoch."""
    assert not tool.judge(ended(2), ended(2, **changes)).is_exact


def test_steps_are_counted_from_the_checkpoint_on_where_the_one_that_was_gone_on_from_was_not_seen() -> None:
    """As on a cluster, whose workers go on for a while without a head."""
    events = [Seen(0.0, {"event": "steps", "step": 6}), Seen(2.0, {"event": "resume", "epoch": 1, "step": 8})]
    killed = replace(ended(2), events=[*events, Seen(5.0, {"event": "checkpoint", "epoch": 2, "step": 12})])

    seen = tool.judge(ended(2), killed)
    assert (0, 3.5) == (seen.lost_steps, seen.recovery_seconds)


def test_runs_of_unlike_many_epochs_are_not_compared(wording: Wording) -> None:
    """As where the checkpoint says nothing of what was before it."""
    made = make_result()
    shorter = replace(made, detail=replace(detail_of(made), history=detail_of(made).history[1:]))

    with pytest.raises(ToolError) as refused:
        tool.judge(ended(2), ended(2, result=shorter))
    wording("recovery", str(refused.value))


ASKED = [[Victim.WORKER], [Victim.HEAD], [Victim.HEAD, Victim.WORKER]]


def test_a_worker_that_is_killed_is_allowed_to_fail_and_no_other() -> None:
    """Where the head is killed Ray sees no failure; what is allowed already stays so."""
    settings = stack_settings.load("local", {"epochs": "4"})

    assert [1, 0, 1] == [tool._recipe(settings, of).max_failures for of in ASKED]
    more = stack_settings.load("local", {"epochs": "4", "maxFailures": "3"})
    assert [3, 3, 3] == [tool._recipe(more, of).max_failures for of in ASKED]


@pytest.mark.parametrize("given", [{"epochs": "1"}, {"epochs": "9", "checkpointEpochs": "5", "storage": "kept"}])
@pytest.mark.parametrize("of", ASKED)
def test_so_few_epochs_that_none_is_kept_after_the_kill_are_refused(given: dict[str, str], of: list[Victim]) -> None:
    """And the number of the line that is printed is accepted."""
    with pytest.raises(ToolError) as refused:
        tool._recipe(stack_settings.load("local", given), of)

    epochs = str(refused.value).partition("--set epochs=")[2]
    assert f"./rwi bench recovery --of {' --of '.join(of)} " in str(refused.value)
    assert tool._recipe(stack_settings.load("local", given | {"epochs": epochs}), of).epochs == int(epochs)


def test_storage_that_this_machine_can_t_read_is_refused_before_anything_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both trainings would be for nothing: their checkpoints are compared here."""
    monkeypatch.setattr(tool, "_runs", lambda *_: pytest.fail("it would have trained"))
    (tmp_path / "local").touch()
    with pytest.raises(ToolError, match=f"{tmp_path}/local"):
        tool.recover("local", {"epochs": "9", "storage": str(tmp_path)}, [Victim.WORKER])


def test_a_run_is_let_in_to_storage_as_the_tool_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the process that trains sees: credentials and endpoint for S3, neither for a folder."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://there")
    monkeypatch.setattr(sys, "executable", str(prints(tmp_path / "python")))

    for name, storage, has in (("far", "s3://bucket/prefix", True), ("near", str(tmp_path), False)):
        said = started_with(wanted(storage=storage), tmp_path / name)
        assert has == ("AWS_SECRET_ACCESS_KEY=secret" in said) == ("AWS_ENDPOINT_URL_S3=http://there" in said)


def test_a_run_has_the_data_set_of_its_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From its folder: without, CIFAR-10 would be downloaded."""
    monkeypatch.setattr(sys, "executable", str(prints(tmp_path / "python")))

    assert "--dataset-path=/data/my cifar\n" in started_with(wanted(dataset_path="/data/my cifar"), tmp_path / "with")
    assert "--dataset-path" not in started_with(wanted(), tmp_path / "without")


def wanted(**changes: Any) -> run.Wanted:
    """A run, with changes."""
    return replace(run.Wanted(recipe=make_recipe(), dataset_path="", storage="/mnt/kept", minutes=1.0), **changes)


def started_with(asked: run.Wanted, folder: Path) -> str:
    """What the process that trains prints."""
    folder.mkdir()
    with run._guarded(asked, folder) as running:
        running.wait(LONGEST_SECONDS)
    return (folder / "log.txt").read_text()


def prints(program: Path) -> Path:
    """A program in the place of Python, which prints its environment and its arguments."""
    program.write_text('#!/bin/sh\nenv\nfor each in "$@"; do echo "$each"; done\n')
    program.chmod(0o700)
    return program


def _has_made(log: Path, files: int) -> bool:
    return log.read_text().count("made") >= files


def test_nothing_of_a_run_that_is_killed_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No process, whatever signals it ignores, and no temporary file; what was printed does, before what follows."""
    monkeypatch.setattr(sys, "executable", str(writes_and_waits(tmp_path / "python")))
    (folder := tmp_path / "run").mkdir()

    for number in (1, 2):
        with run._guarded(wanted(), folder) as running:
            wait_for(partial(_has_made, folder / "log.txt", number))
            run._kill_all(running.pid)
            assert [] == process_session.session_members(running.pid)
            assert -signal.SIGKILL == running.wait(LONGEST_SECONDS)

    first, second = (folder / "log.txt").read_text().splitlines()
    assert first != second
    assert [] == [made for made in (first, second) if Path(made.partition(" ")[2]).exists()]


def writes_and_waits(program: Path) -> Path:
    """A program in the place of Python with a child, neither of which ends at SIGTERM."""
    program.write_text("#!/bin/sh\ntrap '' TERM\ntouch \"$TMPDIR/left\"\necho made $TMPDIR\nsleep 60 &\nwait\n")
    program.chmod(0o700)
    return program
