"""The CNN of the exercise, in Keras. Building only: no training, no strategy."""

from typing import Any

import tensorflow as tf

from training.workloads.cnn.shapes import Shape

MOMENTUM = 0.9
"""Momentum of batch normalisation's moving averages: Keras' 0.99 needs hundreds of steps before they mean anything."""
DROPOUT = (0.2, 0.3, 0.4)
DENSE_DROPOUT = 0.5


def build_cnn(width: int, shape: Shape) -> Any:
    """Three blocks of two 3×3 convolutions (1, 2 and 4 times `width`), then a dense layer of 8 times `width`.

    Input (n, side, side, 3) floats from 0 to 1; output (n, classes) float32 logits. Initial weights: the seed's.
    """
    layers = tf.keras.layers
    seeds = iter(range(shape.seed * 1000, shape.seed * 1000 + 1000))
    inputs = hidden = tf.keras.Input((shape.side, shape.side, 3))

    def initializer() -> Any:
        return tf.keras.initializers.GlorotUniform(seed=next(seeds))

    def normalised(tensor: Any) -> Any:
        return layers.BatchNormalization(momentum=MOMENTUM, synchronized=shape.synchronized)(tensor)

    for scale, dropout in zip((1, 2, 4), DROPOUT, strict=True):
        for _ in range(2):
            convolution = layers.Conv2D(
                width * scale, 3, padding="same", activation="relu", kernel_initializer=initializer()
            )
            hidden = normalised(convolution(hidden))
        hidden = layers.Dropout(dropout)(layers.MaxPooling2D()(hidden))
    dense = layers.Dense(width * 8, activation="relu", kernel_initializer=initializer())
    hidden = layers.Dropout(DENSE_DROPOUT)(normalised(dense(layers.Flatten()(hidden))))
    # float32 whatever the compute type: the loss of bfloat16 logits would be too coarse
    outputs = layers.Dense(shape.classes, kernel_initializer=initializer(), dtype="float32")(hidden)
    return tf.keras.Model(inputs, outputs, name="cnn")
