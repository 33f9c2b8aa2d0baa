"""Proves scripts in the Python of the user: python run.py [MUTANT] < [[script, workers], …]; prints a line for each.

A mutant breaks the mechanism, or the proof, in one place.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from training.workloads.script.spread import prove, trees_judge, trees_parts, trees_process

MATRICES = trees_parts.MatrixParts


def unsplit():
    """Give all rows to each rank."""
    MATRICES._part = lambda _, matrix: matrix


def without_exchange():
    """Leave each rank to itself."""
    trees_process.TreesProcess._joined = lambda _: False


def groups_apart():
    """Divide groups of a ranking."""
    trees_parts._groups = lambda _: None


def any_trees():
    """Take all trees for equal."""
    equal = trees_judge.Judge._equal
    trees_judge.Judge._equal = lambda *args: equal(*args) or True


def main():
    """Prove each, one after the other."""
    if sys.argv[1:]:
        globals()[sys.argv[1]]()
    for script, workers in json.load(sys.stdin):
        answer = prove.OTHERS["xgboost"]([script], workers, 900.0)
        sys.stdout.write(json.dumps({**answer, "left": sorted(path.name for path in Path().iterdir())}) + "\n")
        sys.stdout.flush()


main()
