"""An own loop whose optimizer of Keras gets its weights with the first step; some are of a module of PyTorch."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import torch
from torch.utils.data import DataLoader, TensorDataset

keras.utils.set_random_seed(0)
rows = torch.randn(100, 8)
loader = DataLoader(TensorDataset(rows, rows.sum(1, keepdim=True)), batch_size=16, shuffle=True)

wrapped = keras.layers.TorchModuleWrapper(torch.nn.Linear(8, 16), output_shape=(None, 16))
model = keras.Sequential([keras.layers.Input((8,)), wrapped, keras.layers.Activation("tanh"), keras.layers.Dense(1)])
shift = keras.Variable([0.0])
optimizer, loss = keras.optimizers.Adam(0.01), keras.losses.MeanSquaredError()
for batch, labels in (each for _ in range(2) for each in loader):
    model.zero_grad()
    shift.value.grad = None
    loss(labels, model(batch, training=True) + shift).backward()
    weights = [*model.trainable_weights, shift]
    with torch.no_grad():
        optimizer.apply([each.value.grad for each in weights], weights)
