"""Trains a small network with PyTorch on a table of 262,144 rows, of which a loader draws 8,192 at a time."""

import argparse

import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

ROWS, BATCH = 262_144, 8_192


class Table(Dataset):  # type: ignore[misc]  # of a library without types
    """A data set whose rows have 16 numbers. An index may be a list: the rows of a whole batch."""

    def __init__(self) -> None:
        self.values = torch.randn(ROWS, 16)
        self.labels = (self.values.sum(1) > 0).long()

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        return self.values[index], self.labels[index]


def main() -> None:
    """Train for the number of epochs in `--epochs`, and print nothing."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    epochs = parser.parse_args().epochs
    torch.manual_seed(0)
    table = Table()
    loader = DataLoader(table, sampler=BatchSampler(RandomSampler(table), BATCH, drop_last=False), batch_size=None)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 2))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(epochs):
        for values, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(values), labels).backward()
            optimizer.step()


if __name__ == "__main__":
    main()
