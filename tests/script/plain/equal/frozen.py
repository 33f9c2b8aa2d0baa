"""A backbone that is frozen, and thawed after four steps."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(197, 8), torch.randn(197, 1)
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
backbone, head = nn.Linear(8, 8), nn.Linear(8, 1)
backbone.requires_grad_(False)
optimizer = torch.optim.SGD([*backbone.parameters(), *head.parameters()], lr=0.05)
for number, (a, b) in enumerate([*loader, *loader]):
    backbone.requires_grad_(number > 3)
    optimizer.zero_grad()
    nn.functional.mse_loss(head(torch.relu(backbone(a))), b).backward()
    optimizer.step()
