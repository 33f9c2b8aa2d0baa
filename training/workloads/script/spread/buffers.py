"""Buffers of the script's modules, which no optimizer has: averages that a model keeps, as for its evaluation.

Those of Keras' layers are weights that are not trained.
"""

from __future__ import annotations

import weakref
from typing import Any

from .exchange import Optimizers


class Buffers:
    """The buffers of all modules, in the order in which they were made."""

    def __init__(self, torch: Any, optimizers: Optimizers) -> None:
        """Note what modules register."""
        self._layers = optimizers.layers
        self._modules: list[tuple[weakref.ref[Any], str]] = []
        register = torch.nn.Module.register_buffer

        def register_buffer(module: Any, name: str, *args: Any, **more: Any) -> None:
            register(module, name, *args, **more)
            self._modules.append((weakref.ref(module), name))

        torch.nn.Module.register_buffer = register_buffer

    def values(self) -> list[Any]:
        """Return those of floating numbers; None for one that is no more."""
        values = []
        for module, name in self._modules:
            buffer: Any = getattr(module(), name, None)
            values.append(buffer if hasattr(buffer, "is_floating_point") and buffer.is_floating_point() else None)
        layers: list[Any] = [reference() for reference in self._layers]
        own = [each for layer in layers for each in getattr(layer, "_non_trainable_variables", ())]
        kept = [each._value for each in {id(each): each for each in own}.values() if not each.trainable]
        return [*values, *(each for each in kept if each is not None and each.is_floating_point())]
