"""A group is found by the names of its parameters, before which there is "module." with workers: it is empty there."""

import os
from collections import OrderedDict

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
model = nn.Sequential(OrderedDict(body=nn.Linear(16, 32), between=nn.ReLU(), head=nn.Linear(32, 2)))
if world > 1:
    model = DistributedDataParallel(model)
named = list(model.named_parameters())
head = [parameter for name, parameter in named if not name.startswith("body")]
body = [parameter for name, parameter in named if name.startswith("body")]
groups = [{"params": head, "lr": 0.1, "weight_decay": 0.0}, {"params": body, "lr": 0.001, "weight_decay": 0.01}]
optimizer = torch.optim.AdamW(groups)
for epoch in range(3):
    if sampler:
        sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
if world > 1:
    dist.destroy_process_group()
