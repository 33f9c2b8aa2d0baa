"""The compiled loops: many training steps, or a whole evaluation, in one call of a `tf.function`.

One body for all arms. Alone, the strategy is TensorFlow's default; with others it is MultiWorkerMirroredStrategy, and
the only difference is `_over_workers`. No tf.data: a step picks its images out of memory by index, so there is no
pipeline to wait for, and no autotuner.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from training.workloads.cnn.dataset import Data, Part
from training.workloads.cnn.recipe import CnnRecipe
from training.workloads.cnn.sources import Labels

EVALUATION_BATCH = 256
PAD = 4
"""Pixels of zeros round an image before it is cropped: He et al. 2015, section 4.2."""
BYTES_PER_PACK = 0
"""Gradients are reduced in packs of this many bytes; 0 means all gradients in one pack, as soon as they are ready. See
docs/performance.md."""


class Loop:
    """The compiled loops that train and evaluate `trained` (model and optimizer) on this replica's share of a batch."""

    def __init__(self, recipe: CnnRecipe, data: Data, rank: int, strategy: Any, trained: tuple[Any, Any]) -> None:
        self._recipe = recipe
        self._strategy = strategy
        self._model, self._optimizer = trained
        self._rank = rank
        self._world = strategy.num_replicas_in_sync
        self._variables = self._model.trainable_variables
        self._classes = len(data.class_names)
        self._known, self._first = _on_device(data.known), data.first
        last = len(data.train_rows) % recipe.global_batch_size
        self._may_be_empty = 0 < last < self._world
        """True if the last batch leaves a replica without images."""
        self._real: Any = None
        if self._may_be_empty:
            _leave_out_of_statistics(self._model, lambda: self._real)
        self._options = tf.distribute.experimental.CommunicationOptions(
            bytes_per_pack=BYTES_PER_PACK, implementation=tf.distribute.experimental.CommunicationImplementation.RING
        )
        self._steps = tf.function(self._run_steps, input_signature=_signature())
        self._evaluate = tf.function(self._run_evaluation)

    @property
    def replicas(self) -> int:
        """Return the number of replicas that TensorFlow keeps synchronised."""
        return int(self._world)

    def trace(self, order: Labels) -> None:
        """Trace and optimise the training function by a call without steps."""
        self.steps(order, 0, 0, 1)

    def steps(
        self, order: Labels, first: int, last: int, epoch: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Train steps `first` to `last` (not included) of an epoch that visits the rows `order` (images,). Return this
        replica's own sums (4,) of the loss, of images classified right, of images, and of the numbers of their rows;
        and the end of each step (steps,) in seconds of the system's clock."""
        sums, ends = self._steps(order, first, last, epoch)
        return sums.numpy(), ends.numpy()

    def evaluate(self, own: Part, images: int) -> tuple[float, NDArray[np.int32]]:
        """Return the mean loss and the confusion matrix (classes, classes; rows: true) over `images` images; each
        replica evaluates its `own`. Call `average_statistics` first, or each replica evaluates with its own batch
        statistics."""
        loss, confusion = self._evaluate(*_on_device(own))
        return float(loss) / images, confusion.numpy()

    @tf.function  # type: ignore[untyped-decorator]
    def average_statistics(self) -> None:
        """Give all replicas the mean of the replicas' moving averages (of batch normalisation), which drift apart."""
        if self._world > 1 and self._model.non_trainable_variables:
            self._strategy.run(self._average_statistics)

    @tf.function(reduce_retracing=True)  # type: ignore[untyped-decorator]
    def total(self, value: Any) -> Any:
        """Return the sum of `value` over all replicas."""
        return self._strategy.run(self._over_workers, args=(value,))

    @tf.function(reduce_retracing=True)  # type: ignore[untyped-decorator]
    def concatenation(self, value: Any) -> Any:
        """Return the values (n,) of all replicas, joined in the order of ranks; n may differ between replicas."""
        if self._world == 1:
            return value
        return self._strategy.run(self._gathered, args=(value,))

    def _run_steps(self, order: Any, first: Any, last: Any, epoch: Any) -> tuple[Any, Any]:
        ends = tf.TensorArray(tf.float64, size=last - first)
        sums = tf.zeros([4], tf.float64)
        for step in tf.range(first, last):
            done = self._strategy.run(self._step, args=(order, step, epoch))
            sums += done
            with tf.control_dependencies([done]):  # which itself waits for the update of the weights
                ends = ends.write(step - first, tf.timestamp())
        return sums, ends.stack()

    def _step(self, order: Any, step: Any, epoch: Any) -> Any:
        offset, count, batch = self._share(tf.size(order), step)
        rows = order[offset : offset + tf.maximum(count, 1)]
        images, labels = (tf.gather(tensor, self._own(rows, count)) for tensor in self._known)
        pixels = self._augment(tf.cast(images, tf.float32) / 255.0, offset, step, epoch)
        # A replica that the last batch leaves without images computes one that counts 0, so that all take part.
        self._real = real = tf.cast(count > 0, tf.float32)
        with self._moving_averages_kept(real), tf.GradientTape() as tape:
            logits = self._model(pixels, training=True)
            losses = tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)) * real
            loss = losses / tf.cast(batch, tf.float32)
        gradients = self._reduced(tape.gradient(loss, self._variables))
        applied = self._optimizer.apply_gradients(
            zip(gradients, self._variables, strict=True), experimental_aggregate_gradients=False
        )
        hits = tf.reduce_sum(tf.cast(tf.equal(tf.argmax(logits, axis=1, output_type=tf.int32), labels), tf.float32))
        seen = tf.reduce_sum(tf.cast(rows, tf.float64)) * tf.cast(real, tf.float64)
        with tf.control_dependencies([applied]):
            return tf.stack([tf.cast(value, tf.float64) for value in (losses, hits * real, count, seen)])

    def _own(self, rows: Any, count: Any) -> Any:
        """Return the positions of training rows in this replica's data. A replica without images gets the rows of
        another replica, and may take any of its own instead."""
        return tf.where(count > 0, rows - self._first, 0) if self._first else rows

    @contextmanager
    def _moving_averages_kept(self, real: Any) -> Iterator[None]:
        """Yield, then restore this replica's own moving averages if the replica has no images in this step. Statistics
        over all workers are the same on every replica, and change all averages alike."""
        own = _own_statistics(self._model) if self._may_be_empty else []
        before = [variable.read_value() for variable in own]
        yield
        for variable, value in zip(own, before, strict=True):
            variable.assign(tf.where(real > 0, variable.read_value(), value))

    def _share(self, images: Any, step: Any) -> tuple[Any, Any, Any]:
        """Return offset and number of this replica's images in a step, and the step's images, as `batch_split` does."""
        start = step * self._recipe.global_batch_size
        batch = tf.minimum(self._recipe.global_batch_size, images - start)
        share, rest = batch // self._world, batch % self._world
        before = self._rank * share + tf.minimum(self._rank, rest)
        count = share + tf.cast(self._rank < rest, tf.int32)
        return tf.minimum(start + before, images - 1), count, batch

    def _augment(self, pixels: Any, offset: Any, step: Any, epoch: Any) -> Any:
        """Return the images, flipped and cropped at random. The random numbers are drawn for the whole global batch, so
        that an image is changed in the same way in every arm."""
        if self._recipe.augmentation == "none":
            return pixels
        size, count = self._recipe.global_batch_size, tf.shape(pixels)[0]
        first = offset - step * size
        seed = tf.stack([self._recipe.seed, epoch * 1_000_003 + step])
        flips, rows, columns = (
            drawn[first : first + count]
            for drawn in tf.unstack(tf.random.stateless_uniform([3, size], seed, 0, 2 * PAD + 1, tf.int32), axis=0)
        )
        pixels = tf.where((flips % 2 == 0)[:, None, None, None], pixels, tf.reverse(pixels, axis=[2]))
        padded = tf.pad(pixels, [[0, 0], [PAD, PAD], [PAD, PAD], [0, 0]])
        across = tf.range(self._recipe.image_size)[None, :]
        padded = tf.gather(padded, rows[:, None] + across, axis=1, batch_dims=1)
        return tf.gather(padded, columns[:, None] + across, axis=2, batch_dims=1)

    def _reduced(self, gradients: Any) -> Any:
        """Return the sum of the replicas' gradients, each already divided by the size of the global batch."""
        if self._world == 1 or self._recipe.gradient_precision == "float32":
            return self._over_workers(gradients)
        return [tf.cast(g, tf.float32) for g in self._over_workers([tf.cast(g, tf.bfloat16) for g in gradients])]

    def _over_workers(self, values: Any) -> Any:
        if self._world == 1:
            return values
        context = tf.distribute.get_replica_context()
        values = tf.nest.map_structure(tf.identity, values)  # a function's argument has no device yet, and needs one
        return context.all_reduce(tf.distribute.ReduceOp.SUM, values, self._options)

    def _gathered(self, value: Any) -> Any:
        return tf.distribute.get_replica_context().all_gather(tf.identity(value), axis=0, options=self._options)

    def _average_statistics(self) -> None:
        moving = self._model.non_trainable_variables
        for variable, total in zip(moving, self._over_workers([v.read_value() for v in moving]), strict=True):
            variable.assign(total / self._world)

    def _run_evaluation(self, images: Any, labels: Any) -> tuple[Any, Any]:
        loss, confusion = self._strategy.run(self._evaluate_share, args=(images, labels))
        return loss, confusion

    def _evaluate_share(self, images: Any, labels: Any) -> tuple[Any, Any]:
        loss, confusion = tf.constant(0.0), tf.zeros([self._classes, self._classes], tf.int32)
        for first in tf.range(0, tf.size(labels), EVALUATION_BATCH):
            batch = slice(first, first + EVALUATION_BATCH)
            logits = self._model(tf.cast(images[batch], tf.float32) / 255.0, training=False)
            loss += tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(labels[batch], logits))
            predicted = tf.argmax(logits, axis=1)
            confusion += tf.math.confusion_matrix(labels[batch], predicted, self._classes)
        return self._over_workers(loss), self._over_workers(confusion)


