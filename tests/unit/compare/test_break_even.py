"""Whole clocks: what is fixed and what an epoch takes, and from which epoch on one clock stays below another."""

import pytest

from compare.answer import MOST_EPOCHS, Pair, break_even, ratios_at, ratios_per_epoch
from compare.intervals import ratio_interval
from compare.run_numbers import ONE_EPOCH, Clock, clock_of
from compare.schema import BreakEven
from compare.value import Missing
from tests.unit.results import make_recipe, make_result
from training.contract.result import TrainingResult


def clocks(*parts: tuple[float, float]) -> list[Clock]:
    """Clocks of 8 epochs with these fixed seconds and seconds an epoch."""
    return [Clock(8, fixed + 8 * per_epoch, per_epoch) for fixed, per_epoch in parts]


def known_break_even(pairs: list[Pair]) -> BreakEven:
    """Where clocks meet of which an epoch was timed."""
    meets = break_even(pairs)
    assert isinstance(meets, BreakEven)
    return meets


def test_a_clock_has_the_runs_own_phases() -> None:
    """20 steps of 0.053 s, 0.2 s of validation and a third of the reports an epoch; the rest is fixed."""
    clock = clock_of(make_result("ray"))

    assert clock.per_epoch == pytest.approx(20 * 0.053 + 0.2 + 0.05 / 3)
    assert clock.at(4) == pytest.approx(make_result("ray").seconds.wall + (clock.per_epoch or 0))
    assert clock.at(3) == make_result("ray").seconds.wall


def test_without_timed_steps_only_what_was_trained_is_known() -> None:
    """No model, no guess."""
    clock = clock_of(make_result("ray", train_seconds=None, steps_timed=0))

    assert clock.at(3) == make_result("ray").seconds.wall
    assert clock.at(4) is None
    assert break_even([(clock, clock)]) == Missing(ONE_EPOCH)


def test_clocks_meet_where_the_saved_seconds_have_paid_for_the_start() -> None:
    """10 s more at the start and 0.4 s saved an epoch: ahead from the 26th on, in every repeat."""
    pairs = list(zip(clocks((5, 2.0), (5, 2.0)), clocks((15, 1.6), (15, 1.6)), strict=True))
    meets = known_break_even(pairs)

    assert (meets.possibly, meets.probably, meets.surely) == (26, 26, 26)
    assert ratios_at(pairs, 25) == pytest.approx([1.0, 1.0])


def test_surely_is_by_the_lower_end_and_possibly_by_the_upper() -> None:
    """Repeats that differ widen it: the interval of R lies above 1 from `surely` on, and not one epoch before."""
    pairs = list(zip(clocks((5, 2.0), (5, 2.1), (6, 2.0), (5, 1.95)), clocks((15, 1.6), (14, 1.5)) * 2, strict=True))
    meets = known_break_even(pairs)

    assert meets.possibly is not None
    assert meets.probably is not None
    assert meets.surely is not None
    assert meets.possibly < meets.probably < meets.surely
    for epochs, end in ((meets.surely, "lower"), (meets.probably, "centre"), (meets.possibly, "upper")):
        assert getattr(ratio_interval(ratios_at(pairs, epochs)), end) > 1
        assert getattr(ratio_interval(ratios_at(pairs, epochs - 1)), end) <= 1


@pytest.mark.parametrize(
    ("subject", "expected"),
    [((4, 2.00001), None), ((15, 2.1), None), ((15, 2.0), None), ((15, 1.9999), None), ((4, 1.6), 1), ((4, 2.2), None)],
)
def test_who_is_ahead_at_first_or_never(subject: tuple[float, float], expected: int | None) -> None:
    """Slower an epoch never stays ahead, whoever starts sooner; 100,000 epochs are none that anybody trains."""
    meets = known_break_even(list(zip(clocks((5, 2.0), (5, 2.0)), clocks(subject, subject), strict=True)))

    assert meets.surely == expected
    assert MOST_EPOCHS == 10_000


def test_one_repeat_is_only_probable() -> None:
    """It has no interval."""
    meets = known_break_even([(clocks((5, 2.0))[0], clocks((15, 1.6))[0])])

    assert (meets.possibly, meets.probably, meets.surely) == (None, 26, None)
    assert ratios_per_epoch([(clocks((5, 2.0))[0], clocks((15, 1.6))[0])]) == pytest.approx([1.25])


def test_a_clock_that_is_not_above_0_leaves_no_ratio_at_all() -> None:
    """So short a training is not foretold; the pairs that are left would have the interval of another measurement."""
    pairs = list(zip(clocks((5, 2.0), (-4, 2.0), (6, 2.0)), clocks((15, 1.6), (15, 1.6), (14, 1.6)), strict=True))

    assert [] == ratios_at(pairs, 1)
    assert 3 == len(ratios_at(pairs, 3))
    unknown = Clock(8, 20.0, None)
    assert [] == ratios_per_epoch([*pairs, (unknown, pairs[0][1])])


GAPS = [(0.0, 4.2), (0.6, 0.6), (0.1, 3.0)]
"""Seconds between epochs, of one process and of Ray: Ray's report and checkpoint are the dear ones, or all is alike."""


def script_like(epochs: int, steps: float, between: float, start: float, noise: float = 1.0) -> TrainingResult:
    """A run that sees what lies between its epochs once less than it has epochs, as of a script."""
    whole = noise * (start + epochs * (steps + between))
    return make_result(
        "ray",
        recipe=make_recipe(epochs=epochs),
        epochs_completed=epochs,
        train_seconds=noise * steps * epochs,
        steps_timed=20 * epochs,
        validation_seconds=noise * between * (epochs - 1),
        report_seconds=None,
        wall_seconds=whole,
        steps_gaps=epochs - 1,
    )


def by_brute_force(pairs: list[tuple[tuple[float, float], tuple[float, float]]], most: int) -> int | None:
    """The first number of epochs from which the lower end stays above 1, of (fixed, per epoch) as generated."""
    first = None
    for epochs in range(most, 0, -1):
        ratios = [(a + epochs * b) / (c + epochs * d) for (a, b), (c, d) in pairs]
        interval = ratio_interval(ratios)
        if interval is None or interval.lower <= 1:
            return first
        first = epochs
    return first


@pytest.mark.parametrize("trained", [2, 3, 10])
@pytest.mark.parametrize(("of_one", "of_ray"), GAPS)
def test_where_clocks_meet_does_not_depend_on_how_long_was_trained(trained: int, of_one: float, of_ray: float) -> None:
    """What lies between epochs is seen once less than there are epochs, and counts for each of them."""
    noise = (1.0, 1.01, 0.985, 1.004)
    one = [script_like(trained, 10.0, of_one, 4.0 * each) for each in noise]
    ray = [script_like(trained, 6.0, of_ray, 20.0, each) for each in noise]
    generated = [((4.0 * n, 10.0 + of_one), (n * 20.0, n * (6.0 + of_ray))) for n in noise]
    meets = known_break_even([(clock_of(first), clock_of(second)) for first, second in zip(one, ray, strict=True)])

    assert by_brute_force(generated, 600) == meets.surely


def test_one_epoch_says_nothing_of_what_follows_its_steps() -> None:
    """So there is no second epoch to tell, and no break-even."""
    one, ray = script_like(1, 10.0, 0.1, 4.0), script_like(1, 6.0, 4.2, 20.0)

    assert clock_of(ray).per_epoch is None
    assert clock_of(ray).at(1) == ray.seconds.wall
    assert clock_of(ray).at(2) is None
    assert break_even([(clock_of(one), clock_of(ray))]) == Missing(ONE_EPOCH)
