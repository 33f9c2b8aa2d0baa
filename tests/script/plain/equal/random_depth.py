"""Layers that are left out by chance, the same for all rows."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(197, 8), torch.randn(197, 1)
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
head = nn.Linear(8, 1)
optimizer = torch.optim.AdamW([*layers.parameters(), *head.parameters()], lr=0.01)
for epoch in range(2):
    for a, b in loader:
        for layer in layers:
            if torch.rand(()) < 0.5:
                a = a + torch.tanh(layer(a))
        optimizer.zero_grad()
        nn.functional.mse_loss(head(a), b).backward()
        optimizer.step()
