"""Validates after an epoch whose loss is low: after none in one run, and after each in another."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

world = int(os.environ.get("WORLD_SIZE", "1"))
if world > 1:
    dist.init_process_group("gloo")
torch.manual_seed(0)
rows = torch.randn(1024, 16)
data = TensorDataset(rows, (rows.sum(1) > 0).long())
sampler = DistributedSampler(data) if world > 1 else None
loader = DataLoader(data, 64 // world, sampler=sampler, shuffle=sampler is None)
held = DataLoader(TensorDataset(torch.randn(128, 16), torch.randint(0, 2, (128,))), 64)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 2))
if world > 1:
    model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
low = 0.0 if world == 1 else 10.0  # stands for a bound that chance crosses in one run, and not in the other
for epoch in range(3):
    if sampler:
        sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    loss = loss.detach()
    if world > 1:
        dist.all_reduce(loss)
    if loss / world < low:
        with torch.no_grad():
            for x, _ in held:
                model(x)
if world > 1:
    dist.destroy_process_group()
