"""Batches as dictionaries, by a collate function."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(197, 8), torch.randn(197, 1)


def collate(rows):
    return {"x": torch.stack([a for a, _ in rows]), "y": torch.stack([b for _, b in rows])}


loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True, collate_fn=collate)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for batch in loader:
    optimizer.zero_grad()
    nn.functional.mse_loss(model(batch["x"]), batch["y"]).backward()
    optimizer.step()
