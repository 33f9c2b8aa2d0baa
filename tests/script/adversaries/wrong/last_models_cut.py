"""80 models one after another; with workers the last 15 have half of each batch."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

world, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
if world > 1:
    dist.init_process_group("gloo")
torch.manual_seed(0)
rows = torch.randn(256, 16)
data = TensorDataset(rows, (rows.sum(1) > 0).long())
sampler = DistributedSampler(data) if world > 1 else None
loader = DataLoader(data, 64 // world, sampler=sampler, shuffle=sampler is None)
for number in range(80):
    model = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 2))
    if world > 1:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    if sampler:
        sampler.set_epoch(number)
    for x, y in loader:
        if world > 1 and number >= 65:
            x, y = x[: len(x) // 2], y[: len(y) // 2]
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
if world > 1:
    dist.destroy_process_group()
