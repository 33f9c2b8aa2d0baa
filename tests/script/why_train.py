"""A small training with DistributedDataParallel that does what other scripts do, by `--as`; it prints its epochs."""

import argparse
import contextlib
import itertools
import os
import time
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Sampler

ROWS, BATCH, BATCHES = 500, 16, 16


class Rows(Dataset[Any]):  # type: ignore[misc] # it is Any without PyTorch
    """Rows as a dictionary or as a pair."""

    def __init__(self, named: bool) -> None:
        self.named = named

    def __len__(self) -> int:
        """All of them."""
        return ROWS

    def __getitem__(self, number: int) -> Any:
        """One."""
        row, label = torch.full((32,), number / ROWS), number % 2
        return {"row": row, "label": label} if self.named else (row, label)


class Endless(Sampler[int]):  # type: ignore[misc]
    """Numbers of rows, without a length."""

    def __iter__(self) -> Iterator[int]:
        """All, again and again."""
        while True:
            yield from range(ROWS)


class Batch:
    """A batch of a class of its own, as scripts for graphs have."""

    def __init__(self, rows: list[Any]) -> None:
        self.numbers, labels = [row.tolist() for row, _ in rows], [label for _, label in rows]
        self.labels = torch.tensor(labels)

    def rows(self) -> torch.Tensor:
        """Its rows; they can be taken once."""
        numbers, self.numbers = self.numbers, []
        return torch.tensor(numbers)


class Network(nn.Module):  # type: ignore[misc]
    """Two layers, and one that may be left out."""

    def __init__(self, norm: bool, unused: bool) -> None:
        super().__init__()
        self.first = nn.Linear(32, 64)
        self.norm = nn.BatchNorm1d(64) if norm else nn.Identity()
        self.last = nn.Linear(64, 2)
        self.other = nn.Linear(32, 2) if unused else None

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Scores of two classes."""
        return self.last(torch.relu(self.norm(self.first(rows))))


def main() -> None:
    """Train for many epochs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--as", dest="way", default="plain")
    parser.add_argument("--epochs", type=int, default=100_000)
    options = parser.parse_args()
    way: str = options.way

    dist.init_process_group("gloo")
    data = Rows(named=way == "dictionary")
    sampler: DistributedSampler[Any] = DistributedSampler(data)
    more: dict[str, dict[str, Any]] = {
        "workers": {"num_workers": 1},
        "persistent": {"num_workers": 1, "persistent_workers": True},
        "endless": {"num_workers": 1, "sampler": Endless()},
        "objects": {"collate_fn": Batch},
    }
    loader = DataLoader(data, **{"batch_size": BATCH, "sampler": sampler, **more.get(way, {})})
    made = Network(norm=way == "norm", unused=way == "unused")
    model: Any = DistributedDataParallel(made, find_unused_parameters=way == "unused", static_graph=way == "static")
    if way == "wrapped":  # as Lightning leaves it after its first validation
        model.eval()
        made.train()
    model = torch.compile(model, backend="aot_eager") if way == "compiled" else model
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    rank, number = dist.get_rank(), 0

    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        if way == "another-model" and epoch == 3:
            model = DistributedDataParallel(Network(norm=False, unused=False))
            optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        batches = 0
        with Join([model]) if way == "join" else contextlib.nullcontext():
            for batch in passes(way, loader, data, rank):
                rows, labels = parts(way, batch)
                number, batches = number + 1, batches + 1
                with synchronised(way, model, number):
                    if way == "in-place":
                        assert rows.max() <= 1.0, "a batch that this script has changed was given to it again"
                        rows += 1.0
                    nn.functional.cross_entropy(model(rows), labels).backward()
                if way == "leaves-out" and rank == 1 and number == 40:
                    optimizer.zero_grad()
                    continue
                if way not in ("no_sync", "flag") or number % 2 == 0:
                    optimizer.step()
                    optimizer.zero_grad()
                if way == "validates" and rank == 0 and number % 10 == 0:
                    model(rows)
        print(f"rank {rank} epoch {epoch}: {batches}", flush=True)


def passes(way: str, loader: Any, data: Rows, rank: int) -> Iterator[Any]:
    """Yield the batches of an epoch."""
    if way == "two-loaders":
        for batch, (rows, _) in zip(loader, DataLoader(data, batch_size=BATCH // 2), strict=False):
            assert len(rows) <= BATCH // 2, "a batch of another loader was given"
            yield batch
    elif way in ("endless", "join"):
        yield from itertools.islice(loader, BATCHES - 2 * rank * (way == "join"))
    else:
        yield from loader


def parts(way: str, batch: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Return rows and labels."""
    if way == "prepares":
        time.sleep(0.01)
    if way == "objects":
        return batch.rows(), batch.labels
    return (batch["row"], batch["label"]) if way == "dictionary" else batch


@contextlib.contextmanager
def synchronised(way: str, model: Any, number: int) -> Iterator[None]:
    """Exchange gradients in each second backward alone, in one of two ways."""
    if way == "flag":
        model.require_backward_grad_sync = number % 2 == 0
    with model.no_sync() if way == "no_sync" and number % 2 else contextlib.nullcontext():
        yield


if __name__ == "__main__":
    os.environ.setdefault("WORLD_SIZE", "1")
    main()
