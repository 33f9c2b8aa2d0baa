"""A generator and a discriminator with an optimizer each, which step in turns."""

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
data = TensorDataset(torch.randn(1024, 16) * 2 + 1)
sampler = DistributedSampler(data) if world > 1 else None
loader = DataLoader(data, 64 // world, sampler=sampler, shuffle=sampler is None)
generator = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 16))
discriminator = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
if world > 1:
    generator, discriminator = DistributedDataParallel(generator), DistributedDataParallel(discriminator)
of_generator = torch.optim.Adam(generator.parameters(), lr=1e-3)
of_discriminator = torch.optim.Adam(discriminator.parameters(), lr=1e-3)
loss = nn.BCEWithLogitsLoss()
torch.manual_seed(rank)
for epoch in range(2):
    if sampler:
        sampler.set_epoch(epoch)
    for (real,) in loader:
        made = generator(torch.randn(len(real), 8))
        judged = discriminator(torch.cat([real, made.detach()]))
        truth = torch.cat([torch.ones(len(real), 1), torch.zeros(len(real), 1)])
        of_discriminator.zero_grad()
        loss(judged, truth).backward()
        of_discriminator.step()
        of_generator.zero_grad()
        loss(discriminator(made), torch.ones(len(real), 1)).backward()
        of_generator.step()
if world > 1:
    dist.destroy_process_group()
