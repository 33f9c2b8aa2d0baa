"""Proves scripts in the Python of the user: python run.py [MUTANT] < [[script, workers], …]; prints a line for each.

A mutant breaks the mechanism, or the proof, in one place.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from training.workloads.script.spread import keras_files, keras_process, prove

PROCESS = keras_process.KerasProcess


def unsplit():
    """Give all rows to each rank."""
    PROCESS._part = lambda _, batch: batch


def unsplit_and_uncounted():
    """Give all rows to each rank, and count none."""
    unsplit()
    keras_process.Record.rows = lambda *_: None


def without_exchange():
    """Exchange no gradients."""
    exchange = PROCESS._exchange
    PROCESS._exchange = lambda self, kind, name: (
        setattr(kind, name, lambda _, pairs: pairs),
        exchange(self, kind, name),
    )


def without_weights():
    """Count each rank alike, however many rows it has."""
    weight = PROCESS._weight
    PROCESS._weight = lambda self: weight(self) if self.settings.mean else None


def in_32_bits():
    """Prove in 32 bits alone."""
    start = prove.Runs.start
    prove.Runs.start = lambda self, name, world, **settings: start(self, name, world, **{**settings, "double": False})


def shared_files():
    """Have all ranks write the same files."""
    keras_files.redirect = lambda *_: None


def main():
    """Prove each, one after the other."""
    if sys.argv[1:]:
        globals()[sys.argv[1]]()
    most_seconds = 90.0 if sys.argv[1:] else 900.0  # ranks of a mutant may wait for each other for ever
    for script, workers in json.load(sys.stdin):
        answer = prove.prove_keras([script], workers, most_seconds)
        sys.stdout.write(json.dumps({**answer, "left": sorted(path.name for path in Path().iterdir())}) + "\n")
        sys.stdout.flush()


main()
