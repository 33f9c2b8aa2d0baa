"""A weighted sampler, and one of batches."""

import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, TensorDataset, WeightedRandomSampler

torch.manual_seed(0)
x, y = torch.randn(197, 8), torch.randn(197, 1)

drawn = WeightedRandomSampler(torch.rand(197), 197)
loader = DataLoader(TensorDataset(x, y), batch_sampler=BatchSampler(drawn, 30, drop_last=False))
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(2):
    for a, b in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(a), b)
        loss.backward()
        optimizer.step()
