"""Complex numbers, a default type that the script sets, and annotations that are types."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Settings:
    """Read by its annotations."""

    rows: int = 16


torch.set_default_dtype(torch.float32)
torch.manual_seed(3)
model = nn.Linear(6, 3, dtype=torch.complex64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
rows = TensorDataset(torch.randn(64, 6).to(torch.complex64), torch.randint(0, 3, (64,)))
batch = Settings.__annotations__["rows"](Settings.rows)
for _ in range(3):
    for x, y in DataLoader(rows, batch, shuffle=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x).abs(), y).backward()
        optimizer.step()
