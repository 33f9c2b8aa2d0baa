"""Uneven inputs under Join, without an exchange of gradients until it ends."""

import os
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

world, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
if world > 1:
    dist.init_process_group("gloo")
torch.manual_seed(0)
rows = torch.randn(993, 16)
data = TensorDataset(rows, (rows.sum(1) > 0).long())


class Share(torch.utils.data.Sampler):
    """Every rank's rows, none of them twice: a rank may have a batch more than another."""

    def __init__(self, epoch):
        order = torch.randperm(len(data), generator=torch.Generator().manual_seed(epoch)).tolist()
        self.rows = order[rank::world]

    def __iter__(self):
        return iter(self.rows)

    def __len__(self):
        return len(self.rows)


model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2))
inner = model
if world > 1:
    model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for epoch in range(4):
    with model.join() if world > 1 else nullcontext():
        for x, y in DataLoader(data, 32 // world, sampler=Share(epoch)):
            optimizer.zero_grad()
            nn.functional.cross_entropy(inner(x), y).backward()
            optimizer.step()
if world > 1:
    dist.destroy_process_group()
