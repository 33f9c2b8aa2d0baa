"""A small training with DistributedDataParallel that does what other scripts do, by `--as`; it prints its epochs."""

import argparse
import contextlib
import os
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

ROWS, BATCH = 500, 16


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
    workers = {"workers": {"num_workers": 1}, "persistent": {"num_workers": 1, "persistent_workers": True}}
    loader = DataLoader(data, batch_size=BATCH, sampler=sampler, **workers.get(way, {}))
    made = Network(norm=way == "norm", unused=way == "unused")
    model: Any = DistributedDataParallel(made, find_unused_parameters=way == "unused", static_graph=way == "static")
    model = torch.compile(model, backend="aot_eager") if way == "compiled" else model
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    rank, number = dist.get_rank(), 0

    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        batches = 0
        for batch in loader:
            rows, labels = (batch["row"], batch["label"]) if way == "dictionary" else batch
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
        print(f"rank {rank} epoch {epoch}: {batches}", flush=True)


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
