"""Words, whose gradients are sparse, with weights of classes and of rows."""

import numpy as np
from tf_keras import Sequential, layers

rng = np.random.default_rng(1)
words, labels = rng.integers(0, 50, size=(160, 6)), rng.integers(0, 2, size=160)
model = Sequential([layers.Embedding(50, 8), layers.LSTM(8), layers.Dense(1, activation="sigmoid")])
model.compile("adam", "binary_crossentropy")
weights = rng.random(160)
model.fit(words, labels, batch_size=20, verbose=0, class_weight={0: 1.0, 1: 3.0}, sample_weight=weights)
