"""Parameters with hooks, weight normalisation, and a tied weight."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(197, 8), torch.randn(197, 1)
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
one = nn.utils.parametrizations.weight_norm(nn.Linear(8, 8))
head = nn.Linear(8, 1)
head.weight.register_hook(lambda gradient: 0.5 * gradient)
optimizer = torch.optim.SGD([*one.parameters(), *head.parameters()], lr=0.05)
for a, b in loader:
    optimizer.zero_grad()
    nn.functional.mse_loss(head(one(one(a))), b).backward()
    optimizer.step()
