"""What a process of tf-keras leaves for the proof: weights and gradients at some steps, rows, and facts."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from . import later
from .originals import OPEN, Ending, write_json
from .settings import LOOKED_AT, Settings

CHANCE = ("Random", "Multinomial", "Rng")
"""Parts of the names of TensorFlow's operations that draw by chance."""

OF_KERAS = ("TF_USE_LEGACY_KERAS", "KERAS_BACKEND")
"""Variables that a script may set before it imports TensorFlow."""


class Record(Ending):
    """The record of one process in a folder; it writes nothing if the settings name no folder."""

    def __init__(self, settings: Settings) -> None:
        """Prepare to record each step, and to end the script after as many steps as the settings say."""
        self._settings, self.looks = settings, bool(settings.out)
        self._steps = 0
        self._rows: list[int] = []
        self._by_hand = 0
        self._models: list[Any] = []
        self._trained: set[str] = set()
        """Descriptions of the models that were trained, with their losses and optimizers."""
        self._proved, self._unproved = _of_plan(settings), later.Unproved()
        self._chance: set[str] = set()
        self._keras_three = ""

    def rows(self, tf: Any, rows: Any) -> None:
        """Record the number of rows of each step when TensorFlow computes the step."""
        if self.looks:
            tf.numpy_function(lambda count: self._rows.append(int(count)), [rows], [])

    def gradients(self, tf: Any, pairs: Any) -> None:
        """Keep the gradients of this process at some steps, and the first weights."""
        if not self.looks:
            return
        content = [tf.convert_to_tensor(gradient) for gradient, _ in pairs]
        content += [tf.convert_to_tensor(variable) for _, variable in pairs]
        tf.numpy_function(self._before, content, [])

    def _before(self, *content: Any) -> None:
        half = len(content) // 2
        if self._steps == 0:
            self._keep("start", content[half:])
        if self._steps + 1 in LOOKED_AT:
            self._keep(f"gradients-{self._steps + 1}", content[:half])

    def by_hand(self) -> None:
        """Record a step that no `fit` makes, and end a run of the proof, as the script cannot be divided then."""
        self._by_hand += 1
        if self.looks:
            self.end()

    def looking(self, model: Any, function: Any) -> Any:
        """Return a function that calls `function` and then keeps the model's weights."""
        if hasattr(function, "looked_at"):
            return function
        if all(each is not model for each in self._models):
            self._models.append(model)

        def looked_at(iterator: Any) -> Any:
            result = (
                self._note_operations(function, iterator)
                if model.run_eagerly and self._steps == 1
                else function(iterator)
            )
            self._note_chance(model)
            self._steps += 1
            if self._steps in LOOKED_AT:
                self._keep(f"weights-{self._steps}", [each.numpy() for model in self._models for each in model.weights])
                self._keep(
                    f"trained-{self._steps}", [w.numpy() for model in self._models for w in model.trainable_weights]
                )
            if self._steps == self._settings.steps:
                self.end()
            return result

        looked_at.looked_at = True  # type: ignore[attr-defined]
        return looked_at

    def trained(self, model: Any) -> None:
        """Record what a step trains; tell the user if the proof did not train it."""
        shapes = " ".join(f"{weight.dtype}{tuple(weight.shape)}" for weight in model.trainable_weights)
        by = f"{_name(model.loss)} and {type(model.optimizer).__name__}"
        layers = ", ".join(type(layer).__name__ for layer in model.layers)
        now = f"{type(model).__name__} of {layers} by {by}: {shapes}"
        if self._proved is not None and now not in {*self._proved, *self._trained}:
            self._unproved.say(now, f"another `fit` the script trains {layers} by {by}")
        self._trained.add(now)

    def _note_chance(self, model: Any) -> None:
        function = getattr(model, "train_tf_function", None)
        for concrete in [] if function is None or self._steps else function._list_all_concrete_functions():
            graph = concrete.graph.as_graph_def()
            nodes = [*graph.node, *(node for each in graph.library.function for node in each.node_def)]
            self._chance.update(node.op for node in nodes if _draws(node.op))

    def _note_operations(self, function: Any, iterator: Any) -> Any:
        """Return what `function` returns, and record its operations as they run: it is no graph from which the
        operations could be read."""
        from tensorflow.python.framework import op_callbacks

        def note(name: Any, *_: Any) -> None:
            if _draws(text := name.decode() if isinstance(name, bytes) else str(name)):
                self._chance.add(text)

        op_callbacks.add_op_callback(note)
        try:
            return function(iterator)
        finally:
            op_callbacks.remove_op_callback(note)

    def end_keras_three(self, keras: Any) -> None:
        """Have a script end when it trains with Keras 3. On TensorFlow such a script cannot be divided among ranks; on
        PyTorch the mechanism for PyTorch does that."""
        backend = keras.backend.backend()

        def end(*_: Any, **__: Any) -> None:
            self._keras_three = backend
            self.end()

        if backend in ("tensorflow", "torch"):
            keras.Model.fit = keras.Model.train_on_batch = keras.optimizers.Optimizer.apply = end

    def _keep(self, name: str, arrays: Any) -> None:
        import numpy

        flat = [numpy.asarray(each, numpy.float64).ravel() for each in arrays]
        with OPEN(self._path(name, "npy"), "wb") as file:
            numpy.save(file, numpy.concatenate(flat) if flat else numpy.zeros(0))

    def _path(self, name: str, ending: str) -> Path:
        return Path(self._settings.out) / f"{name}-rank{self._settings.rank}.{ending}"

    def write(self, error: str) -> None:
        """Write the facts."""
        layers = {type(layer).__name__ for model in self._models for layer in model._flatten_layers()}
        facts = {
            "steps": self._steps,
            "rows": sum(self._rows),
            "rowsOfSteps": sorted({*self._rows}),
            "byHand": self._by_hand,
            "chance": sorted(self._chance),
            "trained": sorted(self._trained),
            "statistics": sorted(name for name in layers if "BatchNormalization" in name),
            "kerasThree": self._keras_three,
            "variables": {name: os.environ[name] for name in OF_KERAS if name in os.environ},
            "framework": self._settings.framework,
            "error": error,
        }
        write_json(self._path("facts", "json"), facts)


def _draws(operation: str) -> bool:
    return any(part in operation for part in CHANCE)


def _of_plan(settings: Settings) -> list[str] | None:
    """Return what the steps of the proof trained, for rank 0 of a run with a plan, which tells the user of other
    trainings; None in all other processes."""
    if settings.out or settings.rank or not settings.plan:
        return None
    with OPEN(settings.plan, encoding="utf-8") as file:
        trained: list[str] = json.load(file)["trained"]
    return trained


def _name(loss: Any) -> str:
    return loss if isinstance(loss, str) else str(getattr(loss, "__name__", type(loss).__name__))
