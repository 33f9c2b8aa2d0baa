"""Starts lifecycles: random ones of a seed, or one whose steps are known."""

import shutil
from pathlib import Path

from hypothesis import HealthCheck, Phase, assume, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from tests.lifecycle.checks import say
from tests.lifecycle.steps import STEPS, Project, Step
from tests.lifecycle.world import World
from tests.program.engine import ROOT


class Lifecycle(RuleBasedStateMachine):
    """A project from its beginning on. Its steps are one rule: of several, Hypothesis leaves out half in each."""

    cli = Path("pulumi")

    def __init__(self) -> None:
        super().__init__()
        self._world: World | None = None
        self._project: Project | None = None
        self._has_failed = False

    @initialize(number=st.integers(0, 2**16))
    def begin(self, number: int) -> None:
        """Make the project. Hypothesis tries what is simplest first, which is one step again and again: not that."""
        assume(number)
        self._world = World(self.cli)
        self._project = Project(self._world)

    @rule(step=STEPS)
    def take(self, step: Step) -> None:
        """Take the step."""
        self._has_failed = True
        getattr(self._project, step.name)(**dict(step.arguments))
        self._has_failed = False

    @invariant()
    def look(self) -> None:
        """After each step."""
        if self._project:
            self._has_failed = True
            self._project.look()
            self._has_failed = False

    def teardown(self) -> None:
        """Let the last `up` end with a comparison, and `destroy` with nothing; remove the project."""
        try:
            if self._project and not self._has_failed:
                for way, last in (("make", self._project.measure), ("pulumi", self._project.destroy)):
                    last(way=way)
                    self._project.look()
        finally:
            if self._world:
                self._world.close()


def cli() -> Path | None:
    """The Pulumi CLI: the one on PATH, or the one that the bootstrap made."""
    found = shutil.which("pulumi") or shutil.which("pulumi", path=str(ROOT / ".tools/pulumi/bin"))
    return Path(found) if found else None


def drive(program: Path, *, steps: int, seed: int, each: int) -> None:
    """Run projects of `each` steps, of seeds that follow each other: each by itself has so many again.

    One at a time: the first of several Hypothesis would make small. A failure is not made small, which would take
    hours; it is repeated once.
    """
    for number in range(max(1, steps // each)):
        say(f"# python -m tests.lifecycle --steps {each} --seed {seed + number} --each {each}")
        _run(program, seed + number, each)


def _run(program: Path, seed: int, steps: int) -> None:
    @seeded(seed)
    class Seeded(Lifecycle):
        cli = program

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
