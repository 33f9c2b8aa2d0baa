"""Arrays whose last batch is smaller, validation data, and predictions."""

import numpy as np
from tf_keras import Sequential, layers

rng = np.random.default_rng(1)
rows = rng.normal(size=(237, 8)).astype("float32")
model = Sequential([layers.Dense(16, activation="relu"), layers.Dense(1)])
model.compile("adam", "mse", metrics=["mae"])
model.fit(rows, rows.sum(1) ** 2, batch_size=64, epochs=3, verbose=0, validation_data=(rows[:101], rows[:101].sum(1)))
print(model.predict(rows, verbose=0).shape)
