"""Adam, an uneven last batch; and the globals of a program."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

assert (None, None, open) == (__spec__, __cached__, __builtins__.open)
torch.manual_seed(0)
x, y = torch.randn(197, 8), torch.randn(197, 1)
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(2):
    for a, b in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(a), b)
        loss.backward()
        optimizer.step()
