"""Ends by `os._exit`, so that no thread of a library keeps it, and has a child that ends so, too."""

import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
model = nn.Linear(6, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
rows = TensorDataset(torch.randn(40, 6), torch.randn(40, 1))
if (child := os.fork()) == 0:
    os._exit(0)
os.waitpid(child, 0)
try:
    for _ in range(1):
        for x, y in DataLoader(rows, batch_size=8):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
finally:
    os._exit(0)
