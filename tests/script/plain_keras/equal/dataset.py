"""A data set that is shuffled before it is batched, with validation data."""

import numpy as np
import tensorflow as tf
from tf_keras import Model, layers, optimizers

rows = np.random.default_rng(1).normal(size=(200, 8)).astype("float32")
labels = (rows.sum(1) > 0).astype("int64")
data = tf.data.Dataset.from_tensor_slices((rows, labels)).shuffle(200).batch(32).prefetch(2)
inputs = layers.Input((8,))
model = Model(inputs, layers.Dense(2)(layers.Dense(8, activation="tanh")(inputs)))
loss = "sparse_categorical_crossentropy"
model.compile(optimizers.SGD(0.1, momentum=0.9), loss, metrics=["accuracy"])
model.fit(data, epochs=2, verbose=0, validation_data=data.take(2))
