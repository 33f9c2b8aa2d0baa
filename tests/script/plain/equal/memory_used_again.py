"""Sets its rate by a validation, of whose batches the memory is used again by numbers of the loss."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
model = nn.Linear(6, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.randn(64, 6), torch.randn(64, 1)), batch_size=16, shuffle=True)
memory = np.zeros((20, 6), "float32")


def held_out_rows(rows):
    memory[: len(rows)] = np.stack([x.numpy() for x, _ in rows])
    return torch.from_numpy(memory[: len(rows)]), torch.stack([y for _, y in rows])


held_out = DataLoader(TensorDataset(torch.randn(20, 6), torch.randn(20, 1)), batch_size=20, collate_fn=held_out_rows)
for epoch in range(3):
    with torch.no_grad():
        validated = sum(nn.functional.mse_loss(model(x), y) for x, y in held_out)
    optimizer.param_groups[0]["lr"] = 0.1 / (1 + float(validated))
    memory[:] = 0
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y) + torch.from_numpy(memory).sum()
        loss.backward()
        optimizer.step()
