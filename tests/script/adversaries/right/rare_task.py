"""A second optimizer steps in few steps: in the 4 and 8 that chance gave in two runs."""

import os

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
    """A body with two heads."""

    def __init__(self):
        super().__init__()
        self.body, self.head, self.other = nn.Linear(16, 32), nn.Linear(32, 2), nn.Linear(32, 2)

    def forward(self, x, *, rare):
        """Return the logits of one of the heads."""
        return (self.other if rare else self.head)(self.body(x).relu())


net = Net()
model = DistributedDataParallel(net, find_unused_parameters=True) if world > 1 else net
optimizer = torch.optim.Adam([*net.body.parameters(), *net.head.parameters()], lr=0.001)
second = torch.optim.SGD(net.other.parameters(), lr=0.1)
drawn = [3, 17, 22, 31] if world == 1 else [2, 9, 11, 18, 25, 30, 37, 41]
step = 0
for epoch in range(3):
    if sampler:
        sampler.set_epoch(epoch)
    for x, y in loader:
        rare = step in drawn
        optimizer.zero_grad()
        second.zero_grad()
        nn.functional.cross_entropy(model(x, rare=rare), y).backward()
        optimizer.step()
        if rare:
            second.step()
        step += 1
if world > 1:
    dist.destroy_process_group()
