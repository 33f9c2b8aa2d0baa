"""How many repeats a stack has with `repeats auto`: what its last comparison says, if it is of this measurement."""

import json
import time
from types import SimpleNamespace
from typing import Any, cast

import pulumi
import pytest

from infra.plan import RunPlan
from infra.repeats import AT_A_TIME, chosen, repeats_now, words
from infra.settings.settings import Settings
from tests.golden import Wording
from training.contract.repeats import AS_MANY_AS_IT_TAKES

THIS = "a" * 64


def comparison(repeats: int, auto: str, measurement: str = THIS, answer: str = "Not decided") -> dict[str, Any]:
    """As much of one as is read, of any version."""
    return {"measurement": measurement, "auto": auto, "answer": answer, "arms": {"ray": {"runs": [{}] * repeats}}}


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        (None, 4),
        (comparison(7, "decided"), 7),
        (comparison(4, "goes on"), 8),
        (comparison(11, "goes on"), 12),
        (comparison(12, "most repeats"), 12),
        (comparison(5, "nothing to decide"), 5),
        (comparison(2, ""), 4),
        (comparison(6, ""), 6),
        (comparison(20, ""), 12),
        (comparison(7, "decided", "of another recipe"), 4),
        (comparison(7, "goes on", "of another recipe"), 4),
        ({"arms": {"ray": {"runs": [{}] * 7}}}, 4),
    ],
)
def test_the_last_comparison_says_how_many_there_are(last: dict[str, Any] | None, expected: int) -> None:
    """Kept if decided, or of a fixed number; four more if not; four of what was never measured."""
    assert expected == repeats_now(last, THIS, AT_A_TIME)


def test_make_up_adds_one_at_a_time_and_a_budget_may_leave_none() -> None:
    """It looks after each."""
    assert [5, 4] == [repeats_now(comparison(4, "goes on"), THIS, number) for number in (1, 0)]


@pytest.mark.parametrize(
    ("name", "last", "number"),
    [
        ("four more", comparison(4, "goes on"), 8),
        ("one more", comparison(6, "goes on"), 7),
        ("no time", comparison(6, "goes on"), 6),
        ("a no that longer training might change", comparison(4, "goes on", answer="Not worth it here"), 8),
    ],
)
def test_an_update_says_what_it_adds(name: str, last: dict[str, Any], number: int, wording: Wording) -> None:
    """And what is still open: an answer that is there is not called undecided."""
    wording("plan", words(last, THIS, number), name)


@pytest.mark.parametrize("last", [None, comparison(4, "goes on", "of another recipe"), comparison(4, "decided")])
def test_a_new_measurement_says_nothing_of_the_one_before(last: dict[str, Any] | None) -> None:
    """Least of all that there is no time for it: it begins with as many repeats as that ended with."""
    assert not words(last, THIS, 4)


def chosen_after(failures: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """The repeats of a stack whose seven are decided, and whose outputs cannot be read so often before they can."""
    outputs = {"comparison": json.dumps(comparison(7, "decided"))}
    errors = iter([Exception("failed to load checkpoint: EOF")] * failures)

    def invoke(*_: object) -> SimpleNamespace:
        for error in errors:
            raise error
        return SimpleNamespace(value={"outputs": outputs})

    for name in ("organization", "project", "stack"):
        monkeypatch.setattr(pulumi, f"get_{name}", lambda: "mine")
    monkeypatch.setattr(pulumi.runtime, "invoke", invoke)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    settings = SimpleNamespace(run=SimpleNamespace(repeats=AS_MANY_AS_IT_TAKES, budget_minutes=None))
    plans = [SimpleNamespace(repeat=repeat, measurement=THIS) for repeat in range(1, 13)]
    return len(chosen(cast("Settings", settings), cast("list[RunPlan]", plans)))


def test_outputs_that_are_being_written_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file backend gives an error meanwhile, and the engine writes at the beginning of an update."""
    assert 7 == chosen_after(3, monkeypatch)


def test_outputs_that_stay_unreadable_refuse_the_update(monkeypatch: pytest.MonkeyPatch) -> None:
    """With four repeats it would delete three."""
    with pytest.raises(pulumi.RunError, match="config set repeats"):
        chosen_after(100, monkeypatch)
