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
"""Most batch sizes of a training whose batches are all alike, except for the last batch of an epoch."""
MOST_KINDS = 64
"""Most different values of a quantity that are recorded."""
LEAST_EVEN = 3
"""Least number of an optimizer's steps from which its steps can be called evenly spaced."""
MOST_CHANGES = 8
"""Most changes of settings that are recorded one by one."""
MOST_OPTIMIZERS = 1024
"""Most optimizers that are recorded: a script may create an optimizer for each parameter, or for each step."""


def is_looked_at(count: int) -> bool:
    """Return whether `count` is 1, 2, 4, 8, …: after such steps and passes, what seldom changes is recorded."""
    return count & (count - 1) == 0


class Model:
    """Functions of the framework that describe the model. Until a framework sets them they return nothing."""

    def __init__(self) -> None:
        self.digest: Callable[[], str | None] = lambda: None
        """Returns the SHA-256 of all weights."""
        self.quick_digest: Callable[[], str | None] = lambda: None
        """Returns a digest of the weights that takes little time: equal weights have equal digests."""
        self.gradient_digest: Callable[[], str | None] = lambda: None
        """Returns a digest of the gradients, for ranks whose optimizers may be in different states."""
        self.note_parameters: Callable[[], None] = lambda: None
        """Records the number of parameters of each type."""
        self.gradient_bytes: Callable[[], int | None] = lambda: None
        self.rate: Callable[[], Any] = lambda: None
        """Returns the learning rate of a booster."""


class Course:
    """The successive values of something that is looked at now and then."""

    def __init__(self) -> None:
        self.values: list[str] = []

    def note(self, value: Any) -> None:
        """Record the present value, if it differs from the last value."""
        if self.values[-1:] != [str(value)] and len(self.values) < MOST_KINDS:
            self.values.append(str(value))


Groups = list[dict[str, Any]]
"""The settings of each group of parameters; a setting's name is the key."""


class Settings:
    """The settings of an optimizer that decide a step: their first values, and each change. A value that the optimizer
    itself changes during a step, as an estimate from its gradients, is not a setting of the script: only its first
    value is recorded."""

    def __init__(self) -> None:
        self._last: Groups | None = None
        self._shown: dict[str, Any] = {}
        self._own: set[str] = set()
        self._course: list[str] = []
        self._more = self._sum = 0
        """Number of changes beyond MOST_CHANGES, and a checksum of these changes."""

    def step(self, number: int, before: Groups, after: Groups, *, own: bool) -> None:
        """Record the settings before and after a step, within which, if `own`, only the optimizer changes them."""
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
        """Return the first settings and the changes, each as a text."""
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
        """`metric`, `steps`, or "" if it is not known what the schedule follows."""
        self._gaps: set[int] = set()
        self._last = self._steps = 0
        self._of: Optimizer | None = None

    def step(self, of: Optimizer) -> None:
        """Record that the schedule has made a step for the optimizer `of`."""
        self._steps += 1
        if len(self._gaps) < MOST_KINDS:
            self._gaps.add(of.steps - self._last)
        self._last, self._of = of.steps, of

    def to_list(self) -> list[Any]:
        """Return the schedule's rule with its number of steps, what it follows, and whether its steps are evenly spaced
        up to the end of the training."""
        left = self._of.steps - self._last if self._of else 0
        even = self._steps > 1 and max(*self._gaps, left) - min(self._gaps) <= 1
        return [f"{self.rule}, {self._steps} times", self.follows, even]


class Optimizer:
    """The record of an optimizer: its number of steps, its learning rates and its other settings."""

    def __init__(self) -> None:
        self.settings = Settings()
        self.steps = self.between = self.most_between = 0
        """All its steps, those since the last counted step, and the most between two counted steps."""
        self.sizes = ""
        """The sizes of its groups of parameters at its first step, as text."""
        self.left_out = 0
        """Number of its steps that a GradScaler left out."""
        self.rates: list[list[float]] = []
        """[first rate, highest, sum, sum of rate × number of the step, sum of squares] of each group of parameters."""
        self.expected_rates: list[float] | None = None
        """The learning rates that its schedules set last; None before the first step."""
        self.weights: list[Callable[[], Any]] = []
        """Weak references to the parameters that it trains."""
        self.had_clock = False
        """Whether the step clock has counted its steps."""
        self.is_over = False
        """Whether it trains other parameters by now, which have a record of their own."""
        self._first = self._last = -1
        """Numbers of counted steps before its first step and before its last step."""
        self._gaps = math.inf, 0.0
        """The fewest and the most counted steps from one of its steps to the next."""

    def step(self, rates: list[float], counted: int) -> None:
        """Record a step with the learning rates of the groups. `counted`: steps of the step clock so far."""
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
        """Return the record as plain data."""
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
        """Return the first, highest and mean rate, the share of the steps at which the rates have their centre, and the
        root of their mean square. The last two tell courses of rates with the same mean apart."""
        centre = moment / total / self.steps if total else 0.0
        return [first, highest, total / self.steps, centre, math.sqrt(squares / self.steps)]


