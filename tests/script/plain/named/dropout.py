"""Dropout, of rows and of the heads of an attention."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(197, 8), torch.randn(197, 1)
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(1, 4), nn.Linear(4, 1)
        self.attention = nn.MultiheadAttention(4, 2, dropout=0.3, batch_first=True)

    def forward(self, x):
        x = nn.functional.dropout(self.first(x.unsqueeze(2)), 0.3, self.training)
        return self.last(self.attention(x, x, x)[0].mean(1))


model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(2):
    for a, b in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(a), b)
        loss.backward()
        optimizer.step()
