"""What a process of the proof leaves: weights and gradients at some steps, buffers at the end, and facts."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch.utils._python_dispatch import _disable_current_modes

from .exchange import Optimizers
from .originals import OPEN, Ending, write_json
from .settings import LOOKED_AT


class Record(Ending):
    """The record of one process, in a folder."""

    def __init__(self, torch: Any, optimizers: Optimizers, out: str, rank: int, most: int) -> None:
        """Look at every optimizer step, and end the script after `most` steps; 0: do not end it."""
        self.steps = 0
        self.facts: dict[str, Any] = {}
        self.to_know: list[Callable[[], dict[str, Any]]] = []
        self._torch, self._optimizers, self._out, self._rank, self._most = torch, optimizers, Path(out), rank, most
        self._kept_last = -1
        self._buffers = Buffers(torch, optimizers)
        optimizers.at_steps(self._before, self._after)

    def _before(self, *_: Any) -> None:
        self._optimizers.look({})
        if self.steps == 0:
            self._keep("weights-0", [each.detach() for each in self._optimizers.parameters()])
        if self.steps + 1 in LOOKED_AT:
            self._keep(f"gradients-{self.steps + 1}", [each.grad for each in self._optimizers.parameters()])

    def _after(self, *_: Any) -> None:
        self.steps += 1
        if self.steps in LOOKED_AT:
            self._keep_weights(self.steps)
        if self.steps == self._most:
            self.end()

    def _keep_weights(self, step: int) -> None:
        self._keep(f"weights-{step}", [each.detach() for each in self._optimizers.parameters()])
        self._kept_last = step

    def _keep(self, name: str, tensors: list[Any]) -> None:
        with self.quiet():
            copies = [None if each is None else _plain(each) for each in tensors]
            save(self._torch, copies, self._path(name, "pt"))

    def _path(self, name: str, ending: str) -> Path:
        return self._out / f"{name}-rank{self._rank}.{ending}"

    def quiet(self) -> Any:
        """Return a context manager in which no operation is recorded."""
        return _disable_current_modes()

    def write(self, error: str) -> None:
        """Write the facts, the buffers, and the weights of the last step."""
        if self.steps and self._kept_last != self.steps:
            self._keep("weights-last", [each.detach() for each in self._optimizers.parameters()])
        self._keep("buffers", self._buffers.values())
        for know in self.to_know:
            self.facts.update(know())
        self.facts.update(steps=self.steps, error=error)
        write_json(self._path("facts", "json"), self.facts)


class Buffers:
    """Buffers of the script's modules, in the order in which they were created. No optimizer has them: they are
    averages that a model keeps for evaluation, for example. Of Keras' layers they are the weights that are not
    trained."""

    def __init__(self, torch: Any, optimizers: Optimizers) -> None:
        """Have each buffer recorded that a module registers from now on."""
        self._layers = optimizers.layers
        self._modules: list[tuple[weakref.ref[Any], str]] = []
        register = torch.nn.Module.register_buffer

        def register_buffer(module: Any, name: str, *args: Any, **more: Any) -> None:
            register(module, name, *args, **more)
            self._modules.append((weakref.ref(module), name))

        torch.nn.Module.register_buffer = register_buffer

    def values(self) -> list[Any]:
        """Return the buffers with floating-point numbers; None for other buffers and for those that no longer exist."""
        values = []
        for module, name in self._modules:
            buffer: Any = getattr(module(), name, None)
            values.append(buffer if hasattr(buffer, "is_floating_point") and buffer.is_floating_point() else None)
        layers: list[Any] = [reference() for reference in self._layers]
        own = [each for layer in layers for each in getattr(layer, "_non_trainable_variables", ())]
        kept = [each._value for each in {id(each): each for each in own}.values() if not each.trainable]
        return [*values, *(each for each in kept if each is not None and each.is_floating_point())]


def save(torch: Any, content: Any, path: Path) -> None:
    """Write tensors to `path`, even if the script's own files are redirected."""
    with OPEN(path, "wb") as file:
        torch.save(content, file)


def _plain(tensor: Any) -> Any:
    if tensor.is_sparse:
        tensor = tensor.to_dense()
    return tensor.detach().to("cpu", copy=True)
