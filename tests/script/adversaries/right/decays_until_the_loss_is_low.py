"""The rate decays after each epoch until the loss is low, and then stays: after other epochs in another run."""

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
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 2))
if world > 1:
    model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
decays = 4 if world == 1 else 3  # stands for a bound that chance crosses after these epochs
for epoch in range(8):
    if sampler:
        sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    if epoch < decays:
        schedule.step()
if world > 1:
    dist.destroy_process_group()
