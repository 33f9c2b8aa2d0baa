"""Six heads with an optimizer and a rate each; rank 0 draws the task of a step, without a seed."""

import os
import random

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

world = int(os.environ.get("WORLD_SIZE", "1"))
if world > 1:
    dist.init_process_group("gloo")
torch.manual_seed(0)
rows = torch.randn(1024, 16)
data = TensorDataset(rows, (rows.sum(1) > 0).long())
sampler = DistributedSampler(data) if world > 1 else None
loader = DataLoader(data, 64 // world, sampler=sampler, shuffle=sampler is None)


class Net(nn.Module):
    """A body, and a head for each task."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 32), nn.ReLU())
        self.heads = nn.ModuleList(nn.Linear(32, 2) for _ in range(6))

    def forward(self, x, task):
        """Return the logits of a task."""
        return self.heads[task](self.body(x))


net = Net()
model = DistributedDataParallel(net, find_unused_parameters=True) if world > 1 else net
optimizer = torch.optim.Adam(net.body.parameters(), lr=0.001)
of_heads = [torch.optim.SGD(head.parameters(), lr=0.1 / (1 + number)) for number, head in enumerate(net.heads)]
draw = random.SystemRandom()
for epoch in range(3):
    if sampler:
        sampler.set_epoch(epoch)
    for x, y in loader:
        task = torch.tensor(draw.randrange(6))
        if world > 1:
            dist.broadcast(task, 0)
        optimizer.zero_grad()
        of_heads[task].zero_grad()
        nn.functional.cross_entropy(model(x, int(task)), y).backward()
        optimizer.step()
        of_heads[task].step()
if world > 1:
    dist.destroy_process_group()
