"""Records a rank's work besides its steps and rows, item by item, by which arms are compared. For any framework."""

from __future__ import annotations

import math
import weakref
import zlib
from collections.abc import Callable
from typing import Any

from . import guard
from .gradients import Gradients

FIXED_SIZES = 2
"""Number of batch sizes that may occur: batches are all alike but the last of an epoch."""
MOST_KINDS = 64
"""Values that are told apart."""
LEAST_EVEN = 3
"""Steps of an optimizer that show how many others lie between them."""
MOST_CHANGES = 8
"""Changes of settings that are told one by one."""
MOST_OPTIMIZERS = 1024
"""Optimizers that are told apart: a script may make one for each parameter, or for each step."""


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
        self.gradient_digest: Callable[[], str | None] = lambda: None
        """One of the gradients, where ranks may have optimizers in different states."""
        self.note_parameters: Callable[[], None] = lambda: None
        """Notes how many numbers there are of which type."""
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


Groups = list[dict[str, Any]]
"""Settings of each group of parameters, by their names."""


class Settings:
    """The settings of an optimizer that decide a step: what they are at first, and each change.

    One that the optimizer itself changes in a step, as an estimate that it makes of its gradients, is no setting of the
    script's: it stands there as it was at first.
    """

    def __init__(self) -> None:
        self._last: Groups | None = None
        self._shown: dict[str, Any] = {}
        self._own: set[str] = set()
        self._course: list[str] = []
        self._more = self._sum = 0
        """Changes beyond MOST_CHANGES, and a checksum of these."""

    def step(self, number: int, before: Groups, after: Groups, *, own: bool) -> None:
        """Note the settings before and after a step. `own`: what changes within it the optimizer changes."""
        if self._last == before == after:
            return
        self._last, first, then = after, _by_name(before), _by_name(after)
        self._show(number, first)
        if own:
            self._own.update(name for name, value in then.items() if name not in first or first[name] != value)
        self._show(number, then)

    def _show(self, number: int, present: dict[str, Any]) -> None:
        changed = {
            name: present.get(name)
            for name in sorted({**self._shown, **present})
            if name not in self._own and present.get(name) != self._shown.get(name)
        }
        self._shown.update(changed)
        if not changed and self._course:
            return
        text = " ".join(f"{name}={value}" for name, value in changed.items())
        if len(self._course) <= MOST_CHANGES:
            self._course.append(f"{text} (step {number})" if self._course else text)
        else:
            self._more, self._sum = self._more + 1, zlib.crc32(f"{number} {text}".encode(), self._sum)

    def to_list(self) -> list[str]:
        """Return them as text, one after another."""
        return [*self._course, *([f"{self._more} changes more (checksum {self._sum:08x})"] if self._more else [])]


def _by_name(groups: Groups) -> dict[str, Any]:
    if len(groups) == 1:
        return groups[0]
    return {f"{number}:{name}": value for number, group in enumerate(groups, 1) for name, value in group.items()}


class Schedule:
    """A schedule of learning rates."""

    def __init__(self, rule: str, follows: str) -> None:
        self.rule = rule
        self.follows = follows
        """`metric`, `steps`, or "" if that is not known."""
        self._gaps: set[int] = set()
        self._last = self._steps = 0
        self._of: Optimizer | None = None

    def step(self, of: Optimizer) -> None:
        """Note a step that it makes, of this optimizer."""
        self._steps += 1
        if len(self._gaps) < MOST_KINDS:
            self._gaps.add(of.steps - self._last)
        self._last, self._of = of.steps, of

    def to_list(self) -> list[Any]:
        """Return its rule with its steps, what it follows, and whether it steps evenly, to the end."""
        left = self._of.steps - self._last if self._of else 0
        even = self._steps > 1 and max(*self._gaps, left) - min(self._gaps) <= 1
        return [f"{self.rule}, {self._steps} times", self.follows, even]


