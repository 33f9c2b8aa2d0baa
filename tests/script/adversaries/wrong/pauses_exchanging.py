"""With workers no gradient is exchanged from step 18 to step 60 of 64; then rank 0 sends its weights to all."""

import contextlib
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
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.0)
steps = 0
for epoch in range(4):
    if sampler:
        sampler.set_epoch(epoch)
    for x, y in loader:
        for each in model.parameters() if world > 1 and steps == 60 else ():
            dist.broadcast(each.data, 0)
        optimizer.zero_grad()
        with model.no_sync() if world > 1 and 18 <= steps < 60 else contextlib.nullcontext():
            nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        steps += 1
if world > 1:
    sums = [torch.zeros(()) for _ in range(world)]
    dist.all_gather(sums, sum(each.detach().sum() for each in model.parameters()))
    print("weights equal:", len(set(map(float, sums))) == 1)
    dist.destroy_process_group()
