"""A mean over the tokens that are no padding."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
tokens = torch.randint(1, 20, (96, 7)) * (torch.arange(7) < torch.randint(2, 8, (96, 1)))
loader = DataLoader(TensorDataset(tokens), batch_size=16, shuffle=True)
model = nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 20))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for (a,) in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(a[:, :-1]).flatten(0, 1), a[:, 1:].flatten(), ignore_index=0).backward()
    optimizer.step()
