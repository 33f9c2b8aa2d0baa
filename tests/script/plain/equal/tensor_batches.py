"""A batch sampler draws tensors, of which the data set reads all rows at once."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    """Rows that are read together."""

    def __init__(self):
        """Make them."""
        self.x, self.y = torch.randn(64, 6), torch.randn(64, 1)

    def __len__(self):
        """Return their number."""
        return len(self.x)

    def __getitems__(self, numbers):
        """Read some."""
        return [(self.x[number], self.y[number]) for number in numbers.tolist()]


class Batches:
    """Batches of 16 rows."""

    def __iter__(self):
        """Draw them."""
        return iter(torch.randperm(64).split(16))


torch.manual_seed(3)
model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(Rows(), batch_sampler=Batches())
for _ in range(3):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
