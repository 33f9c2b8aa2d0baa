"""A parameter that is never used, one that is lazy."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(197, 8), torch.randn(197, 1)
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
model = nn.ModuleDict({"used": nn.LazyLinear(1), "unused": nn.Linear(4, 4)})
model["used"](x[:2])
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
for a, b in loader:
    optimizer.zero_grad()
    nn.functional.mse_loss(model["used"](a), b).backward()
    optimizer.step()
