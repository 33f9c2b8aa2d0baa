"""With workers the sampler of each rank goes twice over a quarter of the rows, and half of all are never read."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Sampler, TensorDataset

world, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
if world > 1:
    dist.init_process_group("gloo")
torch.manual_seed(0)


class Twice(Sampler):
    """Its rows, in an order that is drawn."""

    def __init__(self):
        self.epoch = 0

    def __len__(self):
        return 1024 // world

    def __iter__(self):
        mine = list(range(1024)) if world == 1 else list(range(rank, 512, world)) * 2
        order = torch.randperm(len(mine), generator=torch.Generator().manual_seed(self.epoch))
        return iter([mine[number] for number in order.tolist()])


rows = torch.randn(1024, 16)
data = TensorDataset(rows, (rows.sum(1) > 0).long())
sampler = Twice()
loader = DataLoader(data, 64 // world, sampler=sampler)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2))
if world > 1:
    model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(3):
    sampler.epoch = epoch
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
if world > 1:
    dist.destroy_process_group()
