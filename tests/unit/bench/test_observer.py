"""What observing costs: each example gets a clock of its own, and figures have their spread."""

import pytest

from bench.observer import TICK, Repeat, summary, with_clock


@pytest.mark.parametrize("name", TICK)
def test_a_copy_of_each_example_has_a_clock(name: str) -> None:
    """At the place where a step is over: an example that changed there is found here, and not by a user."""
    text = with_clock(name)

    compile(text, name, "exec")
    assert 1 == text.count("tick()")


def test_the_figures_have_their_spread() -> None:
    """Off by how much, the share of the hooks, and a ratio with its interval."""
    repeats = [
        Repeat(observed=0.0101, clock=0.01, without=0.01, hooks=5e-5, hooks_share=0.005),
        Repeat(observed=0.01, clock=0.01, without=0.0098, hooks=4e-5, hooks_share=0.004),
    ]

    lines = summary(repeats).splitlines()
    assert "observed against its own clock: 0.500 % off, at most 1.000 %" == lines[1]
    assert "in hooks: 45 µs a step, 0.450 % of it (0.400 to 0.500 %)" == lines[2]
    assert "a step with the observer to one without: 1.0102 (1.0000 to 1.0204, 95 % interval" in lines[3]
