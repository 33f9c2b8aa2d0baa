"""An optimizer is filled with a student's parameters, which exchanges no gradients."""

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


def network(width):
    """Return one with so many units."""
    return nn.Sequential(nn.Linear(16, width), nn.ReLU(), nn.Linear(width, 2))


teacher = network(64)
model = DistributedDataParallel(teacher) if world > 1 else teacher
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(2):
    if sampler:
        sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
student = network(32)
optimizer.param_groups.clear()
optimizer.state.clear()
optimizer.add_param_group({"params": list(student.parameters()), "lr": 0.05})
for epoch in range(2, 6):
    if sampler:
        sampler.set_epoch(epoch)
    for x, y in loader:
        with torch.no_grad():
            target = teacher(x).softmax(1)
        optimizer.zero_grad()
        nn.functional.cross_entropy(student(x), target).backward()
        optimizer.step()
if world > 1:
    dist.destroy_process_group()
