"""Types that the script names itself."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(197, 8), torch.randn(197, 1)
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
model = nn.Linear(8, 1, dtype=torch.float32)
model.register_buffer("mean", torch.zeros(8, dtype=torch.float32))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for a, b in loader:
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(a.float() - model.mean.to(torch.float32)).float(), b.to(torch.float32))
    loss.backward()
    optimizer.step()
