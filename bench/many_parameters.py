"""A training of 161 parameters under DistributedDataParallel, for what observing it costs: each has a hook at first.

python -m bench.observer many_parameters.py examples/.venv/bin/python
"""

import argparse
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

LAYERS, WIDTH, BATCH, STEPS = 80, 160, 64, 60


def main() -> None:
    """Train for the number of epochs in `--epochs`, as the only rank of its process group."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    options = parser.parse_args()
    torch.manual_seed(0)
    layers = [layer for _ in range(LAYERS) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    data = TensorDataset(torch.randn(BATCH * STEPS, WIDTH), torch.randint(0, 2, (BATCH * STEPS,)))
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("gloo", init_method=f"file://{Path(folder, 'group')}", rank=0, world_size=1)
        model = DistributedDataParallel(nn.Sequential(*layers, nn.Linear(WIDTH, 2, bias=False)))
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        for _ in range(options.epochs):
            for rows, labels in DataLoader(data, BATCH, shuffle=True):
                loss = nn.functional.cross_entropy(model(rows), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
