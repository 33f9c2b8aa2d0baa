"""Writes before PyTorch is there; trains after the steps of the proof by what these did not have."""
# ruff: noqa: E402 (what it writes comes first)

from functools import partial
from pathlib import Path

Path("log.txt").open("x").close()
Path("log.txt").unlink()

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1)).eval()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
rows = TensorDataset(torch.randn(80, 6), torch.rand(80, 1))
entropy = nn.functional.binary_cross_entropy_with_logits


def learn(loader, loss):
    """Learn an epoch."""
    for x, y in loader:
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()


loader = DataLoader(rows, batch_size=8)
learn(loader, entropy)
learn(loader, nn.functional.l1_loss)
learn(DataLoader(rows, batch_size=16), entropy)
model.train()
learn(loader, entropy)
model.eval()
learn(loader, partial(entropy, pos_weight=torch.tensor([2.0])))
torch.save(model.state_dict(), "model.pt")
