"""Trains a small network on synthetic pictures with PyTorch's DistributedDataParallel.

torchrun --nproc-per-node 2 torch_ddp.py --epochs 3
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def pictures(count: int) -> TensorDataset:
    """Noise, half of it a little brighter."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 2, (count,), generator=generator)
    images = torch.randn(count, 3, 32, 32, generator=generator) + 0.2 * labels[:, None, None, None]
    return TensorDataset(images, labels)


def main() -> None:
    """Train, and print the loss of each epoch."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=64, help="rows a step, over all ranks")
    options = parser.parse_args()

    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world > 1:
        dist.init_process_group("gloo")
    torch.manual_seed(1)

    data = pictures(2048)
    sampler = DistributedSampler(data) if world > 1 else None
    loader = DataLoader(data, batch_size=options.batch // world, sampler=sampler, shuffle=sampler is None)
    model: nn.Module = nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 28 * 28, 2)
    )
    if world > 1:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    for epoch in range(options.epochs):
        if sampler:
            sampler.set_epoch(epoch)
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.4f}")

    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
