"""A trial in segments: what is handed over, and whether it arrived. A check that can fail, and does."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.search.made import ALONE, RECIPE, failed, result, trial
from training.workloads.search import population
from training.workloads.search.detail import Segment
from training.workloads.search.population import HandOverError, Origin
from training.workloads.search.same_work import of_results

PBT = replace(RECIPE, search_scheduler="pbt")
EMPTY = "0" * 64


def segment(until: int, origin: list[int] | None, found: str, left: str, lr: float = 0.1) -> Segment:
    """One that trained an epoch."""
    return Segment(
        config={"lr": lr}, began=10.0 * until, ended=10.0 * until + 4, until=until, epochs=1, metric=0.5,
        origin=origin, digest_before=found, digest_after=left,
    )  # fmt: skip


FIRST = [segment(1, None, EMPTY, "a", lr=0.1), segment(2, [0, 0], "a", "b", lr=0.1)]
SECOND = [segment(1, None, EMPTY, "c", lr=0.3), segment(2, [0, 0], "a", "d", lr=0.12)]
TAKEN = [({"lr": 0.1}, {"lr": 0.12})]


def test_what_arrived_as_it_was_left_is_right() -> None:
    """Of the trial itself, and of another."""
    population.check({0: FIRST, 1: SECOND}, TAKEN)


@pytest.mark.parametrize(
    ("segments", "taken"),
    [
        pytest.param([SECOND[0], replace(SECOND[1], digest_before="c")], TAKEN, id="another folder"),
        pytest.param([SECOND[0], replace(SECOND[1], digest_before=EMPTY)], TAKEN, id="begun anew"),
        pytest.param([SECOND[0], replace(SECOND[1], origin=[1, 0], digest_before="c")], TAKEN, id="its own"),
        pytest.param(SECOND, [({"lr": 0.1}, {"lr": 0.08})], id="other values"),
        pytest.param(SECOND, TAKEN * 2, id="one of two"),
    ],
)
def test_what_did_not_arrive_is_refused(segments: list[Segment], taken: list[tuple[dict[str, float], ...]]) -> None:
    """By its digest, or because what Ray said of it is in no record."""
    with pytest.raises(HandOverError):
        population.check({0: FIRST, 1: segments}, taken)  # type: ignore[arg-type]


def test_a_checkpoint_is_copied_byte_for_byte(tmp_path: Path) -> None:
    """With empty folders and links, and with who left it; what was there before is gone."""
    left, kept, found = tmp_path / "left", tmp_path / "kept", tmp_path / "found"
    (left / "deep" / "empty").mkdir(parents=True)
    (left / "deep" / "weights").write_bytes(bytes(range(256)) * 5000)
    (left / "newest").symlink_to("deep")
    kept.mkdir()
    found.mkdir()
    (found / "old").touch()
    origin = Origin(trial=3, segment=1, until=4)

    population.save(left, kept, origin)
    loaded = population.load(kept, found)

    assert origin == loaded
    assert population.digest(left) == population.digest(found)


def _renamed(folder: Path) -> None:
    (folder / "weights").rename(folder / "weight")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda folder: (folder / "weights").write_bytes(b"1\0"), id="a byte"),
        pytest.param(lambda folder: (folder / "more").mkdir(), id="an empty folder"),
        pytest.param(_renamed, id="a name"),
        pytest.param(lambda folder: (folder / "weights").unlink(), id="nothing in it"),
    ],
)
def test_a_digest_is_of_all_that_is_in_a_folder(tmp_path: Path, change: Callable[[Path], object]) -> None:
    """Of names, too."""
    (tmp_path / "weights").write_bytes(b"1")
    before = population.digest(tmp_path)
    change(tmp_path)

    assert before != population.digest(tmp_path)


@pytest.mark.parametrize(
    ("made", "before", "is_one"),
    [
        pytest.param(segment(2, [0, 0], "a", "b"), 1, True, id="went on"),
        pytest.param(replace(segment(2, [0, 0], "a", "b"), epochs=2), 1, False, id="begun anew"),
        pytest.param(replace(segment(2, [0, 0], "a", "b"), epochs=None), 1, True, id="epochs not seen"),
        pytest.param(segment(1, None, EMPTY, EMPTY), 0, False, id="left nothing"),
    ],
)
def test_a_segment_goes_on_and_leaves_something(made: Segment, before: int, *, is_one: bool) -> None:
    """Else population based training would be something else than it says."""
    assert is_one is not bool(population.why_not(made, before, EMPTY))


def test_a_trial_is_the_sum_of_its_segments() -> None:
    """Its time is that of its segments, without what lies between; its curve goes on, and its values are the last."""
    parts = [
        trial(0, 10, 14, epochs=1, points=[[3.0, 0.5]], steps=7, config={"lr": 0.1}),
        trial(0, 20, 24, epochs=1, points=[[3.5, 0.6]], steps=7, config={"lr": 0.12}, metric=0.6),
    ]

    made = population.joined(1, parts, SECOND)

    assert (made.number, made.epochs, made.steps, made.metric, made.config) == (1, 2, 14, 0.6, {"lr": 0.12})
    assert made.points == [[3.0, 0.5], [13.5, 0.6]]
    assert (made.began, made.ended, made.seconds) == (10, 24, 8)


def test_a_slot_that_waits_for_no_trial_is_not_idle() -> None:
    """Two trials take turns in two slots: between their segments 2 s pass in each slot, which are counted."""
    starts = {0: [(10, 12), (14, 16)], 1: [(10, 12), (14, 16)]}
    trials = [
        trial(
            number, 10, 16, segments=[
                replace(segment(1, None, EMPTY, "a"), began=began, ended=ended) for began, ended in starts[number]
            ],
        )
        for number in starts
    ]  # fmt: skip

    made = result("ray", trials, PBT)

    assert made.search is not None
    assert (made.search.trial_seconds, made.search.between_trials_seconds) == (4.0, 2.0)


def test_a_comparison_counts_trials_by_their_epochs() -> None:
    """As many as a population has, however many were stopped early to train so many epochs."""
    more = [trial(number, 10 + number, 11 + number, state="stopped", epochs=1) for number in range(4, 9)]

    assert 4 == result("baseline", [*ALONE, *more], PBT).epochs_completed


def test_trials_of_a_population_are_not_compared_by_their_number() -> None:
    """They change their values, and other arms make other numbers of them; one that failed in one arm alone counts."""
    more = [*ALONE, trial(4, 20, 21)]
    broken = [failed(0, 10, 12), *ALONE[1:]]
    known = of_results([result("baseline", more, PBT), result("ray", ALONE, PBT)])

    assert {item: value for item, (value, _) in known.items()} == {"configurations": None, "epochs": None}
    assert of_results([result("baseline", more, PBT), result("ray", broken, PBT)])["epochs"][0] is False
