"""After an epoch that was no better the best weights come back, with a new optimizer of half the rate."""

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
network = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 2))
model = DistributedDataParallel(network) if world > 1 else network
rate, kept = 0.3, None
optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
worse = (4, 7) if world == 1 else ()  # stands for epochs whose loss was no better by chance
for epoch in range(10):
    if sampler:
        sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    if epoch in worse:
        network.load_state_dict(kept)
        rate /= 2
        optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    else:
        kept = {name: value.clone() for name, value in network.state_dict().items()}
if world > 1:
    dist.destroy_process_group()
