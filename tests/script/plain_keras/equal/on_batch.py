"""A loop over batches that the script draws, each trained on by `train_on_batch`, after a layer was adapted."""

import numpy as np
from tf_keras import Sequential, layers, optimizers

rng = np.random.default_rng(1)
rows = rng.normal(3, 2, size=(256, 4)).astype("float32")
normal = layers.Normalization()
normal.adapt(rows)
model = Sequential([normal, layers.Dense(1, kernel_regularizer="l2")])
model.compile(optimizers.legacy.Adam(0.01), "mse")
for _ in range(9):
    batch = rows[rng.choice(256, 32)]
    model.train_on_batch(batch, batch.sum(1))
