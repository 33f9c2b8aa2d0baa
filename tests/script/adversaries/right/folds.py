"""Cross-validation: a model and an optimizer of its own for each fold."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, Subset, TensorDataset

world, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
if world > 1:
    dist.init_process_group("gloo")
torch.manual_seed(0)
rows = torch.randn(640, 16)
data = TensorDataset(rows, (rows.sum(1) > 0).long())
scores = []
for fold in range(5):
    held_out = set(range(fold, len(data), 5))
    part = Subset(data, [row for row in range(len(data)) if row not in held_out])
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2))
    if world > 1:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    sampler = DistributedSampler(part) if world > 1 else None
    loader = DataLoader(part, 32 // world, sampler=sampler, shuffle=sampler is None)
    for epoch in range(2):
        if sampler:
            sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    with torch.no_grad():
        x, y = data[sorted(held_out)]
        scores.append((model(x).argmax(1) == y).float().mean().item())
print(sum(scores) / len(scores))
if world > 1:
    dist.destroy_process_group()
