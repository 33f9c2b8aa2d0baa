"""Ranks cut the same half of each batch by hand; the only DataLoader is that of a validation, and it is shared out."""

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
labels = (rows.sum(1) > 0).long()
held_out = TensorDataset(torch.randn(256, 16), torch.zeros(256).long())
sampler = DistributedSampler(held_out, shuffle=False) if world > 1 else None
check = DataLoader(held_out, 64 // world, sampler=sampler)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2))
if world > 1:
    model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for epoch in range(2):
    probe = iter(check)
    for start in range(0, 1024, 64):
        x, y = rows[start : start + 64 // world], labels[start : start + 64 // world]
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        if start % 256 == 0:
            model.eval()
            model(next(probe)[0])
            model.train()
if world > 1:
    dist.destroy_process_group()
