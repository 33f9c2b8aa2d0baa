"""Which data set a script is trained on, where it reads several: what reaches it, and when, decides."""

import pytest

from training.workloads.script.observe.state import Loader, State

TRAIN, TEST, MORE = 32, 100, 8
"""Rows of a batch, by which data sets are told apart."""


@pytest.mark.parametrize(
    ("epoch", "rows"),
    [
        ([TRAIN, "step"], TRAIN),
        ([TRAIN, "step", TEST], TRAIN),
        ([TRAIN, TEST, "step"], TRAIN),
        ([TRAIN, "step", TRAIN, "step", TEST, TEST, TEST], 2 * TRAIN),
        ([TRAIN, TRAIN, "step"], 2 * TRAIN),
        ([TRAIN, "step", "step"], TRAIN),
        ([TRAIN, MORE, "step"], TRAIN),
    ],
    ids=[
        "one", "a test after each step", "a test before each step", "a test after an epoch", "gradient accumulation",
        "two steps of a batch", "two sets to learn from",
    ],
)  # fmt: skip
def test_rows_are_those_of_the_training(epoch: list[int | str], rows: int) -> None:
    """Read before each step or after it, larger or smaller: `rows` of an epoch are those of what it learned from."""
    state = State()
    for word in epoch * 6:
        if isinstance(word, int):
            loader = state.loaders.setdefault(word, Loader(None, None, None))
            loader.deliver(word, None)
            state.deliver(loader)
        else:
            state.step(0)
    counted = state.to_dict()["rowsAtStep"]

    assert 6 * rows == counted[-1]
    assert len(state.step_ends) == len(counted)
