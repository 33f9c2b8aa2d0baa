"""Batches of a memory that the script fills and draws from."""

import random

import torch
from torch import nn

torch.manual_seed(0)
memory = [(torch.randn(8), torch.randn(1)) for _ in range(100)]
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(12):
    memory[step] = (torch.randn(8), torch.randn(1))
    rows = random.sample(memory, 16)
    a, b = torch.stack([each for each, _ in rows]), torch.stack([each for _, each in rows])
    optimizer.zero_grad()
    nn.functional.mse_loss(model(a), b).backward()
    optimizer.step()
