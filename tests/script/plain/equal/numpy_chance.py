"""The rows are split by NumPy's generators, unseeded."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

rows = np.random.default_rng().permutation(197)
x = torch.from_numpy(np.random.randn(197, 8).astype("float32"))
data = TensorDataset(x, x.sum(1, keepdim=True))
loader = DataLoader(Subset(data, rows[:160].tolist()), batch_size=32, shuffle=True)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(2):
    for a, b in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(a), b)
        loss.backward()
        optimizer.step()
