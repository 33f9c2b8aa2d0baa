"""Five large models one after another: looking at them takes long."""

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
for seed in range(5):
    model = nn.Sequential(nn.Linear(16, 2048), nn.ReLU(), nn.Linear(2048, 1024), nn.ReLU(), nn.Linear(1024, 2))
    if world > 1:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    if sampler:
        sampler.set_epoch(seed)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
if world > 1:
    dist.destroy_process_group()
