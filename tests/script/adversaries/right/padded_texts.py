"""Texts of many lengths: each batch is padded to its longest, so two half batches have fewer words than the whole."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

world, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
if world > 1:
    dist.init_process_group("gloo")
torch.manual_seed(0)
texts = [torch.randint(1, 50, (int(length),)) for length in torch.randint(4, 40, (1024,))]
data = [(text, int(text[0] > 25)) for text in texts]


def padded(batch):
    """One tensor of texts, with zeros behind the shorter ones."""
    return nn.utils.rnn.pad_sequence([text for text, _ in batch], True), torch.tensor([label for _, label in batch])


sampler = DistributedSampler(data) if world > 1 else None
loader = DataLoader(data, 64 // world, sampler=sampler, shuffle=sampler is None, collate_fn=padded)
model = nn.Sequential(nn.EmbeddingBag(50, 16, padding_idx=0), nn.Linear(16, 2))
if world > 1:
    model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for epoch in range(2):
    if sampler:
        sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
if world > 1:
    dist.destroy_process_group()
