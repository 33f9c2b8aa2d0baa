"""Parameters as plain tensors, and torch.func."""

import torch
from torch import nn
from torch.func import functional_call
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(197, 8), torch.randn(197, 1)
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)

net = nn.Linear(8, 1)
weights = {name: each.detach().clone().requires_grad_() for name, each in net.named_parameters()}
optimizer = torch.optim.SGD(weights.values(), lr=0.05)
for a, b in loader:
    optimizer.zero_grad()
    nn.functional.mse_loss(functional_call(net, weights, (a,)), b).backward()
    optimizer.step()
