"""Two phases with an optimizer each: the head first, then all of the network."""

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


def train(epochs, rate):
    """Of what has gradients now."""
    shared = DistributedDataParallel(model) if world > 1 else model
    optimizer = torch.optim.AdamW((each for each in model.parameters() if each.requires_grad), lr=rate)
    for epoch in epochs:
        if sampler:
            sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(shared(x), y).backward()
            optimizer.step()


model[0].requires_grad_(False)
train(range(1), 1e-2)
model[0].requires_grad_(True)
train(range(1, 4), 1e-3)
if world > 1:
    dist.destroy_process_group()
