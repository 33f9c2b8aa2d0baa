"""Learns from labelled rows and from unlabelled ones, both shared out among the ranks."""

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
sampler = DistributedSampler(data) if world > 1 else None
loader = DataLoader(data, 64 // world, sampler=sampler, shuffle=sampler is None)
unlabelled = TensorDataset(torch.randn(4096, 16))
other_sampler = DistributedSampler(unlabelled) if world > 1 else None
more = DataLoader(unlabelled, 256 // world, sampler=other_sampler, shuffle=other_sampler is None)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2))
if world > 1:
    model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for epoch in range(2):
    if sampler:
        sampler.set_epoch(epoch)
        other_sampler.set_epoch(epoch)
    for (x, y), (other,) in zip(loader, more, strict=True):
        optimizer.zero_grad()
        out, of_other = model(torch.cat([x, other])).split([len(x), len(other)])
        loss = nn.functional.cross_entropy(out, y) + of_other.softmax(1).var(1).mean()
        loss.backward()
        optimizer.step()
if world > 1:
    dist.destroy_process_group()
