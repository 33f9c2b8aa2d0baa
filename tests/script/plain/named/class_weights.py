"""A mean weighted by classes."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, labels = torch.randn(160, 8), torch.randint(0, 3, (160,))
loader = DataLoader(TensorDataset(x, labels), batch_size=32, shuffle=True)
model = nn.Linear(8, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 3.0, 9.0]))
for epoch in range(2):
    for a, b in loader:
        optimizer.zero_grad()
        loss(model(a), b).backward()
        optimizer.step()
