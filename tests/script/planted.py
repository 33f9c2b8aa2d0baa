"""`rwi why` on a training of which it is known what makes its steps long: how often it says so.

    TRY_PYTHON=examples/.venv/bin/python python -m tests.script.planted --tries 10

The machine has to be quiet. A try beside which other programs took more than 0.1 CPUs is made again, a few times.
"""

import argparse
import shlex
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from cli.tryout.others import Others
from cli.tryout.run_arm import Changed, run
from cli.why import blocks
from cli.why.follow import Follower
from compare import why
from compare.why import INPUT_READY, NO_EXCHANGE, ArmWhy
from report import terminal
from report.terminal import columns
from tests.stacks import TORCH
from tests.typed import tried
from training.machine import machine_lock
from training.workloads.script import commands
from training.workloads.script.observe import experiment
from training.workloads.script.recognise import recognise

SCRIPT = Path(__file__).with_name("planted_train.py")
PLANTED = {
    "alone": "",
    "nothing": NO_EXCHANGE,
    "input": INPUT_READY,
    "gradients": NO_EXCHANGE,
    "rank": "rank 1",
    "validation": "between",
    "threads": "threads 1",
    "workers": INPUT_READY,
}
"""By what is planted: the name of the cause that it is. In one process alone there is none; two ranks exchange
gradients where nothing is planted, too."""
QUIET_CPUS = 0.1
MOST_TRIES = 3
"""Of one try, until the machine was quiet."""


@dataclass(frozen=True)
class Try:
    """One run of the planted training."""

    plant: str
    others_cpus: float | None
    found: ArmWhy | None
    seconds: float

    @property
    def first(self) -> str:
        """The first cause, or the rank that was slow by more; "" where there is none."""
        if self.found is None:
            return ""
        named = {cause.name: cause.seconds for cause in self.found.causes[:1]}
        if self.found.has_slow_rank:
            named[f"rank {self.found.slowest_rank}"] = self.found.slower_seconds or 0.0
        return max(named, key=lambda name: named[name], default="")


def once(plant: str, limit_seconds: int) -> Try:
    """Try it once, whatever else the machine does."""
    asked = replace(tried(str(SCRIPT), "--python", TORCH, "--", *shlex.split(f"--plant {plant}")), steps=0)
    script = recognise(SCRIPT, asked.arguments)
    made = commands.commands(script, asked.python, commands.Sizes(workers=2, master_port=29533), {})
    arm = next(each for each in made if each.arm == ("baseline" if plant == "alone" else "native"))
    with tempfile.TemporaryDirectory(prefix="planted-") as folder, Others() as others:
        own = Path(folder) / arm.arm
        with Follower(own, limit_seconds, lambda _: None) as follower:
            changed = Changed(variables={experiment.WHY: "1"}, is_over=follower.is_to_be_ended)
            outcome = run(arm, asked, Path(folder), SCRIPT.parent, changed)
        rounds = blocks.tried(own)
    judged = why.judge(rounds, arms=1) if rounds else None
    return Try(plant, others.cpus(), judged if isinstance(judged, ArmWhy) else None, outcome.seconds)


def quietly(plant: str, limit_seconds: int) -> Try:
    """Try it until nothing else ran beside it, or a few times."""
    last = once(plant, limit_seconds)
    for _ in range(MOST_TRIES - 1):
        if last.others_cpus is not None and last.others_cpus < QUIET_CPUS:
            break
        last = once(plant, limit_seconds)
    return last


def row(each: Try) -> tuple[str, ...]:
    """A line of the table."""
    others = "unknown" if each.others_cpus is None else f"{each.others_cpus:.2f}"
    if each.found is None:
        return (each.plant, "", "", "nothing known", "", others, f"{each.seconds:.0f}")
    cause = each.found.causes[0] if each.found.causes else None
    gain = f"{1000 * cause.seconds:.1f} ({1000 * cause.lower:.1f} to {1000 * cause.upper:.1f})" if cause else ""
    gain = f"{1000 * (each.found.slower_seconds or 0.0):.1f} longer" if each.first.startswith("rank") else gain
    step = f"{1000 * each.found.step_seconds:.1f}"
    return (each.plant, str(each.found.rounds), step, each.first or "none", gain, others, f"{each.seconds:.0f}")


def main() -> int:
    """Print a line a try, then how many named what was planted first."""
    parser = argparse.ArgumentParser(prog="python -m tests.script.planted", description=__doc__)
    parser.add_argument("--tries", type=int, default=10)
    parser.add_argument("--only", nargs="*", choices=list(PLANTED), default=list(PLANTED))
    parser.add_argument("--limit", type=int, default=60, help="seconds of a try")
    options = parser.parse_args()
    machine_lock.hold(lambda text: terminal.write(text, sys.stderr))
    tries: list[Try] = []
    for _ in range(options.tries):
        for plant in options.only:
            tries.append(quietly(plant, options.limit))
            terminal.write("  ".join(row(tries[-1])))
            sys.stdout.flush()
    title = ("planted", "rounds", "ms a step", "first cause", "ms it would gain", "others' CPUs", "seconds")
    terminal.write("\n" + "\n".join(columns(title, [row(each) for each in tries])))
    for plant in options.only:
        of_plant = [each for each in tries if each.plant == plant]
        right = sum(each.first == PLANTED[plant] for each in of_plant)
        terminal.write(f"{plant}: {right} of {len(of_plant)} as planted")
    return 0


if __name__ == "__main__":
    sys.exit(main())
