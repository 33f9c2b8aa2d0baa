"""LayerDrop, with half as many layers more dropped with workers, each of which draws for itself."""

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


class Net(nn.Module):
    """Blocks with a way around each."""

    def __init__(self):
        super().__init__()
        self.first, self.head = nn.Linear(16, 32), nn.Linear(32, 2)
        self.blocks = nn.ModuleList(nn.Linear(32, 32) for _ in range(6))

    def forward(self, x):
        x = self.first(x).relu()
        for block in self.blocks:
            if self.training and torch.rand(()) < (0.3 if world == 1 else 0.45):
                continue
            x = x + block(x).relu()
        return self.head(x)


model = Net()
torch.manual_seed(rank)
if world > 1:
    model = DistributedDataParallel(model, find_unused_parameters=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(3):
    if sampler:
        sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
if world > 1:
    dist.destroy_process_group()
