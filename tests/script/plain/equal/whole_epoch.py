"""The loss of an epoch, with one backward pass."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(200, 8), torch.randn(200, 1)
loader = DataLoader(TensorDataset(x, y), batch_size=50, shuffle=True)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(4):
    loss = 0
    for a, b in loader:
        loss = loss + nn.functional.mse_loss(model(a), b)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