def _own_statistics(model: Any) -> list[Any]:
    """Return the moving averages of the layers that normalise with the batch of their own replica alone."""
    layers = [layer for layer in model.submodules if isinstance(layer, tf.keras.layers.BatchNormalization)]
    return [variable for layer in layers if not layer.synchronized for variable in layer.non_trainable_variables]


def _leave_out_of_statistics(model: Any, real: Callable[[], Any]) -> None:
    """Have statistics over all workers count a replica's images only where `real` returns 1.

    tf-keras sums the batch of every replica: without this function, the image of a replica that has no images counts as
    one. tf-keras' own way to leave images out is a mask, which `Conv2D` would not pass on, so the mask is given to the
    layer's private method (tf-keras of uv.lock), on these objects alone: a saved model is built from new ones.
    """
    for layer in model.submodules:
        if isinstance(layer, tf.keras.layers.BatchNormalization) and layer.synchronized:
            layer._sync_calculate_mean_and_var = _counting(layer._sync_calculate_mean_and_var, real)


def _counting(calculate: Callable[..., Any], real: Callable[[], Any]) -> Callable[..., Any]:
    def masked(inputs: Any, axes: Any, keep_dims: Any, mask: Any = None) -> Any:  # noqa: ARG001 (tf-keras' interface)
        images = tf.ones(tf.shape(inputs)[:-1], inputs.dtype)  # without channels, as tf-keras has masks
        return calculate(inputs, axes, keep_dims, mask=images * tf.cast(real(), inputs.dtype))

    return masked


def _on_device(part: Part) -> tuple[Any, Any]:
    return tf.constant(part.images), tf.constant(part.labels)


def _signature() -> list[Any]:
    scalar = tf.TensorSpec([], tf.int32)
    return [tf.TensorSpec([None], tf.int32), scalar, scalar, scalar]
