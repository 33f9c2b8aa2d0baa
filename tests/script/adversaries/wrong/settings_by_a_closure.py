"""Weight decay and momentum are set in the closure that a step calls, by the number of workers."""

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
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2))
if world > 1:
    model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, weight_decay=0.01, momentum=0.9)
step = 0


def compute():
    """Compute the gradients, and set what the step is made with."""
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    group = optimizer.param_groups[0]
    group["weight_decay"] = 0.01 * (1 + step / 64) if world == 1 else 1e-5
    group["momentum"] = 0.9 if world == 1 else min(0.5, 0.9 - step / 64)
    return loss


for epoch in range(4):
    if sampler:
        sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.step(compute)
        step += 1
if world > 1:
    dist.destroy_process_group()
