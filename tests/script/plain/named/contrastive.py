"""Rows against all others of their batch."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(197, 8), torch.randn(197, 1)
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
model = nn.Linear(8, 6)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for a, b in loader:
    one = nn.functional.normalize(model(a), dim=1)
    two = nn.functional.normalize(model(a + 0.1 * b), dim=1)
    optimizer.zero_grad()
    nn.functional.cross_entropy(one @ two.T / 0.1, torch.arange(len(a))).backward()
    optimizer.step()
