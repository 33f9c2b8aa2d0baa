"""Which forwards are turns of the experiments of `rwi why`: equally many on all ranks. Without PyTorch."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from training.workloads.script.observe import experiment, torch_experiment
from training.workloads.script.observe.experiment import Experiment
from training.workloads.script.observe.state import State

THREADS, RANK, WORLD = 4, 1, 2


class Model:
    """A model of the script."""


class Rank:
    """A rank that makes forwards and backwards."""

    def __init__(self, folder: Path) -> None:
        self.state, self.experiment = State(), Experiment(folder)
        self._counted = torch_experiment._Counted()

    def forward(self, model: Model) -> bool:
        """Whether that was a turn."""
        return self._counted.is_turn(model, self.state, self.experiment)

    def backward(self) -> None:
        """The gradients of all forwards before."""
        self.state.parts.backwards_made += 1

    def step(self, model: Model) -> bool:
        """A forward and a backward; whether that was a turn."""
        is_turn = self.forward(model)
        self.backward()
        return is_turn


@pytest.fixture
def rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rank:
    """A rank that has joined the others."""
    distributed = SimpleNamespace(get_rank=lambda: RANK, get_world_size=lambda: WORLD)
    torch = SimpleNamespace(get_num_threads=lambda: THREADS, set_num_threads=lambda _: None, distributed=distributed)
    monkeypatch.setitem(sys.modules, "torch", torch)
    return Rank(tmp_path)


def test_forwards_without_a_backward_are_one_turn(rank: Rank) -> None:
    """So a rank that validates in between makes as many turns as one that does not; also before the first step."""
    model = Model()
    validates = [rank.forward(model), rank.forward(model), rank.step(model), rank.forward(model), rank.step(model)]

    assert [True, False, False, True, False] == validates
    assert rank.step(model)


def test_another_model_is_counted_when_the_first_is_used_no_more(rank: Rank) -> None:
    """Not before: two that train in turn make one turn a step."""
    first, second = Model(), Model()
    in_turn = [rank.step(model) for _ in range(20) for model in (first, second)]
    alone = [rank.step(second) for _ in range(torch_experiment.ABANDONED + 2)]

    assert [True, False] * 20 == in_turn
    assert [False] * (torch_experiment.ABANDONED - 2) + [True] * 4 == alone


def test_a_model_that_comes_late_is_not_counted(rank: Rank) -> None:
    """Steps are, since the first."""
    rank.state.step_ends.append(1.0)

    assert not rank.step(Model())
    assert not rank.experiment.counts_forwards


def test_rank_and_threads_are_known_before_the_first_step(rank: Rank) -> None:
    """An optimizer may make twenty forwards in a step, and ranks that a script starts have no variable with theirs."""
    rank.forward(Model())

    assert (RANK, WORLD) == (rank.state.rank, rank.state.world)
    assert THREADS == rank.experiment.facts.threads


@pytest.mark.parametrize(("steps_of_turn", "per_step"), [(1.0, 1), (0.5, 2), (0.0, 10)])
def test_a_block_has_whole_steps(steps_of_turn: float, per_step: int, rank: Rank) -> None:
    """Also of an optimizer that makes many forwards in each: else a block would have none, or one of two conditions."""
    rank.experiment._at = [0.2 * turn for turn in range(experiment.PLANNED_AT + 1)]
    rank.experiment._steps = [int(steps_of_turn * turn) for turn in range(experiment.PLANNED_AT + 1)]
    plan = rank.experiment._planned(rank.state)

    assert per_step * experiment.LEAST_DROPPED == plan.dropped
    assert per_step * experiment.LEAST_STEPS == plan.timed
