"""Proves scripts in the Python of the user: python run.py [MUTANT] < [[script, workers], …]; prints a line for each.

A mutant breaks the mechanism, or the proof, in one place. With PORT set, it is the smallest port that is proved.
"""

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from training.workloads.script.spread import (
    batches,
    chance,
    exchange,
    judge,
    keras_torch,
    library_files,
    port,
    ported,
    process,
    prove,
    weights,
)


def without_weights():
    """Count each rank alike, however many rows it has."""
    weights.Weights.of = lambda *_: 1.0


def without_a_rank():
    """Lose the gradient of one rank."""
    root = exchange._root

    def lost(torch, tensor, gradient, weight):
        return root(torch, tensor, gradient, weight * (torch.distributed.get_rank() != 1))

    exchange._root = lost


def split_twice():
    """Split what was split."""
    part = batches.Loaders.part
    batches.Loaders.part = lambda self, iteration, index: (
        part(self, iteration, index)[self.rank :: self.world] if iteration.splits else part(self, iteration, index)
    )


def all_split():
    """Split every loader, whatever the plan says."""
    batches.Plan.splits = lambda *_, **__: True


def own_chance():
    """Leave each rank its own generators."""
    take_over = chance.take_over
    join = process.join
    process.join = lambda torch, settings: (join(torch, settings), torch.manual_seed(settings.rank))[0]
    chance.take_over = lambda torch: take_over and None


def in_32_bits():
    """Prove in 32 bits alone."""
    start = prove.Runs.start
    prove.Runs.start = lambda self, name, world, **settings: start(self, name, world, **{**settings, "double": False})


def unkeyed():
    """Draw what is drawn by chance for each process by itself."""
    start = prove.Runs.start
    prove.Runs.start = lambda self, name, world, **settings: start(self, name, world, **{**settings, "keyed": False})


def unused_left_out():
    """Wait for parameters that no loss needs."""
    leaves = exchange.leaves
    exchange.leaves = lambda roots: (leaves(roots)[0], False)
    process.TIMEOUT_SECONDS = 5


def repeated_work():
    """Take work that each rank repeats for work that is split."""
    judge.MOST_REPEATED = float("inf")


def shared_files():
    """Have all ranks write the same files."""
    library_files.redirect = lambda *_: None


def keras_steps_unknown():
    """Take an optimizer of Keras for none."""
    keras_torch._steps = lambda *_: None


def keras_weights_unknown():
    """Know what an optimizer of Keras has from its first step on."""
    keras_torch._weights = lambda *_: None


def keras_passes_alike():
    """Take passes that build or evaluate a model of Keras for those that train."""
    keras_torch._passes = lambda *_: None


def full_disk():
    """Have no room for the tensors of a proof."""
    usage = prove.shutil.disk_usage
    prove.shutil.disk_usage = lambda path: usage(path)._replace(free=2**10)


def port_without_shares():
    """Have every rank of a port compute all rows."""
    port.SHARE = port.SHARE.replace("rows[rank : len(rows) // ranks * ranks : ranks]", "rows")


def port_without_exchange():
    """Have no model of a port wrapped."""
    port.Port._models = lambda *_, **__: None


MUTANTS = {
    each.__name__: each
    for each in (
        without_weights, without_a_rank, split_twice, all_split, own_chance, in_32_bits, unkeyed, unused_left_out,
        keras_passes_alike, keras_steps_unknown, keras_weights_unknown, repeated_work, shared_files, full_disk,
        port_without_shares, port_without_exchange,
    )
}  # fmt: skip


def main():
    """Prove each, one after the other."""
    if sys.argv[1:]:
        MUTANTS[sys.argv[1]]()
    torch, most_seconds = prove.load(), 60.0 if sys.argv[1:] else 300.0  # ranks of a mutant may wait for ever
    for script, workers in json.load(sys.stdin):
        of = ported.port if "PORT" in os.environ else prove.prove
        answer = of(torch, [script], workers, most_seconds)
        sys.stdout.write(json.dumps({**answer, "left": sorted(path.name for path in Path().iterdir())}) + "\n")
        sys.stdout.flush()


main()
