"""Variables and an own rule, without a model."""

import numpy as np
import tensorflow as tf

rows = tf.constant(np.random.default_rng(1).normal(size=(128, 8)))
weights = tf.Variable(tf.zeros(8, tf.float64))
for _ in range(4):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((tf.linalg.matvec(rows, weights) - tf.reduce_sum(rows, 1)) ** 2)
    weights.assign_sub(0.1 * tape.gradient(loss, weights))
