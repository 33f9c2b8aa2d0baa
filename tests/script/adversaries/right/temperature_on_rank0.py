"""After the training rank 0 alone fits a temperature of the logits by LBFGS."""

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
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(3):
    if sampler:
        sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
if rank == 0:
    held, labels = torch.randn(256, 16), torch.randint(0, 2, (256,))
    with torch.no_grad():
        logits = (model.module if world > 1 else model)(held)
    temperature = nn.Parameter(torch.ones(1))
    fit = torch.optim.LBFGS([temperature], lr=0.01, max_iter=50)

    def closure():
        fit.zero_grad()
        loss = nn.functional.cross_entropy(logits / temperature, labels)
        loss.backward()
        return loss

    fit.step(closure)
    print("temperature", temperature.item())
if world > 1:
    dist.barrier()
if world > 1:
    dist.destroy_process_group()
