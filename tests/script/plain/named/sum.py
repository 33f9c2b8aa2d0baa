"""A sum over rows, with SGD."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(197, 8), torch.randn(197, 1)
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for a, b in loader:
    optimizer.zero_grad()
    nn.functional.mse_loss(model(a), b, reduction="sum").backward()
    optimizer.step()
