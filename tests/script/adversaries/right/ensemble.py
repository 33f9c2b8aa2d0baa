"""Three models, which train in turns, an epoch each."""

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
rows = torch.randn(512, 16)
data = TensorDataset(rows, (rows.sum(1) > 0).long())
sampler = DistributedSampler(data) if world > 1 else None
loader = DataLoader(data, 32 // world, sampler=sampler, shuffle=sampler is None)
made = [nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2)) for _ in range(3)]
models = [DistributedDataParallel(each) for each in made] if world > 1 else made
optimizers = [torch.optim.Adam(each.parameters(), lr=0.01) for each in models]
for epoch in range(3):
    for model, optimizer in zip(models, optimizers):
        if sampler:
            sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
if world > 1:
    dist.destroy_process_group()
