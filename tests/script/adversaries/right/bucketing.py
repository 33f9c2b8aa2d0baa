"""A batch sampler of its own, as for texts that are sorted by length: batches of neighbours, in a random order."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Sampler, TensorDataset

world, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
if world > 1:
    dist.init_process_group("gloo")
torch.manual_seed(0)
rows = torch.randn(1024, 16)
data = TensorDataset(rows, (rows.sum(1) > 0).long())


class Buckets(Sampler):
    """This rank's part of each batch, in an order that follows from the epoch."""

    epoch = 0

    def __len__(self):
        return len(data) // 64

    def __iter__(self):
        order = torch.randperm(len(self), generator=torch.Generator().manual_seed(self.epoch))
        for batch in order.tolist():
            yield list(range(batch * 64 + rank, (batch + 1) * 64, world))


sampler = Buckets()
loader = DataLoader(data, batch_sampler=sampler)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2))
if world > 1:
    model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for epoch in range(2):
    sampler.epoch = epoch
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
if world > 1:
    dist.destroy_process_group()
