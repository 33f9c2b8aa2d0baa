"""The ranks of a trial get one answer to a report, whichever asks first, and whoever has gone away."""

import json
import selectors
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from training.workloads.search import questions
from training.workloads.search.questions import Questions, Report


class Asked:
    """The questions at a socket, and ranks that ask."""

    def __init__(self, path: Path) -> None:
        self.watch = selectors.DefaultSelector()
        self.path, self.questions = path, Questions(path, self.watch)
        self.ranks: list[socket.socket] = []

    def connect(self) -> socket.socket:
        """A rank that has asked nothing yet."""
        rank = socket.socket(socket.AF_UNIX)
        rank.connect(str(self.path))
        rank.settimeout(5)
        self.ranks.append(rank)
        return rank

    def next(self) -> Report | None:
        """What is to be decided, once all has been read that was sent."""
        while ready := self.watch.select(0):
            for key, _ in ready:
                key.data()
        return self.questions.next()


@pytest.fixture
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    """The questions of one trial."""
    asked = Asked(tmp_path_factory.mktemp("s") / "s")
    yield asked
    asked.questions.close()
    asked.watch.close()
    for rank in asked.ranks:
        rank.close()


def test_a_rank_that_is_dead_is_not_told_to_stop(asked: Asked) -> None:
    """It has ended before it could be."""
    dead, living = asked.connect(), asked.connect()
    ask(dead, 0, 1, 0.5)
    assert asked.next() is not None
    dead.close()
    asked.questions.answer(1, goes_on=False)
    before = asked.questions.has_told_to_stop
    ask(living, 1, 1, 0.5)
    asked.next()

    assert (False, True) == (before, asked.questions.has_told_to_stop)


def ask(connection: socket.socket, rank: int, report: int, value: float) -> None:
    """A rank asks."""
    connection.sendall(json.dumps({"rank": rank, "report": report, "value": value}).encode() + b"\n")


def heard(connection: socket.socket) -> str:
    """What a rank was answered; "" where it was not."""
    connection.setblocking(False)
    try:
        return connection.recv(64).decode()
    except BlockingIOError:
        return ""


def test_rank_0_s_value_is_decided_on_and_all_get_the_answer(asked: Asked) -> None:
    """Whoever asks first, and who comes when it is decided already."""
    ranks = [asked.connect() for _ in range(3)]
    ask(ranks[1], 1, 1, 7.0)
    before = asked.next()
    ask(ranks[0], 0, 1, 0.5)
    report = asked.next()
    again = asked.next()
    asked.questions.answer(1, goes_on=True)
    ask(ranks[2], 2, 1, 9.0)
    late = asked.next()

    assert before is again is late is None
    assert report is not None
    assert (1, 0.5) == (report.number, report.value)
    assert ["go\n"] * 3 == [heard(rank) for rank in ranks]


def test_a_stop_is_the_answer_to_all_that_is_asked_later(asked: Asked) -> None:
    """A rank may be a report ahead, or behind."""
    ranks = [asked.connect() for _ in range(3)]
    ask(ranks[0], 0, 2, 0.5)
    asked.next()
    asked.questions.answer(2, goes_on=False)
    ask(ranks[1], 1, 1, 0.5)
    ask(ranks[2], 2, 3, 0.5)

    assert asked.next() is None
    assert ["stop\n"] * 3 == [heard(rank) for rank in ranks]


def test_a_lowest_rank_stands_for_one_that_reports_nothing(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while: it might be slower."""
    ranks = [asked.connect() for _ in range(2)]
    ask(ranks[0], 3, 1, 3.0)
    ask(ranks[1], 2, 1, 2.0)
    before, waits = asked.next(), asked.questions.has_new
    monkeypatch.setattr(questions, "PATIENCE_SECONDS", 0.0)
    report = asked.next()

    assert (None, True) == (before, waits)
    assert report is not None
    assert 2.0 == report.value
    assert not asked.questions.has_new


def test_a_report_that_was_left_out_is_no_gap(asked: Asked) -> None:
    """Rank 0 reported twice before it asked; another asks about the first of both."""
    ranks = [asked.connect() for _ in range(2)]
    ask(ranks[0], 0, 2, 0.5)
    report = asked.next()
    asked.questions.answer(2, goes_on=True)
    ask(ranks[1], 1, 1, 0.5)

    assert report is not None
    assert asked.next() is None
    assert ["go\n"] * 2 == [heard(rank) for rank in ranks]


@pytest.mark.parametrize("text", [b"hello\n", b"[]\n", b'{"rank": 0}\n', b""])
def test_who_is_no_rank_is_sent_away(asked: Asked, text: bytes) -> None:
    """Or has ended; the others are answered."""
    other, rank = asked.connect(), asked.connect()
    other.sendall(text)
    if not text:
        other.close()
    ask(rank, 0, 1, 0.5)
    report = asked.next()
    asked.questions.answer(1, goes_on=True)

    assert report is not None
    assert "go\n" == heard(rank)
    assert not text or other.recv(64) == b""


def test_who_asks_a_search_that_has_closed_gets_no_answer(asked: Asked) -> None:
    """It is told by the end of the connection."""
    rank = asked.connect()
    ask(rank, 0, 1, 0.5)
    asked.next()
    asked.questions.close()

    assert b"" == rank.recv(64)
