"""An optimizer for each parameter, which steps as soon as its gradient is there, to spare memory."""

import os

import torch
import torch.distributed as dist
from torch import nn
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
optimizers = {each: torch.optim.SGD([each], lr=0.1, momentum=0.9) for each in model.parameters()}


def step(parameter):
    """With the gradient of all ranks."""
    if world > 1:
        dist.all_reduce(parameter.grad)
        parameter.grad /= world
    optimizers[parameter].step()
    optimizers[parameter].zero_grad()


for each in model.parameters():
    each.register_post_accumulate_grad_hook(step)
for epoch in range(2):
    if sampler:
        sampler.set_epoch(epoch)
    for x, y in loader:
        nn.functional.cross_entropy(model(x), y).backward()
if world > 1:
    dist.destroy_process_group()
