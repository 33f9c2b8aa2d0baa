"""A mixture of experts, the last of which no row reaches with workers."""

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
loader = DataLoader(data, 8 // world, sampler=sampler, shuffle=sampler is None)


class Net(nn.Module):
    """Each row is computed by the expert that its gate chooses."""

    def __init__(self):
        super().__init__()
        self.gate, self.head = nn.Linear(16, 6), nn.Linear(32, 2)
        self.experts = nn.ModuleList(nn.Linear(16, 32) for _ in range(6))

    def forward(self, x):
        weight, chosen = self.gate(8 * x)[:, : 6 if world == 1 else 5].softmax(1).max(1)
        hidden = torch.zeros(len(x), 32)
        for number, expert in enumerate(self.experts):
            own = chosen == number
            if own.any():
                hidden[own] = expert(x[own]) * weight[own, None]
        return self.head(hidden.relu())


model = Net()
if world > 1:
    model = DistributedDataParallel(model, find_unused_parameters=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(1):
    if sampler:
        sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
if world > 1:
    dist.destroy_process_group()
