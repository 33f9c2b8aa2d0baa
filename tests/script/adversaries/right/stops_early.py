"""Ends when the loss over all ranks has not fallen for an epoch, or after 8: all ranks at once."""

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
rows = torch.randn(1024, 16)
data = TensorDataset(rows, (rows.sum(1) > 0).long())
sampler = DistributedSampler(data, world, rank)  # the same order whatever the world is
loader = DataLoader(data, 64 // world, sampler=sampler)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2))
if world > 1:
    model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
best = float("inf")
for epoch in range(8):
    sampler.set_epoch(epoch)
    losses = torch.zeros(())
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        losses += loss.detach()
        optimizer.step()
    if world > 1:
        dist.all_reduce(losses)
    print(epoch, losses.item() / world)
    if losses.item() / world > 0.8 * best:
        break
    best = losses.item() / world
if world > 1:
    dist.destroy_process_group()
