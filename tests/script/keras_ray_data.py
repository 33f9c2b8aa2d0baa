"""Trains a small Keras network with Ray Train, read from arrays or by Ray Data's `to_tf`; it knows nothing of a test.

python keras_ray_data.py --num-workers 1 --input ray-data
"""

import argparse
from typing import Any

import numpy as np
import ray.data
import ray.train
from ray.train.tensorflow import TensorflowTrainer

ROWS = 512


def rows() -> dict[str, np.ndarray]:
    """Noise, and a label that follows from it."""
    x = np.random.default_rng(0).standard_normal((ROWS, 8)).astype(np.float32)
    return {"x": x, "y": (x.sum(1) > 0).astype(np.int64)}


def train(config: dict[str, Any]) -> None:
    """What each worker does."""
    import tensorflow as tf
    import tf_keras as keras

    if config["input"] == "ray-data":
        shard = ray.train.get_dataset_shard("train")
        data = shard.to_tf(feature_columns="x", label_columns="y", batch_size=config["batch"], drop_last=True)
    else:
        both = rows()
        data = tf.data.Dataset.from_tensor_slices((both["x"], both["y"])).batch(config["batch"], drop_remainder=True)
    model = keras.Sequential([keras.layers.Dense(16, activation="relu", input_shape=(8,)), keras.layers.Dense(2)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(data, epochs=config["epochs"], verbose=2)


def main() -> None:
    """Start the workers."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--num-workers", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--input", choices=("arrays", "ray-data"), default="arrays")
    parser.add_argument("--storage")
    options = parser.parse_args()
    sets = None
    if options.input == "ray-data":
        both = rows()
        items = [{"x": x, "y": int(y)} for x, y in zip(both["x"], both["y"], strict=True)]
        sets = {"train": ray.data.from_items(items)}
    TensorflowTrainer(
        train,
        train_loop_config=vars(options),
        scaling_config=ray.train.ScalingConfig(num_workers=options.num_workers),
        run_config=ray.train.RunConfig(storage_path=options.storage),
        datasets=sets,
    ).fit()


if __name__ == "__main__":
    main()
