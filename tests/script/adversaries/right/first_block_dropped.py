"""Residual blocks without a stem are dropped at random, without a seed: the first one, too."""

import os
import random

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

world, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
if world > 1:
    dist.init_process_group("gloo")
torch.manual_seed(0)


class Net(nn.Module):
    """Blocks, any of which may be dropped."""

    def __init__(self):
        super().__init__()
        self.blocks, self.head = nn.ModuleList(nn.Linear(16, 16) for _ in range(4)), nn.Linear(16, 2)

    def forward(self, x):
        for block in self.blocks:
            if not self.training or random.SystemRandom().random() < 0.5:
                x = x + block(x).relu()
        return self.head(x)


rows = torch.randn(1024, 16)
data = TensorDataset(rows, (rows.sum(1) > 0).long())
sampler = DistributedSampler(data) if world > 1 else None
loader = DataLoader(data, 64 // world, sampler=sampler, shuffle=sampler is None)
model = Net()
if world > 1:
    model = DistributedDataParallel(model, find_unused_parameters=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(4):
    if sampler:
        sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
if world > 1:
    dist.destroy_process_group()
