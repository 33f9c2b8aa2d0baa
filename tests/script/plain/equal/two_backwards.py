"""Two losses with a backward pass each."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(197, 8), torch.randn(197, 1)
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for a, b in loader:
    optimizer.zero_grad()
    out = model(a)
    nn.functional.mse_loss(out, b).backward(retain_graph=True)
    (0.1 * nn.functional.l1_loss(out, b)).backward()
    optimizer.step()