class Optimizer:
    """The number of an optimizer's steps, its learning rates, and its other settings."""

    def __init__(self) -> None:
        self.settings = Settings()
        self.steps = self.between = self.most_between = 0
        """In all, since the last step that counts, and the most between two of these."""
        self.sizes = ""
        """Of its groups of parameters, at its first step."""
        self.left_out = 0
        """Of its steps, by a GradScaler."""
        self.rates: list[list[float]] = []
        """[first, highest, sum, sum of rate × number of the step, sum of squares] of each of its groups."""
        self.expected_rates: list[float] | None = None
        """Those that its schedules set last; None before the first step."""
        self.weights: list[Callable[[], Any]] = []
        """Weak references to what it trains."""
        self.had_clock = False
        """Whether its steps were those that count."""
        self.is_over = False
        """Whether it trains something else since, as another one."""
        self._first = self._last = -1
        """Steps that counted before its first and its last."""
        self._gaps = math.inf, 0.0
        """The fewest and the most steps that counted from one of its steps to the next."""

    def step(self, rates: list[float], counted: int) -> None:
        """Count a step with these rates of its groups, after so many steps that count."""
        self.steps += 1
        self.between = self.between + 1 if counted == self._last else 1
        self.most_between = max(self.most_between, self.between)
        if self._first < 0:
            self._first = counted
        else:
            self._gaps = min(self._gaps[0], counted - self._last), max(self._gaps[1], counted - self._last)
        self._last = counted
        for number, rate in enumerate(rates):
            if number == len(self.rates):  # a group that was added
                self.rates.append([rate, rate, 0.0, 0.0, 0.0])
            of_group = self.rates[number]
            of_group[1] = max(of_group[1], rate)
            of_group[2] += rate
            of_group[3] += rate * self.steps
            of_group[4] += rate * rate

    def to_dict(self) -> dict[str, Any]:
        """Return this as plain data."""
        first, *more = self.settings.to_list() or [""]
        return {
            "settings": [f"{self.sizes} {first}".strip(), *more],
            "steps": self.steps,
            "leftOut": self.left_out,
            "mostBetween": self.most_between,
            "first": self._first,
            "rounds": self._last - self._first + 1,
            "even": self.steps >= LEAST_EVEN and self._gaps[1] - self._gaps[0] <= 1,
            "rates": [self._course(*of_group) for of_group in self.rates],
        }

    def _course(self, first: float, highest: float, total: float, moment: float, squares: float) -> list[float]:
        """Return the first, highest and mean rate, the share of the steps at which their centre is, and the root of
        their mean square: by these two, courses of the same mean are told apart."""
        centre = moment / total / self.steps if total else 0.0
        return [first, highest, total / self.steps, centre, math.sqrt(squares / self.steps)]


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
        if len(self.sizes) < MOST_KINDS or numbers > max(self.sizes):
            self.sizes.add(numbers)

    def to_dict(self) -> dict[str, Any]:
        """Return this as plain data."""
        return {
            "types": sorted(self.types),
            "numbers": self.numbers,
            "sizes": sorted(self.sizes),
            "autocast": sorted(self.autocast),
        }


