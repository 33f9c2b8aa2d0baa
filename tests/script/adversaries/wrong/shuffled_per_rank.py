"""Each rank shuffles the rows with a seed of its own before they are shared out by their places: ranks share rows."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

world, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
if world > 1:
    dist.init_process_group("gloo")
torch.manual_seed(0)
rows = torch.randn(1024, 16)


class Store:
    """Rows in an order that follows from a seed."""

    def __init__(self, seed):
        self.order = torch.randperm(1024, generator=torch.Generator().manual_seed(seed))

    def read(self, place):
        row = rows[self.order[place]]
        return row, int(row.sum() > 0)


class Rows(Dataset):
    """Reads from the store."""

    def __init__(self, store):
        self.store = store

    def __len__(self):
        return 1024

    def __getitem__(self, place):
        return self.store.read(place)


data = Rows(Store(100 + rank))
sampler = DistributedSampler(data) if world > 1 else None
loader = DataLoader(data, 64 // world, sampler=sampler, shuffle=sampler is None)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2))
if world > 1:
    model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for epoch in range(2):
    if sampler:
        sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
if world > 1:
    both = [None] * world
    dist.all_gather_object(both, {data.store.order[place].item() for place in sampler})
    print("rows that both ranks had:", len(both[0] & both[1]))
    dist.destroy_process_group()
