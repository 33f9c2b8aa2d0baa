"""Parts of rows are masked by chance where they are made a batch, as for a masked language model."""

import torch
from torch import nn
from torch.utils.data import DataLoader


def collate(rows):
    """Mask."""
    x = torch.stack(rows)
    return x.masked_fill(torch.bernoulli(torch.full(x.shape, 0.3)).bool(), 0.0), x


torch.manual_seed(3)
model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 6))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(torch.randn(64, 6), batch_size=16, collate_fn=collate)
for _ in range(3):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
