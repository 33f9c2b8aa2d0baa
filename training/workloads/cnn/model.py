"""The models, in Keras: the CNN of the exercise, and ResNet-50. Building only: no training, no strategy.

ResNet-50 is as He et al. 2015 (https://arxiv.org/abs/1512.03385) has it, with the stride in a block's 3×3 convolution,
as is usual since. tf-keras' own can't have batch statistics over all workers, nor a seed for each of its weights.
"""

from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from training.workloads.cnn.shapes import Shape

MOMENTUM = 0.9
"""Momentum of the moving averages of batch normalisation; with Keras' 0.99 they mean nothing for hundreds of steps."""
DROPOUT = (0.2, 0.3, 0.4)
DENSE_DROPOUT = 0.5
BLOCKS = (3, 4, 6, 3)
WIDTH = 64
EXPANSION = 4


def build_cnn(width: int, shape: Shape) -> Any:
    """Return the CNN: three blocks of two 3×3 convolutions (1, 2 and 4 times `width`), then a dense layer of 8 times
    `width`. Its input is (n, side, side, 3) floats from 0 to 1, its output (n, classes) float32 logits. The seed
    decides the initial weights."""
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


def build_resnet50(shape: Shape) -> Any:
    """Return ResNet-50. Its input is (n, side, side, 3) floats from 0 to 1, its output (n, classes) float32 logits. The
    seed decides the initial weights."""
    layers, builder = tf.keras.layers, _Builder(shape)
    inputs = tf.keras.Input((shape.side, shape.side, 3))
    hidden = layers.ReLU()(builder.convolved(inputs, WIDTH, 7, 2))
    hidden = layers.MaxPooling2D(3, 2, padding="same")(hidden)
    for stage, blocks in enumerate(BLOCKS):
        for block in range(blocks):
            hidden = builder.block(hidden, WIDTH * 2**stage, 2 if stage and not block else 1)
    outputs = builder.logits(layers.GlobalAveragePooling2D()(hidden), shape.classes)
    return tf.keras.Model(inputs, outputs, name="resnet50")


class _Builder:
    """Builds layers, each with a seed of its own."""

    def __init__(self, shape: Shape) -> None:
        self._synchronized = shape.synchronized
        self._seeds: Iterator[int] = iter(range(shape.seed * 1000, shape.seed * 1000 + 1000))

    def convolved(self, tensor: Any, width: int, size: int, stride: int = 1, gamma: str = "ones") -> Any:
        """Return the tensor after a convolution and batch normalisation."""
        layers = tf.keras.layers
        convolution = layers.Conv2D(
            width, size, stride, padding="same", use_bias=False,
            kernel_initializer=tf.keras.initializers.HeNormal(seed=next(self._seeds)),
        )  # fmt: skip
        normal = layers.BatchNormalization(momentum=MOMENTUM, gamma_initializer=gamma, synchronized=self._synchronized)
        return normal(convolution(tensor))

    def block(self, tensor: Any, width: int, stride: int) -> Any:
        """Return the tensor after a bottleneck block: 1×1, 3×3 and 1×1 convolutions, added to a shortcut. At first the
        block is its shortcut alone (Goyal et al. 2017, 5.1)."""
        relu, out = tf.keras.layers.ReLU, width * EXPANSION
        beside = tensor if tensor.shape[-1] == out else self.convolved(tensor, out, 1, stride)
        hidden = relu()(self.convolved(tensor, width, 1))
        hidden = relu()(self.convolved(hidden, width, 3, stride))
        hidden = self.convolved(hidden, out, 1, gamma="zeros")
        return relu()(tf.keras.layers.Add()([hidden, beside]))

    def logits(self, tensor: Any, classes: int) -> Any:
        """Return float32 logits for every compute type: the loss of bfloat16 logits would be too coarse."""
        initializer = tf.keras.initializers.GlorotUniform(seed=next(self._seeds))
        return tf.keras.layers.Dense(classes, kernel_initializer=initializer, dtype="float32")(tensor)
