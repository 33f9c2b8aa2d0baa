"""A copied model with its copied optimizer, a parameter added to it by hand, and sparse tables that take turns."""

import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
tables = nn.ModuleList(nn.Embedding(20, 6, sparse=True) for _ in range(2))
model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
tables, model, optimizer = copy.deepcopy(
    (tables, model, torch.optim.SGD([*tables.parameters(), *model.parameters()], lr=0.1))
)
shift = nn.Parameter(torch.zeros(1))
optimizer.param_groups[0]["params"].append(shift)
loader = DataLoader(TensorDataset(torch.arange(64) % 20, torch.randn(64, 1)), batch_size=16)
for _ in range(3):
    for number, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(tables[number % 2](x)) + shift, y).backward()
        optimizer.step()
