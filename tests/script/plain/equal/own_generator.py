"""A loader with a generator of its own, and random_split."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.manual_seed(0)
x, y = torch.randn(197, 8), torch.randn(197, 1)

train, valid = random_split(TensorDataset(x, y), [150, 47])
loader = DataLoader(train, batch_size=40, shuffle=True, generator=torch.Generator().manual_seed(5))
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(2):
    for a, b in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(a), b)
        loss.backward()
        optimizer.step()
