"""An own loop with an optimizer of Keras, which gets its weights with the first step, as Keras' guide has it."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import torch
from torch.utils.data import DataLoader, TensorDataset

keras.utils.set_random_seed(0)
rows = torch.randn(100, 8)
loader = DataLoader(TensorDataset(rows, rows.sum(1, keepdim=True)), batch_size=16, shuffle=True)

model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(16, activation="tanh"), keras.layers.Dense(1)])
optimizer, loss = keras.optimizers.Adam(0.01), keras.losses.MeanSquaredError()
for batch, labels in (each for _ in range(2) for each in loader):
    model.zero_grad()
    loss(labels, model(batch, training=True)).backward()
    weights = list(model.trainable_weights)
    with torch.no_grad():
        optimizer.apply([each.value.grad for each in weights], weights)
