"""Batches of a Sequence, several steps an execution, a rate by schedule, clipped gradients, an own `train_step`."""

import numpy as np
import tensorflow as tf
from tf_keras import Model, Sequential, layers, optimizers, utils


class Batches(utils.Sequence):
    def __len__(self):
        return 6

    def __getitem__(self, number):
        rows = np.random.default_rng(number).normal(size=(30, 8, 8, 1)).astype("float32")
        return rows, rows.mean((1, 2, 3))


class Own(Model):
    def __init__(self):
        super().__init__()
        self.net = Sequential([layers.Conv2D(4, 3), layers.GlobalMaxPooling2D(), layers.Dense(1)])

    def call(self, rows):
        return self.net(rows)

    def train_step(self, data):
        rows, labels = data
        with tf.GradientTape() as tape:
            loss = self.compiled_loss(labels, self(rows, training=True))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        return {"loss": loss}


model = Own()
rate = optimizers.schedules.ExponentialDecay(0.1, 2, 0.9)
model.compile(optimizers.SGD(rate, clipnorm=0.5), "mse", steps_per_execution=2)
model.fit(Batches(), epochs=2, verbose=0)
