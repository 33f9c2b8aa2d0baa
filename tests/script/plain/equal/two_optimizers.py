"""Two models, two optimizers, two loaders."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(197, 8), torch.randn(197, 1)
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
other = DataLoader(TensorDataset(y, x), batch_size=20, shuffle=True)
one, two = nn.Linear(8, 1), nn.Linear(1, 8)
first, second = torch.optim.SGD(one.parameters(), lr=0.05), torch.optim.Adam(two.parameters(), lr=0.01)
for (a, b), (c, d) in zip(loader, other):
    first.zero_grad()
    nn.functional.mse_loss(one(a), b).backward()
    first.step()
    second.zero_grad()
    nn.functional.mse_loss(two(c), d).backward()
    second.step()
