"""How often `rwi compare-commits` is wrong, and what it finds, by simulation: `python -m tests.simulations.commits`.

Made-up whole times go through the project's own rule until each arm is decided, or 12 repeats were made. Nothing is
measured, and what is simulated is fixed by the seed.
"""

import argparse
import math
import random

from compare import commits
from compare.commits import FASTER, SLOWER, UNDECIDED
from tests.simulations.sequential import seeded
from training.contract.repeats import MOST_AUTO_REPEATS

TRIES = 500


def call(rng: random.Random, slower: float, noise: float, arms: int) -> tuple[dict[str, str], int]:
    """Return what one call says of each arm, and its repeats; `noise`: of a run's logarithm."""
    by, seconds = commits.rule(arms), {str(arm): ([], []) for arm in range(arms)}  # type: ignore[var-annotated]
    left, repeats = list(seconds), 0
    while left and repeats < MOST_AUTO_REPEATS:
        repeats += 1
        for arm in left:
            for times, factor in zip(seconds[arm], (1.0, 1 + slower), strict=True):
                times.append(factor * math.exp(rng.gauss(0.0, noise)))
        left = commits.undecided({arm: seconds[arm] for arm in left}, by)
    return {arm: commits.decision(commits.arm_change(*of, by)) for arm, of in seconds.items()}, repeats


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulations.commits", description=__doc__)
    parser.add_argument("--tries", type=int, default=TRIES)
    parser.add_argument("--noise", type=float, nargs="*", default=[0.02, 0.05, 0.1], help="of a run, as 0.05 for 5 %%")
    options = parser.parse_args()
    print("| noise of a run | arms | planted | calls with an arm slower | faster | not decided | repeats |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for noise in options.noise:
        for arms in (1, 4):
            for slower in (0.0, 0.1, 0.3):
                rng = seeded(f"{noise} {arms} {slower}")
                said = [call(rng, slower, noise, arms) for _ in range(options.tries)]
                shares = [sum(word in of.values() for of, _ in said) / options.tries
                          for word in (SLOWER, FASTER, UNDECIDED)]  # fmt: skip
                cells = [f"{100 * share:.1f} %" for share in shares]
                repeats = sum(each for _, each in said) / options.tries
                print(f"| {100 * noise:g} % | {arms} | {100 * slower:g} % | {' | '.join(cells)} | {repeats:.1f} |")


if __name__ == "__main__":
    main()
