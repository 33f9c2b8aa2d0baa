"""A loss by row, of which the mean is taken, through NumPy."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(197, 8), torch.randn(197, 1)
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

for a, b in loader:
    a = torch.from_numpy(np.tanh(a.numpy()) * 2)
    optimizer.zero_grad()
    nn.functional.mse_loss(model(a), b, reduction="none").mean(dim=0).sum().backward()
    optimizer.step()
