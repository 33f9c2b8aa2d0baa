"""The best weights in a file and read again, a log, an early end, and a rate that falls on a plateau."""

import numpy as np
from tf_keras import Sequential, callbacks, layers, models

rows = np.random.default_rng(1).normal(size=(96, 4))
model = Sequential([layers.Input((4,)), layers.Dense(1)])
model.compile("sgd", "mse")
each = [
    callbacks.ModelCheckpoint("best.h5", save_best_only=True),
    callbacks.ModelCheckpoint("checkpoints/last", save_weights_only=True),
    callbacks.CSVLogger("log.csv"),
    callbacks.EarlyStopping(patience=1, restore_best_weights=True),
    callbacks.ReduceLROnPlateau(patience=0),
]
model.fit(rows, rows.sum(1), batch_size=32, epochs=2, verbose=0, validation_split=0.25, callbacks=each)
model = models.load_model("best.h5")
model.load_weights("checkpoints/last")
model.save("whole.keras")
model = models.load_model("whole.keras")
model.fit(rows, rows.sum(1), batch_size=32, epochs=2, verbose=0)
