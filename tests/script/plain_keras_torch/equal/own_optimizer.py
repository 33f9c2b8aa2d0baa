"""A model of Keras that an optimizer of PyTorch trains."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import torch
from torch.utils.data import DataLoader, TensorDataset

keras.utils.set_random_seed(0)
rows = torch.randn(100, 8)
loader = DataLoader(TensorDataset(rows, rows.sum(1, keepdim=True)), batch_size=16, shuffle=True)

model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(16, activation="tanh"), keras.layers.Dense(1)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch, labels in (each for _ in range(2) for each in loader):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(batch), labels).backward()
    optimizer.step()
