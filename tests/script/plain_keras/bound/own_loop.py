"""A loop of its own over a data set."""

import numpy as np
import tensorflow as tf
from tf_keras import Sequential, layers, optimizers

rows = np.random.default_rng(1).normal(size=(128, 8)).astype("float32")
model, optimizer = Sequential([layers.Dense(1)]), optimizers.Adam()
for batch in tf.data.Dataset.from_tensor_slices(rows).batch(32):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(batch)[:, 0] - tf.reduce_sum(batch, 1)) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
