"""A recurrent network whose state goes on from batch to batch."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(64, 5, 4)
loader = DataLoader(TensorDataset(x, x.sum((1, 2)).unsqueeze(1)), batch_size=16)
recurrent, head = nn.LSTM(4, 8, batch_first=True), nn.Linear(8, 1)
optimizer = torch.optim.Adam([*recurrent.parameters(), *head.parameters()], lr=0.01)
state = None
for epoch in range(2):
    for a, b in loader:
        out, state = recurrent(a, state)
        state = tuple(each.detach() for each in state)
        optimizer.zero_grad()
        nn.functional.mse_loss(head(out[:, -1]), b).backward()
        optimizer.step()
