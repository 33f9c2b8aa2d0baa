"""`train_on_batch` of what a DataLoader delivers."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import torch
from torch.utils.data import DataLoader, TensorDataset

keras.utils.set_random_seed(0)
rows = torch.randn(100, 8)
loader = DataLoader(TensorDataset(rows, rows.sum(1, keepdim=True)), batch_size=16, shuffle=True)

model = keras.Sequential([keras.layers.Dense(16, activation="tanh"), keras.layers.Dense(1)])
model.compile("adam", "mse")
for batch, labels in (each for _ in range(2) for each in loader):
    model.train_on_batch(batch, labels)
