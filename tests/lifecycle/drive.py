"""Starts lifecycles: random ones of a seed, or one whose steps are known."""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import ClassVar

from hypothesis import HealthCheck, Phase, assume, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.lifecycle.checks import say
from tests.lifecycle.steps import STEPS, Project, Step
from tests.lifecycle.world import World


class Lifecycle(RuleBasedStateMachine):
    """A project from its beginning on. Its steps are one rule: of several, Hypothesis leaves out half in each.

    The first failure is kept, and no step is taken after it: Hypothesis would repeat it, which takes as long, and where
    the repetition goes another way, it tells of that alone.
    """

    cli = Path("pulumi")
    left_out: Collection[str] = ()
    failures: ClassVar[list[AssertionError]]

    def __init__(self) -> None:
        super().__init__()
        self._world: World | None = None
        self._project: Project | None = None

    @initialize(number=st.integers(0, 2**16))
    def begin(self, number: int) -> None:
        """Make the project. Hypothesis tries what is simplest first, which is one step again and again: not that."""
        assume(number)
        self._world = World(self.cli)
        self._project = Project(self._world)

    def _attempt(self, action: Callable[[Project], None]) -> None:
        if self._project and not self.failures:
            try:
                action(self._project)
                self._project.look()
            except AssertionError as failure:
                self.failures.append(failure)

    @rule(step=STEPS)
    def take(self, step: Step) -> None:
        """Take the step, and look; one that is left out is none."""
        if step.name in self.left_out:
            return
        self._attempt(lambda project: getattr(project, step.name)(**dict(step.arguments)))

    def teardown(self) -> None:
        """Let the last `up` end with a comparison, and `destroy` with nothing; remove the project."""
        try:
            self._attempt(lambda project: project.measure(way="rwi"))
            self._attempt(lambda project: project.destroy(way="pulumi"))
        finally:
            if self._world:
                self._world.close()


def drive(program: Path, *, steps: int, seed: int, each: int, left_out: Collection[str] = ()) -> None:
    """Run projects of `each` steps, of seeds that follow each other: each by itself has so many again.

    One at a time: the first of several Hypothesis would make small. A failure is not made small, which would take
    hours. Steps named in `left_out` are not taken. Raises AssertionError.
    """
    for number in range(max(1, steps // each)):
        say(f"# python -m tests.lifecycle --steps {each} --seed {seed + number} --each {each}")
        _run(program, seed + number, each, left_out)


def _run(program: Path, seed: int, steps: int, without: Collection[str]) -> None:
    @seeded(seed)
    class Seeded(Lifecycle):
        cli = program
        left_out = without
        failures: ClassVar = []

    run_state_machine_as_test(
        Seeded,
        settings=settings(
            max_examples=1,
            stateful_step_count=steps + 1,  # and `begin`
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
        _min_steps=steps,
    )
    for failure in Seeded.failures:
        raise failure


def replay(program: Path, text: str) -> None:
    """Take the steps of a printed lifecycle, and look after each."""
    world = World(program)
    try:
        state = Project(world)
        for line in map(str.strip, text.splitlines()):
            if line.startswith("state."):
                eval(line, {"state": state})  # noqa: S307 - of a failure that this program printed
                state.look()
    finally:
        world.close()
