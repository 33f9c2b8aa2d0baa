"""A penalty on the gradient by each row."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(197, 8), torch.randn(197, 1)
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for a, b in loader:
    a.requires_grad_()
    out = model(a)
    slope = torch.autograd.grad(out.sum(), a, create_graph=True)[0]
    optimizer.zero_grad()
    (nn.functional.mse_loss(out, b) + (slope.norm(dim=1) - 1).square().mean()).backward()
    optimizer.step()
