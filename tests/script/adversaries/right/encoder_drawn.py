"""Rank 0 draws which of two encoders a step has, of pictures or of words."""

import os
import random

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

world, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
if world > 1:
    dist.init_process_group("gloo")
torch.manual_seed(0)


class Net(nn.Module):
    """Two encoders and a head."""

    def __init__(self):
        super().__init__()
        self.of_pictures, self.of_words, self.head = nn.Linear(64, 16), nn.Embedding(50, 16), nn.Linear(16, 2)

    def forward(self, picture, words, which):
        return self.head(self.of_pictures(picture) if which else self.of_words(words).mean(1))


pictures, words = torch.randn(1024, 64), torch.randint(0, 50, (1024, 8))
data = TensorDataset(pictures, words, (pictures.sum(1) > 0).long())
sampler = DistributedSampler(data) if world > 1 else None
loader = DataLoader(data, 64 // world, sampler=sampler, shuffle=sampler is None)
model = Net()
if world > 1:
    model = DistributedDataParallel(model, find_unused_parameters=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(3):
    if sampler:
        sampler.set_epoch(epoch)
    for picture, text, y in loader:
        which = torch.tensor(random.SystemRandom().randrange(2))
        if world > 1:
            dist.broadcast(which, 0)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(picture, text, int(which)), y).backward()
        optimizer.step()
if world > 1:
    dist.destroy_process_group()
