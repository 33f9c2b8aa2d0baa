"""Weights without a module, gradients averaged by hand."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

world, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
if world > 1:
    dist.init_process_group("gloo")
torch.manual_seed(0)
rows = torch.randn(1024, 16)
data = TensorDataset(rows, (rows.sum(1) > 0).long())
sampler = DistributedSampler(data) if world > 1 else None
loader = DataLoader(data, 64 // world, sampler=sampler, shuffle=sampler is None)
weights = [torch.randn(16, 32) / 4, torch.randn(32, 2) / 6]
for each in weights:
    each.requires_grad_()
optimizer = torch.optim.SGD(weights, lr=0.1, momentum=0.9)
for epoch in range(2):
    if sampler:
        sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy((x @ weights[0]).relu() @ weights[1], y).backward()
        for each in weights if world > 1 else ():
            dist.all_reduce(each.grad)
            each.grad /= world
        optimizer.step()
if world > 1:
    dist.destroy_process_group()
