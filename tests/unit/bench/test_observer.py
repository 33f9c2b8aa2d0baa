"""What observing costs: each example gets a clock of its own, and figures have their spread."""

import re

import pytest

from bench.observer import TICK, Repeat, summary, with_clock
from tests.golden import Wording


@pytest.mark.parametrize("name", TICK)
def test_a_copy_of_each_example_has_a_clock(name: str) -> None:
    """At the place where a step is over: an example that changed there is found here, and not by a user."""
    text = with_clock(name)

    compile(text, name, "exec")
    assert 1 == text.count("tick()")


def test_the_figures_have_their_spread(wording: Wording) -> None:
    """Off by how much, the share of the hooks, and a ratio with its interval."""
    repeats = [
        Repeat(observed=0.0101, clock=0.01, without=0.01, hooks=5e-5, hooks_share=0.005),
        Repeat(observed=0.01, clock=0.01, without=0.0098, hooks=4e-5, hooks_share=0.004),
    ]

    lines = summary(repeats).splitlines()
    assert ["0.500", "1.000"] == re.findall(r"[\d.]+", lines[1])
    assert ["45", "0.450", "0.400", "0.500"] == re.findall(r"[\d.]+", lines[2])
    assert ["1.0102", "1.0000", "1.0204"] == re.findall(r"\d\.\d+", lines[3])[:3]
    wording("bench", "\n".join(lines))
