"""What a training asks its search, and what it does with the answers, against a stand-in of the search."""

import json
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.limits import wait_for
from training.workloads.script.environment import decided_by
from training.workloads.script.observe import state
from training.workloads.script.observe.reports import SOCKET
from training.workloads.script.observe.state import State


class Stand:
    """Answers at a socket; what it was asked is kept."""

    def __init__(self, path: Path, answers: list[str], pause_seconds: float = 0.0) -> None:
        self.asked: list[dict[str, Any]] = []
        self._answers, self._pause = answers, pause_seconds
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with self._listener, self._listener.accept()[0] as connection, connection.makefile("rw") as lines:
            for answer in self._answers:
                self.asked.append(json.loads(lines.readline()))
                time.sleep(self._pause)
                lines.write(answer)
                lines.flush()


@pytest.fixture
def path(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The socket that a training of the metric `loss` asks at."""
    path = tmp_path_factory.mktemp("s") / "s"
    for name, value in decided_by(path, "loss").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(state, "_states", [State()])  # notes of one test are not those of another
    return path


def reports(observed: State, *values: float, name: str = "loss", by: str = "keras") -> list[bool]:
    """Whether it is enough after each report."""
    enough = []
    for value in values:
        observed.reports.measured(name, value, by)
        enough.append(observed.is_enough())
    return enough


def test_a_report_is_asked_about_and_a_stop_is_the_end(path: Path) -> None:
    """With its number, value and rank; other metrics are none of the search's."""
    stand, observed = Stand(path, ["go\n", "stop\n"]), State()
    observed.rank = 1
    others = reports(observed, 7.0, name="accuracy")

    assert [False, True] == reports(observed, 0.5, float("nan"))
    assert [False] == others
    assert [(1, 1, 0.5), (1, 2)] == [tuple(stand.asked[0].values()), tuple(stand.asked[1].values())[:2]]
    assert observed.ended_early


def test_the_wait_is_in_no_clock_of_the_steps(path: Path) -> None:
    """And it is told."""
    Stand(path, ["go\n"], pause_seconds=0.2)
    observed = State()
    began = time.perf_counter()
    observed.step(0)
    reports(observed, 0.5)
    observed.step(0)
    passed = time.perf_counter() - began
    told = observed.to_dict()

    assert 0.2 <= told["waitedSeconds"] <= told["ownSeconds"]
    assert told["stepEnds"][1] - told["stepEnds"][0] <= passed - told["waitedSeconds"]


@pytest.mark.parametrize("answers", [None, [], ["g"]], ids=["nobody listens", "it goes away", "amid an answer"])
def test_a_training_goes_on_where_nobody_answers(path: Path, answers: list[str] | None) -> None:
    """It is said once, and not asked again."""
    if answers is not None:
        Stand(path, answers)
    observed = state.current()

    assert [False] * 3 == reports(observed, 1.0, 2.0, 3.0)
    assert 1 == len(observed.notes)
    assert not observed.ended_early


def test_a_number_that_two_report_is_one_report(path: Path) -> None:
    """A callback that passes Keras' logs on to Ray."""
    stand, observed = Stand(path, ["go\n"] * 4), State()
    for value in (1.0, 2.0):
        observed.reports.measured("loss", value, "ray")
        observed.reports.measured("loss", value, "keras")
        observed.is_enough()

    assert [1.0, 2.0] == [question["value"] for question in stand.asked]
    assert [1.0, 2.0] == [value for _, _, value in observed.reports.points]


def test_a_report_of_another_thread_holds_the_one_that_trains(path: Path) -> None:
    """It makes one step more at the most, and is ended; who reported is ended, too."""
    stand = Stand(path, ["go\n", "stop\n"], pause_seconds=0.2)
    observed = State()
    observed.step(0)
    enough = list[bool]()
    reporter = threading.Thread(target=lambda: enough.extend(reports(observed, 1.0, 2.0)))
    reporter.start()
    wait_for(lambda: stand.asked, "the first report")
    while not observed.is_enough() and len(observed.step_ends) < 10_000:
        observed.step(0)
        time.sleep(0.001)
    reporter.join()

    assert [False, True] == enough
    assert observed.ended_early
    assert len(observed.step_ends) < 60
    assert 0.2 <= observed.own_seconds


def test_the_thread_that_trains_writes_the_observation(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When it is at the end of a step: in the one that reports, weights may be those of half a step."""
    monkeypatch.setenv(state.FOLDER, str(tmp_path))
    Stand(path, ["stop\n"])
    observed = state.current()
    observed.step(0)
    reporter = threading.Thread(target=reports, args=(observed, 1.0))
    reporter.start()
    reporter.join()
    before = list(tmp_path.iterdir())

    assert observed.is_enough()
    assert [] == before
    assert 1 == len(list(tmp_path.iterdir()))


def test_a_training_outside_of_a_search_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor one of a search that stops none."""
    monkeypatch.delenv(SOCKET, raising=False)
    observed = State()

    assert [False] * 2 == reports(observed, 1.0, 2.0)
    assert 0.0 == observed.own_seconds == observed.to_dict()["waitedSeconds"]
