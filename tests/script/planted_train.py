"""A training of which it is known what makes its steps long, by `--plant`; with nothing planted it computes alone."""

import argparse
import os
import time
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

ROWS, BATCH = 1024, 32
INPUT_SECONDS, RANK_SECONDS = 0.030, 0.020
"""Slept for a batch, and by rank 1 in a step."""
GRADIENTS = 16 * 2**20
"""More parameters: 64 MiB."""
BURNED_SECONDS = 0.0006
"""CPU time for a row in the loader's processes."""


class Pictures(Dataset[Any]):  # type: ignore[misc] # it is Any without PyTorch
    """Noise; it may take CPU time to read."""

    def __init__(self, burned_seconds: float) -> None:
        self.images = torch.randn(ROWS, 3, 32, 32)
        self.burned_seconds = burned_seconds

    def __len__(self) -> int:
        """All rows."""
        return ROWS

    def __getitem__(self, number: int) -> Any:
        """One row and its label."""
        end = time.thread_time() + self.burned_seconds
        while time.thread_time() < end:
            pass
        return self.images[number], number % 2


class Network(nn.Module):  # type: ignore[misc]
    """Two convolutions of few parameters, and perhaps many that compute nothing."""

    def __init__(self, more: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 24, 3), nn.ReLU(), nn.Conv2d(24, 24, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
            nn.Linear(24, 2),
        )  # fmt: skip
        self.more = nn.Parameter(torch.zeros(more)) if more else None

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Scores of two classes."""
        scores = self.layers(images)
        return scores if self.more is None else scores + 0.0 * self.more.sum()


def collate_slowly(rows: Any) -> Any:
    """A batch, after a while."""
    time.sleep(INPUT_SECONDS)
    return torch.utils.data.default_collate(rows)


def main() -> None:
    """Train until somebody ends it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--plant", default="nothing")
    parser.add_argument("--epochs", type=int, default=100_000)
    options = parser.parse_args()
    plant: str = options.plant
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        dist.init_process_group("gloo")
    rank = dist.get_rank() if dist.is_initialized() else 0
    if plant == "threads":
        torch.set_num_threads(2)

    data = Pictures(BURNED_SECONDS if plant == "workers" else 0.0)
    sampler: Any = DistributedSampler(data) if dist.is_initialized() else None
    more: dict[str, Any] = {"num_workers": 2, "persistent_workers": True} if plant == "workers" else {}
    if plant == "input":
        more["collate_fn"] = collate_slowly
    loader = DataLoader(data, batch_size=BATCH, sampler=sampler, drop_last=True, **more)
    model: Any = Network(GRADIENTS if plant == "gradients" else 0)
    model = DistributedDataParallel(model) if dist.is_initialized() else model
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    held_out = torch.randn(BATCH, 3, 32, 32)
    for _ in range(options.epochs):
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images), labels)
            if plant == "rank" and rank == 1:
                time.sleep(RANK_SECONDS)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if plant == "validation":
                model.eval()
                with torch.no_grad():
                    model(held_out)
                model.train()


if __name__ == "__main__":
    main()
