"""Two phases, with loaders and optimizers of their own."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(197, 8), torch.randn(197, 1)
body, head, last = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.05)
for (a,) in DataLoader(TensorDataset(x[:100]), batch_size=34, shuffle=True):
    optimizer.zero_grad()
    nn.functional.mse_loss(head(torch.relu(body(a))), a).backward()
    optimizer.step()
optimizer = torch.optim.Adam([*body.parameters(), *last.parameters()], lr=0.01)
for a, b in DataLoader(TensorDataset(x, y), batch_size=34, shuffle=True):
    optimizer.zero_grad()
    nn.functional.mse_loss(last(torch.relu(body(a))), b).backward()
    optimizer.step()
