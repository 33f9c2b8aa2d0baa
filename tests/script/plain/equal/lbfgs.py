"""An optimizer that asks for the loss again and again."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(197, 8), torch.randn(197, 1)
loader = DataLoader(TensorDataset(x, y), batch_size=100, shuffle=True)
model = nn.Linear(8, 1)
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4)
for epoch in range(2):
    for a, b in loader:

        def closure():
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(a), b)
            loss.backward()
            return loss

        optimizer.step(closure)
