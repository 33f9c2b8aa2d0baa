"""Join in each epoch; from the second one on each rank adds noise of its own to its weights."""

import os
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

world, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
if world > 1:
    dist.init_process_group("gloo")
torch.manual_seed(0)
rows = torch.randn(1024, 16)
data = TensorDataset(rows, (rows.sum(1) > 0).long())
sampler = DistributedSampler(data) if world > 1 else None
loader = DataLoader(data, 64 // world, sampler=sampler, shuffle=sampler is None)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2))
if world > 1:
    model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
noise = torch.Generator().manual_seed(rank)
for epoch in range(4):
    if sampler:
        sampler.set_epoch(epoch)
    with Join([model]) if world > 1 else nullcontext():
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            if world > 1 and epoch:
                with torch.no_grad():
                    for parameter in model.parameters():
                        parameter.add_(torch.randn(parameter.shape, generator=noise), alpha=0.1)
if world > 1:
    dist.destroy_process_group()
