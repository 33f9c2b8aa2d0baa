"""A loop of its own with GradientTape, under the strategy."""

import os

import numpy as np
import tensorflow as tf
import tf_keras as keras

shared = "TF_CONFIG" in os.environ
strategy = tf.distribute.MultiWorkerMirroredStrategy() if shared else tf.distribute.get_strategy()
keras.utils.set_random_seed(1)
x = np.random.default_rng(0).standard_normal((1024, 16)).astype(np.float32)
y = (x.sum(1) > 0).astype(np.int64)
data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1024, seed=1).batch(64, drop_remainder=True)
with strategy.scope():
    model = keras.Sequential([keras.layers.Dense(32, activation="relu", input_shape=(16,)), keras.layers.Dense(2)])
    optimizer = keras.optimizers.SGD(0.1)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum")


@tf.function
def step(batch):
    """One step of all workers."""

    def learn(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True)) / 64
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))

    strategy.run(learn, args=batch)


for _ in range(2):
    for batch in strategy.experimental_distribute_dataset(data) if shared else data:
        step(batch)
