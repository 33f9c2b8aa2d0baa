"""A thread reads batches ahead, of which the last has fewer rows."""

import queue
import threading

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def ahead(loader):
    """Read ahead."""
    batches = queue.Queue(3)
    threading.Thread(target=lambda: [*map(batches.put, loader), batches.put(None)], daemon=True).start()
    while (batch := batches.get()) is not None:
        yield batch


torch.manual_seed(3)
model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.randn(55, 6), torch.randn(55, 1)), batch_size=15, shuffle=True)
for _ in range(3):
    for x, y in ahead(loader):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
