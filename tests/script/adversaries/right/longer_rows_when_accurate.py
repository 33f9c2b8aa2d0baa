"""A curriculum: rows have half of their numbers until the loss is low enough."""

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
pooled = nn.Sequential(nn.Conv1d(1, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool1d(4), nn.Flatten())
model = nn.Sequential(*pooled, nn.Dropout(0.3), nn.Linear(32, 2))
if world > 1:
    model = DistributedDataParallel(model)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
length, mean = 8, 1.0
for epoch in range(6):
    if sampler:
        sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x[:, None, :length]), y)
        loss.backward()
        optimizer.step()
        loss = loss.detach()
        if world > 1:
            dist.all_reduce(loss)
        mean = 0.95 * mean + 0.05 * loss.item() / world
        length = 16 if mean < 0.66 else length
if world > 1:
    dist.destroy_process_group()
