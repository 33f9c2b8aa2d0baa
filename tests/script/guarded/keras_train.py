"""Calls all that the observer looks at in Keras, with a metric of several values, and an expected error of its own."""

import sys

import numpy as np
import tensorflow as tf

keras = tf.keras


class Stops(keras.callbacks.Callback):
    """Ends the second `fit` by an error."""

    def on_epoch_end(self, epoch, logs=None):
        """Print what there is."""
        print(epoch, sorted(logs), self.params["steps"])
        if epoch == 3:
            raise LookupError("the fourth epoch")


keras.utils.set_random_seed(0)
x = np.arange(96, dtype="float32").reshape(24, 4) / 96
y = np.eye(3, dtype="float32")[np.arange(24) % 3]
model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(3, activation="softmax")])
scores = [keras.metrics.F1Score(average=None)]
model.compile("sgd", "categorical_crossentropy", metrics=scores, run_eagerly=True, steps_per_execution=2)
model.fit(x, y, epochs=2, batch_size=8, verbose=0, validation_data=(x, y))
try:
    model.fit(x, y, epochs=4, batch_size=8, verbose=0, callbacks=[Stops()], initial_epoch=2)
except LookupError as error:
    print(error, error.__cause__, error.__context__)
print([round(float(each), 4) for each in model.predict(x[:1], verbose=0)[0]])
sys.exit(3)
