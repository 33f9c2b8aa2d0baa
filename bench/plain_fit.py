"""The baseline's work done by plain `model.fit`, for `rwi bench arms`: a comparison with a slow baseline proves
nothing.

Same model, data, batch, threads and CPUs; a tf.data pipeline with its autotuner off. Prints one JSON object.
"""

import json
import sys
import time
from typing import Any

from training.contract import provenance
from training.launch import environment
from training.workloads.cnn import dataset
from training.workloads.cnn.recipe import CnnRecipe
from training.workloads.cnn.registry import MODELS
from training.workloads.cnn.shapes import Shape, Share
from training.workloads.cnn.workload import WORKLOAD


def main() -> None:
    """Read the recipe from JSON, warm up with two batches, train a timed epoch, and print the images per second."""
    recipe = CnnRecipe.from_dict(json.loads(sys.argv[1]))
    environment.defer_garbage_collection()
    environment.prepare(WORKLOAD, recipe.compute_threads(), 0, provenance.allowed_cpus())
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(recipe.compute_threads())
    tf.config.threading.set_inter_op_parallelism_threads(2)  # as in training.workloads.cnn.train
    tf.keras.mixed_precision.set_global_policy("mixed_bfloat16" if recipe.precision == "bfloat16" else "float32")
    data = dataset.load(recipe, "", Share())
    model = MODELS[recipe.model].build(Shape(len(data.class_names), synchronized=False, seed=recipe.seed))
    model.compile(
        tf.keras.optimizers.legacy.Adam(recipe.learning_rate),
        tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    images = _pipeline(tf, data, recipe)
    model.fit(images.take(2), verbose=0)
    environment.resume_garbage_collection()
    began = time.monotonic()
    model.fit(images, verbose=0)
    print(json.dumps({"imagesPerSecond": len(data.train_rows) / (time.monotonic() - began)}))


def _pipeline(tf: Any, data: dataset.Data, recipe: CnnRecipe) -> Any:
    pixels, labels = data.known.images[data.train_rows], data.known.labels[data.train_rows]
    images = tf.data.Dataset.from_tensor_slices((pixels, labels)).shuffle(len(labels), seed=recipe.seed)
    images = images.batch(recipe.global_batch_size)
    images = images.map(lambda x, y: (tf.cast(x, tf.float32) / 255.0, y)).prefetch(2)
    options = tf.data.Options()
    options.autotune.enabled = False
    return images.with_options(options)


if __name__ == "__main__":
    main()