class Inputs:
    """The input of the first module that has parameters, in one of the model's modes (training or evaluation)."""

    def __init__(self) -> None:
        self.types: set[str] = set()
        self.numbers = 0
        """How many numbers have entered the module."""
        self.sizes: set[int] = set()
        """How many numbers entered the module in one call."""
        self.autocast: set[str] = set()

    def enter(self, numbers: int, kind: str, autocast: str) -> None:
        """Record that `numbers` numbers of the type `kind` enter the module in one call."""
        self.numbers += numbers
        self.types.add(kind)
        self.autocast.add(autocast)
        if len(self.sizes) < MOST_KINDS or numbers > max(self.sizes):
            self.sizes.add(numbers)

    def to_dict(self) -> dict[str, Any]:
        """Return the input as plain data."""
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
        """The records of the optimizers, in the order of their first steps."""
        self._by_id: dict[int, tuple[Callable[[], Any], Optimizer]] = {}
        """Each record with a weak reference to its optimizer, whose id another object may get when it is gone."""
        self.present: dict[Optimizer, None] = {}
        """Those that have stepped since another took over the step clock: their weights are looked at."""
        self.last: tuple[str | None, int | None] | None = None
        """Digest of the present weights, and bytes of their gradients, as recorded after the last step."""
        self.times_kept = 0
        self.forgotten = 0
        """Number of optimizers beyond MOST_OPTIMIZERS, which are not recorded."""
        self._parameters: dict[int, str] = {}
        """Number and types of the parameters, by how often another optimizer had taken over the step clock."""
        self._successions = 0
        self.schedules: list[Schedule] = []
        self.rates_by_hand = False
        """Whether something other than the recorded schedules has set a learning rate."""
        self.digests: dict[str, str] = {}
        """Digests of the weights, by the number of steps before, or `joins:steps since the last Join`."""
        self.ends: dict[str, str | None] = {}
        """Digest of a model's last weights when another model is trained from then on; None where the weights were
        gone. The keys are those of `digests`."""
        self.kept: dict[str, str | None] = {}
        """Digest of weights that may soon be gone. The key is that of `digests`."""
        self.in_joins: dict[str, str] = {}
        """Digests of the weights within PyTorch's Joins, not of those that ranks get at a Join's end."""
        self.joins: list[int] = []
        """Steps before the end of each of PyTorch's Joins, within which ranks' numbers of steps may differ."""
        self.gradients = Gradients()
        self.training, self.evaluation = Inputs(), Inputs()
        self.varies = False
        """Whether a step calls the model as often as the optimizer finds best."""
        self.no_input = "no input of a module was seen"
        self.steps_without_input = 0
        """Number of steps in which the module that an early step called first was not called."""
        self.booster_parameters: str | None = None
        """The parameters of a booster that decide what the booster learns."""
        self.rounds: int | None = None
        """Number of rounds that the booster was told to make."""

    def of(self, thing: Any) -> Optimizer:
        """Return the record of an optimizer, or of a model that makes its own steps; add a new record if there was no
        record. The record does not keep the optimizer alive."""
        optimizer = self.known(thing)
        return self.add(thing) if optimizer is None else optimizer

    def add(self, thing: Any) -> Optimizer:
        """Add and return a record for an optimizer that makes its first step, or trains other parameters now."""
        optimizer = Optimizer()
        self._by_id[id(thing)] = weakref.ref(thing), optimizer
        if len(self.optimizers) < MOST_OPTIMIZERS:
            self.optimizers.append(optimizer)
        else:
            self.forgotten += 1
        return optimizer

    def known(self, thing: Any) -> Optimizer | None:
        """Return the record of an optimizer; None if the optimizer has made no step."""
        reference, optimizer = self._by_id.get(id(thing), (None, None))
        return optimizer if reference and reference() is thing else None

    @property
    def has_few_optimizers(self) -> bool:
        """Return whether a look at the weights for each optimizer takes little time, as there are few."""
        return len(self.optimizers) <= MOST_KINDS

    def steps_of(self, thing: Any) -> int:
        """Return how many steps an optimizer has made."""
        optimizer = self.known(thing)
        return optimizer.steps if optimizer else 0

    def succeed(self, optimizer: Optimizer) -> None:
        """Record that `optimizer` takes over the step clock: from now on its weights and later ones' are looked at."""
        for other in self.present:
            other.weights = other.weights if other is optimizer else []
        self.present.clear()
        self._successions += 1

    def note_parameters(self, counted: str) -> None:
        """Record the number and types of the present optimizers' parameters, which grow with each first step."""
        if self._successions in self._parameters or len(self._parameters) < MOST_KINDS:
            self._parameters[self._successions] = counted
        elif counted != self._parameters[max(self._parameters)]:
            guard.lose("not all parameters were looked at", "parameters", why=f"they changed after {MOST_KINDS} models")

    @property
    def parameters(self) -> str | None:
        """Return the number of parameters by type as text, one after another if it changed; None if not known."""
        course = Course()
        for counted in self._parameters.values():
            course.note(counted)
        return ", then ".join(course.values) or None

    def add_schedule(self, rule: str, follows: str) -> Schedule:
        """Add and return the record of a new schedule with that rule."""
        schedule = Schedule(rule, follows)
        if len(self.schedules) < MOST_KINDS:
            self.schedules.append(schedule)
        else:
            self.rates_by_hand = True  # by what nobody knows
        return schedule

    def inputs(self) -> Inputs | None:
        """Return the model's input in training mode, or in evaluation mode if the model was always in that."""
        seen = [each for each in (self.training, self.evaluation) if each.types]
        return seen[0] if seen else None

    def to_dict(self) -> dict[str, Any]:
        """Return the work of this rank as plain data."""
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
