"""Records a rank's work besides its steps and rows, item by item, by which arms are compared. For any framework."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FIXED_SIZES = 2
"""Number of batch sizes that may occur: batches are all alike but the last of an epoch."""
MOST_KINDS = 64
"""Values that are told apart."""


def is_looked_at(count: int) -> bool:
    """After which steps, and in which passes, what changes seldom is looked at: 1, 2, 4, 8, …"""
    return count & (count - 1) == 0


class Model:
    """Functions of the framework about its model; at first they return nothing."""

    def __init__(self) -> None:
        self.digest: Callable[[], str | None] = lambda: None
        """SHA-256 of all weights."""
        self.quick_digest: Callable[[], str | None] = lambda: None
        """One that takes little time: equal weights have equal ones."""
        self.note_trained: Callable[[], None] = lambda: None
        """Notes which weights have a gradient."""
        self.gradient_bytes: Callable[[], int | None] = lambda: None
        self.rate: Callable[[], Any] = lambda: None
        """The learning rate of a booster."""


class Course:
    """A value that is looked at now and then: what it was, one after another."""

    def __init__(self) -> None:
        self.values: list[str] = []

    def note(self, value: Any) -> None:
        """Note the present value."""
        if self.values[-1:] != [str(value)] and len(self.values) < MOST_KINDS:
            self.values.append(str(value))


class Optimizer:
    """The number of an optimizer's steps, its learning rates, and its other settings."""

    def __init__(self) -> None:
        self.settings = Course()
        self.steps = self.between = self.most_between = 0
        """In all, since the last step of the clock's, and the most between two of these."""
        self.rates: list[list[float]] = []
        """[highest, sum] of each of its groups."""

    def step(self, rates: list[float]) -> None:
        """Count a step with these rates of its groups."""
        self.steps += 1
        self.between += 1
        self.most_between = max(self.most_between, self.between)
        for number, rate in enumerate(rates):
            if number == len(self.rates):  # a group that was added
                self.rates.append([0.0, 0.0])
            self.rates[number][0] = max(self.rates[number][0], rate)
            self.rates[number][1] += rate

    def to_dict(self) -> dict[str, Any]:
        """Return this as plain data."""
        return {
            "settings": self.settings.values,
            "steps": self.steps,
            "mostBetween": self.most_between,
            "rates": [[highest, total / self.steps] for highest, total in self.rates],
        }


class Inputs:
    """The input of the first module that has parameters, in one of its modes."""

    def __init__(self) -> None:
        self.types: set[str] = set()
        self.numbers = 0
        """Numbers in all."""
        self.sizes: set[int] = set()
        """Numbers that entered at a time."""
        self.autocast: set[str] = set()

    def enter(self, numbers: int, kind: str, autocast: str) -> None:
        """Count `numbers` of this type that enter at a time."""
        self.numbers += numbers
        self.types.add(kind)
        self.autocast.add(autocast)
        if len(self.sizes) < MOST_KINDS:
            self.sizes.add(numbers)

    def to_dict(self) -> dict[str, Any]:
        """Return this as plain data."""
        return {
            "types": sorted(self.types),
            "numbers": self.numbers,
            "autocast": sorted(self.autocast),
        }


class Work:
    """The work of one rank."""

    def __init__(self) -> None:
        self.optimizers: dict[int, Optimizer] = {}
        """By id, in the order of their first steps: the first is the clock's."""
        self.digests: dict[int, str] = {}
        """Digests of the weights, by the number of steps before them."""
        self.parameters: str | None = None
        self.trained = Course()
        """Numbers of the weights that had a gradient."""
        self.training, self.evaluation = Inputs(), Inputs()
        self.varies = False
        """A step calls the model as often as it finds best."""
        self.no_input = "no input of a module was seen"
        self.booster_parameters: str | None = None
        """Parameters of a booster that decide what it learns."""
        self.rounds: int | None = None
        """That it was told to make."""

    def end_step(self) -> None:
        """A step of the clock is over."""
        for optimizer in self.optimizers.values():
            optimizer.between = 0

    def inputs(self) -> Inputs | None:
        """Return the input in training; for a script with its model always in evaluation, the input in that."""
        seen = [each for each in (self.training, self.evaluation) if each.types]
        return seen[0] if seen else None

    def to_dict(self) -> dict[str, Any]:
        """Return this as plain data."""
        inputs = self.inputs()
        return {
            "optimizers": [optimizer.to_dict() for optimizer in self.optimizers.values()],
            "digests": {str(steps): digest for steps, digest in self.digests.items()},
            "parameters": self.parameters,
            "trained": self.trained.values,
            "inputs": inputs.to_dict() if inputs else None,
            "varies": self.varies or bool(inputs and len(inputs.sizes) > FIXED_SIZES),
            "evaluates": inputs is self.evaluation,
            "noInput": self.no_input,
            "boosterParameters": self.booster_parameters,
            "rounds": self.rounds,
        }
