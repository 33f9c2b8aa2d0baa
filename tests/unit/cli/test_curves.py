"""`rwi report tensorboard --live`: curves of runs that go on, from storage."""

import itertools
import json
import time
from pathlib import Path

import pytest
from tensorboardX import SummaryWriter  # type: ignore[import-untyped]  # it ships no types

from cli.follow.curves import Curves, live
from report.errors import ShowError
from tests.golden import Wording
from training.contract.progress import NAME
from training.launch.storage.run_storage import Storage

RUN = "0123456789ab/ray-1-20260101T000000Z-aaaaaa"


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float, int]]:
    """What goes into event files: tag, value, epoch."""
    seen: list[tuple[str, float, int]] = []
    add = SummaryWriter.add_scalar

    def adding(self: SummaryWriter, tag: str, value: float, step: int) -> None:
        seen.append((tag, value, step))
        add(self, tag, value, step)

    monkeypatch.setattr(SummaryWriter, "add_scalar", adding)
    return seen


def epochs(kept: Path, number: int, first: int = 1) -> None:
    """A run keeps its progress after so many epochs."""
    path = kept / RUN / NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        {"event": "epoch", "epoch": epoch, "loss": 1 / epoch, "imagesPerSecond": None}
        for epoch in range(first, number + 1)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in [{"event": "start"}, *lines]))


def test_each_epoch_is_written_once_as_it_comes(
    tmp_path: Path, written: list[tuple[str, float, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number that was not measured is no point. All are in one file, however long a run goes on."""
    seconds = itertools.count(1e9)
    monkeypatch.setattr(time, "time", lambda: next(seconds))  # a file's name has the second in which it is made
    curves = Curves(Storage.at(str(tmp_path / "kept")), tmp_path / "curves")
    epochs(tmp_path / "kept", 1)
    assert 1 == curves.update()
    epochs(tmp_path / "kept", 2)
    assert 1 == curves.update() == curves.update()

    assert [("loss/training", 1.0, 1), ("loss/training", 0.5, 2)] == written
    assert 1 == len(list((tmp_path / "curves" / RUN).iterdir()))


def test_of_a_run_that_goes_on_elsewhere_no_epoch_is_lost(
    tmp_path: Path, written: list[tuple[str, float, int]]
) -> None:
    """Its file begins anew there, and is shorter than what was read of it; what is made again is written once."""
    curves = Curves(Storage.at(str(tmp_path / "kept")), tmp_path / "curves")
    epochs(tmp_path / "kept", 4)
    curves.update()
    for last in (4, 5, 6):
        epochs(tmp_path / "kept", last, first=3)
        curves.update()

    assert [1, 2, 3, 4, 5, 6] == [epoch for _, _, epoch in written]


def test_without_curves_it_says_what_keeps_some(tmp_path: Path, wording: Wording) -> None:
    """The keys, and the place that was looked at."""
    with pytest.raises(ShowError, match=r"\./rwi set storage=kept") as refused:
        live("local", {}, tmp_path)
    wording("follow", str(refused.value))
    with pytest.raises(ShowError, match=f"{tmp_path}/kept/local"):
        live("local", {"storage": f"{tmp_path}/kept"}, tmp_path)
