"""A trainer class with one method for training and validation."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(197, 8), torch.randn(197, 1)


class Trainer:
    def __init__(self, model):
        self.model, self.optimizer = model, torch.optim.AdamW(model.parameters(), lr=0.01)

    def run(self, loader, train):
        self.model.train(train)
        for a, b in loader:
            loss = nn.functional.mse_loss(self.model(a), b)
            if train:
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()


trainer = Trainer(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)))
for epoch in range(2):
    trainer.run(DataLoader(TensorDataset(x[:150], y[:150]), batch_size=32, shuffle=True), True)
    trainer.run(DataLoader(TensorDataset(x[150:], y[150:]), batch_size=32), False)
