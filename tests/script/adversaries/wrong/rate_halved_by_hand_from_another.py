"""The script halves its rate by a loss, from a rate times the world size."""

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
data = TensorDataset(rows, (rows.sum(1) + torch.randn(1024) > 0).long())
held = torch.randn(512, 16)
held_labels = (held.sum(1) + torch.randn(512) > 0).long()
sampler = DistributedSampler(data) if world > 1 else None
loader = DataLoader(data, 64 // world, sampler=sampler, shuffle=sampler is None)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 2))
if world > 1:
    model = DistributedDataParallel(model)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01 * world)
best = float("inf")
for epoch in range(10):
    if sampler:
        sampler.set_epoch(epoch)
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        loss = nn.functional.cross_entropy(model(held), held_labels)
    if loss > best:
        optimizer.param_groups[0]["lr"] *= 0.5
    best = min(best, loss.item())
if world > 1:
    dist.destroy_process_group()
