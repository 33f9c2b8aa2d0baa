"""The driver of a run of a search: it starts the trials of one arm, in the way that the arm stands for.

    python -m training.workloads.search.driver PLAN [--member N] [-- FLAGS]

PLAN is the file of `training.workloads.search.plan`. A member is one of the processes of the arm `native`, which share
Optuna's storage. FLAGS are those of the arm's own entry point, for the arm `ray`.
"""

import argparse
import sys
from pathlib import Path

from training.contract.arms import ARMS, NATIVE
from training.workloads.search import plan


def main() -> int:
    """Make the trials of a run; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m training.workloads.search.driver", description=__doc__)
    parser.add_argument("plan", type=Path)
    parser.add_argument("--member", type=int)
    parser.add_argument("flags", nargs="*")
    options = parser.parse_args()
    wanted = plan.read(options.plan)
    if ARMS[wanted.arm].start == "ray":
        from training.workloads.search import with_tune

        with_tune.search(wanted, options.flags)
        return 0
    from training.workloads.search import with_optuna

    if options.member is not None:
        with_optuna.search_as_member(wanted, options.member)
    elif wanted.meeting:
        with_optuna.search_in_pods(wanted)
    elif wanted.arm == NATIVE.name:
        with_optuna.search_by_processes(wanted, options.plan)
    else:
        with_optuna.search_alone(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
