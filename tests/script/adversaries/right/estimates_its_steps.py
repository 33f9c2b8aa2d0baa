"""An optimizer that estimates its step from gradients, which differ with dropout and order."""

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


class Estimating(torch.optim.Optimizer):
    """Like Prodigy, estimates from the gradients how far to step, and keeps that in its group."""

    def __init__(self, parameters, d):
        super().__init__(parameters, {"lr": 1.0, "d": d, "momentum": 0.0})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            norm = torch.stack([each.grad.norm() for each in group["params"]]).norm().item()
            group["d"] = max(group["d"], min(0.1, 0.01 * norm))
            for each in group["params"]:
                each -= group["lr"] * group["d"] * each.grad


optimizer = Estimating(model.parameters(), 1e-6)
for epoch in range(3):
    if sampler:
        sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
if world > 1:
    dist.destroy_process_group()
