"""PyTorch's tutorial: ranks by torch.multiprocessing.spawn, their number from an argument."""

import argparse
import os

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def train(rank, world):
    """What each rank does."""
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", "12355"
    dist.init_process_group("gloo", rank=rank, world_size=world)
    torch.manual_seed(0)
    rows = torch.randn(1024, 16)
    data = TensorDataset(rows, (rows.sum(1) > 0).long())
    sampler = DistributedSampler(data, world, rank)
    loader = DataLoader(data, 64 // world, sampler=sampler)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    torch.multiprocessing.spawn(train, args=(given.workers,), nprocs=given.workers)
