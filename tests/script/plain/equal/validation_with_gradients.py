"""A validation without no_grad within the epoch, which the learning rate follows."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(197, 8), torch.randn(197, 1)
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
valid = DataLoader(TensorDataset(x[:50], y[:50]), batch_size=25)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(2):
    for number, (a, b) in enumerate(loader):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
        if number == 2:
            model.eval()
            loss = sum(float(nn.functional.mse_loss(model(c), d).detach()) for c, d in valid)
            optimizer.param_groups[0]["lr"] = 0.01 * min(1.0, loss / 4)
            model.train()
