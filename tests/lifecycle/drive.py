"""Starts lifecycles: random ones of a seed, or one whose steps are known."""

import shutil
import sys
from pathlib import Path

from hypothesis import HealthCheck, Phase, settings
from hypothesis import seed as seeded
from hypothesis.stateful import run_state_machine_as_test

from tests.lifecycle.machine import Lifecycle
from tests.program.engine import ROOT


def cli() -> Path | None:
    """The Pulumi CLI: the one on PATH, or the one that the bootstrap made."""
    found = shutil.which("pulumi") or shutil.which("pulumi", path=str(ROOT / ".tools/pulumi/bin"))
    return Path(found) if found else None


def drive(program: Path, *, steps: int, seed: int, each: int) -> None:
    """Run projects of `each` steps. A failure is not made smaller, which would take hours; Hypothesis repeats it once."""
    print(f"# python -m tests.lifecycle --steps {steps} --seed {seed} --each {each}", file=sys.stderr, flush=True)

    @seeded(seed)
    class Seeded(Lifecycle):
        cli = program

    run_state_machine_as_test(
        Seeded,
        settings=settings(
            max_examples=max(1, steps // each),
            stateful_step_count=each + 1,  # and `begin`
            deadline=None,
            database=None,
            phases=[Phase.generate],
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
        _min_steps=each,
    )


def replay(program: Path, text: str) -> None:
    """Take the steps of a printed lifecycle, and look after each."""
    Lifecycle.cli = program
    state = Lifecycle()
    try:
        state.make_world()
        for line in map(str.strip, text.splitlines()):
            if line.startswith("state.") and not line.startswith(("state.begin(", "state.teardown(")):
                eval(line, {"state": state})  # noqa: S307 - of a failure that this program printed
                state.look()
    finally:
        state.teardown()
