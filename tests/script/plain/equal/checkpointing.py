"""Activations computed again, in both ways."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(197, 8), torch.randn(197, 1)
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)

one, two, head = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 1)
optimizer = torch.optim.Adam([*one.parameters(), *two.parameters(), *head.parameters()], lr=0.01)
for a, b in loader:
    optimizer.zero_grad()
    out = checkpoint(two, torch.tanh(checkpoint(one, a.requires_grad_(), use_reentrant=True)), use_reentrant=False)
    nn.functional.mse_loss(head(out), b).backward()
    optimizer.step()
