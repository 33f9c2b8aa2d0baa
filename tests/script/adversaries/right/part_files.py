"""Each rank has a file of its own, whose rows are read by another process when first wanted, and kept there."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

world, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
if world > 1:
    dist.init_process_group("gloo")
torch.manual_seed(0)


class Part(Dataset):
    def __init__(self, name):
        self.name, self.cache = name, [None] * (1024 // world)

    def __len__(self):
        return len(self.cache)

    def __getitem__(self, i):
        if self.cache[i] is None:
            seed = int(self.name.split("-")[1]) * 1024 + i
            x = torch.randn(16, generator=torch.Generator().manual_seed(seed))
            self.cache[i] = x, (x.sum() > 0).long()
        return self.cache[i]


loader = DataLoader(Part(f"part-{rank}"), 64 // world, shuffle=True, num_workers=1, persistent_workers=True)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2))
if world > 1:
    model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(3):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
if world > 1:
    dist.destroy_process_group()