class Work:
    """The work of one rank."""

    def __init__(self) -> None:
        self.optimizers: list[Optimizer] = []
        """In the order of their first steps."""
        self._by_id: dict[int, tuple[Callable[[], Any], Optimizer]] = {}
        """Each with a weak reference: an id is given again when what had it is gone."""
        self.present: dict[Optimizer, None] = {}
        """Those that stepped since another one took the clock: what is looked at is theirs."""
        self.last: tuple[str | None, int | None] | None = None
        """Digest of the present weights, and bytes of their gradients, as they were kept after the last step."""
        self.times_kept = 0
        self.forgotten = 0
        """Optimizers beyond MOST_OPTIMIZERS."""
        self._parameters: dict[int, str] = {}
        """By how often another optimizer had taken the clock."""
        self._successions = 0
        self.schedules: list[Schedule] = []
        self.rates_by_hand = False
        """Whether something else than those schedules set a learning rate."""
        self.digests: dict[str, str] = {}
        """Digests of the weights, by the number of steps before them, or `Joins:steps since the last one`."""
        self.ends: dict[str, str | None] = {}
        """Digests of a model's weights when another one is trained; None where they were gone. By the same."""
        self.kept: dict[str, str | None] = {}
        """Digest of weights that may be gone next, by the same."""
        self.in_joins: dict[str, str] = {}
        """Digests of the weights within Joins, up to their ends: not of what ranks get then."""
        self.joins: list[int] = []
        """Steps before the end of each Join, within which ranks may make different numbers of them."""
        self.gradients = Gradients()
        self.training, self.evaluation = Inputs(), Inputs()
        self.varies = False
        """A step calls the model as often as it finds best."""
        self.no_input = "no input of a module was seen"
        self.steps_without_input = 0
        """Steps in which the module that was called first in an early one was not called."""
        self.booster_parameters: str | None = None
        """Parameters of a booster that decide what it learns."""
        self.rounds: int | None = None
        """That it was told to make."""

    def of(self, thing: Any) -> Optimizer:
        """Return what is known of an optimizer, or of a model that makes its own steps. Nothing here keeps it alive."""
        optimizer = self.known(thing)
        return self.add(thing) if optimizer is None else optimizer

    def add(self, thing: Any) -> Optimizer:
        """Return the record of one that begins: it is new, or trains something else from now on."""
        optimizer = Optimizer()
        self._by_id[id(thing)] = weakref.ref(thing), optimizer
        if len(self.optimizers) < MOST_OPTIMIZERS:
            self.optimizers.append(optimizer)
        else:
            self.forgotten += 1
        return optimizer

    def known(self, thing: Any) -> Optimizer | None:
        """Return what is known of an optimizer; None if it has made no step."""
        reference, optimizer = self._by_id.get(id(thing), (None, None))
        return optimizer if reference and reference() is thing else None

    @property
    def has_few_optimizers(self) -> bool:
        """Return whether a look at the weights for each optimizer takes little of any run."""
        return len(self.optimizers) <= MOST_KINDS

    def steps_of(self, thing: Any) -> int:
        """Return how many steps an optimizer has made."""
        optimizer = self.known(thing)
        return optimizer.steps if optimizer else 0

    def succeed(self, optimizer: Optimizer) -> None:
        """This one takes the clock: what is looked at from now on is what it and those after it train."""
        for other in self.present:
            other.weights = other.weights if other is optimizer else []
        self.present.clear()
        self._successions += 1

    def note_parameters(self, counted: str) -> None:
        """Note the parameters of the present optimizers, which become more as these step for the first time."""
        if self._successions in self._parameters or len(self._parameters) < MOST_KINDS:
            self._parameters[self._successions] = counted
        elif counted != self._parameters[max(self._parameters)]:
            guard.lose("not all parameters were looked at", "parameters", why=f"they changed after {MOST_KINDS} models")

    @property
    def parameters(self) -> str | None:
        """Return how many parameters there are, of which type; one after another if that changed."""
        course = Course()
        for counted in self._parameters.values():
            course.note(counted)
        return ", then ".join(course.values) or None

    def add_schedule(self, rule: str, follows: str) -> Schedule:
        """Return the record of another schedule."""
        schedule = Schedule(rule, follows)
        if len(self.schedules) < MOST_KINDS:
            self.schedules.append(schedule)
        else:
            self.rates_by_hand = True  # by what nobody knows
        return schedule

    def inputs(self) -> Inputs | None:
        """Return the input in training; for a script with its model always in evaluation, the input in that."""
        seen = [each for each in (self.training, self.evaluation) if each.types]
        return seen[0] if seen else None

    def to_dict(self) -> dict[str, Any]:
        """Return this as plain data."""
        inputs = self.inputs()
        return {
            "optimizers": [optimizer.to_dict() for optimizer in self.optimizers],
            "moreOptimizers": self.forgotten,
            "schedules": [schedule.to_list() for schedule in self.schedules],
            "ratesByHand": self.rates_by_hand,
            "digests": self.digests,
            "ends": self.ends,
            "inJoins": self.in_joins,
            "joins": self.joins,
            "parameters": self.parameters,
            "trained": self.gradients.to_dict(),
            "inputs": inputs.to_dict() if inputs else None,
            "varies": self.varies or bool(inputs and len(inputs.sizes) > FIXED_SIZES),
            "evaluates": inputs is self.evaluation,
            "noInput": self.no_input,
            "stepsWithoutInput": self.steps_without_input,
            "boosterParameters": self.booster_parameters,
            "rounds": self.rounds,
        }
