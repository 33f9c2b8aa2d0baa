"""A model that is used by a method, not called."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(197, 8), torch.randn(197, 1)
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Parameter(torch.randn(16, 1) / 4)

    def loss(self, a, b):
        return (torch.tanh(self.first(a)) @ self.second - b).square().mean()


model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for a, b in loader:
    optimizer.zero_grad()
    model.loss(a, b).backward()
    optimizer.step()
