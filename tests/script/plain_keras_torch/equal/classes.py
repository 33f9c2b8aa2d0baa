"""A compiled step of SGD with momentum, clipping and accumulation; weights of classes, which Keras means over rows."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np

keras.utils.set_random_seed(0)
images = np.random.default_rng(1).normal(size=(64, 8, 8, 1)).astype("float32")
labels = (images.sum(axis=(1, 2, 3)) > 0).astype("int64")
layers = [keras.layers.Conv2D(4, 3, activation="relu"), keras.layers.Flatten(), keras.layers.Dense(2)]
model = keras.Sequential(layers)
optimizer = keras.optimizers.SGD(0.05, momentum=0.9, global_clipnorm=0.5, gradient_accumulation_steps=2)
model.compile(
    optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"], jit_compile=True
)
model.fit(images, labels, batch_size=12, epochs=2, class_weight={0: 1.0, 1: 5.0}, verbose=0)
