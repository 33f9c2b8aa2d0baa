"""Texts are filled up to the longest of a batch; with workers all are cut to 40 of up to 56 tokens."""

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


class Net(nn.Module):
    """The mean of embeddings."""

    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(100, 16), nn.Linear(16, 2)

    def forward(self, x):
        return self.head(self.embedding(x).mean(1))


def collate(items):
    """Cut what is longer than the longest."""
    x = torch.stack([tokens for tokens, _ in items])
    longest = min(56 if world == 1 else 40, int((x > 0).sum(1).max()))
    return x[:, :longest], torch.stack([label for _, label in items])


lengths = torch.randint(20, 57, (1024,))
tokens = torch.randint(1, 100, (1024, 56)) * (torch.arange(56)[None] < lengths[:, None])
data = TensorDataset(tokens, (tokens.sum(1) > 1800).long())
sampler = DistributedSampler(data) if world > 1 else None
loader = DataLoader(data, 16 // world, sampler=sampler, shuffle=sampler is None, collate_fn=collate)
model = Net()
if world > 1:
    model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(2):
    if sampler:
        sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
if world > 1:
    dist.destroy_process_group()
