"""Goes on from a checkpoint beside the script, which the arm before it has left there."""

import os
import pathlib

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
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
kept = pathlib.Path(__file__).with_suffix(".pt")
plain = model.module if world > 1 else model
begin = 0
if kept.exists():
    found = torch.load(kept)
    begin = found["epoch"] + 1
    plain.load_state_dict(found["model"])
    print(f"goes on with epoch {begin}")
for epoch in range(begin, 4):
    if sampler:
        sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    if rank == 0 and epoch == 1:  # later ones are no better
        torch.save({"epoch": epoch, "model": plain.state_dict()}, kept)
if world > 1:
    dist.destroy_process_group()
