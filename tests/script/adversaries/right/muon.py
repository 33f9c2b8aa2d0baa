"""Muon, as its author wrote it: a group holds a list of tensors, one a rank."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Muon(torch.optim.Optimizer):
    """Each rank computes the updates of some parameters, and sends them to the others."""

    def __init__(self, parameters):
        parameters, groups = list(parameters), []
        for size in sorted({each.numel() for each in parameters}):
            buffer = torch.empty(world, size)
            of_size = [each for each in parameters if each.numel() == size]
            groups.append({"params": of_size, "update_buffer": buffer, "update_buffer_views": list(buffer)})
        super().__init__(groups, {"lr": 0.02, "momentum": 0.95})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            views = group["update_buffer_views"]
            for base in range(0, len(group["params"]), world):
                if base + rank < len(group["params"]):
                    own = group["params"][base + rank]
                    moment = self.state[own].setdefault("moment", torch.zeros_like(own))
                    moment.lerp_(own.grad, 1 - group["momentum"])
                    views[rank].copy_((moment / (moment.norm() + 1e-7)).flatten())
                if world > 1:
                    dist.all_gather_into_tensor(group["update_buffer"], views[rank].clone()[None])
                for parameter, update in zip(group["params"][base : base + world], views, strict=False):
                    parameter.add_(update.view_as(parameter), alpha=-group["lr"])


world, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
if world > 1:
    dist.init_process_group("gloo")
torch.manual_seed(0)
rows = torch.randn(1024, 16)
data = TensorDataset(rows, (rows.sum(1) > 0).long())
sampler = DistributedSampler(data) if world > 1 else None
loader = DataLoader(data, 64 // world, sampler=sampler, shuffle=sampler is None)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))
if world > 1:
    model = DistributedDataParallel(model)
optimizer = Muon(model.parameters())
for epoch in range(3):
    if sampler:
        sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
if world > 1:
    dist.destroy_process_group()
