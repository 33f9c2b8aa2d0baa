"""What backward passes are fed by, in a run of the proof: the facts of the plan."""

from __future__ import annotations

from typing import Any

from torch.utils._python_dispatch import _disable_current_modes

from . import places
from .batches import Loaders
from .exchange import Exchange, Optimizers, leaves
from .operations import Operations


class Origins:
    """Records which data feed each backward pass of a script."""

    def __init__(
        self,
        torch: Any,
        loaders: Loaders,
        optimizers: Optimizers,
        operations: Operations,
        exchange: Exchange | None,
    ) -> None:
        """Start recording backward passes, within a rank's exchange of gradients or in a single process."""
        self._torch, self._loaders, self._optimizers, self._operations = torch, loaders, optimizers, operations
        self.backwards = self.grads = self.by_hand = 0
        self._depth = 0
        self._line = ""
        self._steps_without_backward = 0
        self._fresh = False
        self._sparse: set[int] = set()
        self._named: dict[str, set[str]] = {}
        if exchange is None:
            self._replace_backward()
        self._replace_grad()
        optimizers.at_steps(lambda *_: None, self._after_step)

    def _replace_backward(self) -> None:
        autograd, origins = self._torch.autograd, self
        call = autograd.backward

        def backward(tensors: Any, *args: Any, **more: Any) -> None:
            roots = [tensors] if isinstance(tensors, origins._torch.Tensor) else list(tensors)
            in_graph, _ = leaves(roots, origins._named.setdefault(places.innermost(), set()))
            origins._optimizers.look(in_graph)
            if origins._depth == 0:
                origins._note(roots)
            origins._depth += 1
            try:
                call(tensors, *args, **more)
            finally:
                origins._depth -= 1

        autograd.backward = backward

    def _replace_grad(self) -> None:
        autograd, origins = self._torch.autograd, self
        call = autograd.grad

        def grad(outputs: Any, inputs: Any, *args: Any, **more: Any) -> Any:
            wanted = [inputs] if isinstance(inputs, origins._torch.Tensor) else list(inputs)
            if origins._depth == 0 and any(origins._optimizers.has(each) for each in wanted):
                origins.grads += 1
            return call(outputs, inputs, *args, **more)

        autograd.grad = grad

    def _note(self, roots: list[Any]) -> None:
        self.backwards += 1
        self._fresh = True
        self._line = self._line or places.line()
        loaders = self._loaders
        with _disable_current_modes():
            fed = {batch for root in roots for batch in self._operations.traces.of(root)}
        guessed = not fed
        if guessed:
            fed = {(loaders.iterations.index(each.iteration), each.number) for each in loaders.since_backward}
        loaders.since_backward.clear()
        if not fed:
            self.by_hand += 1
        for number in {number for number, _ in fed}:
            iteration = loaders.iterations[number]
            iteration.feeds, iteration.guessed = True, iteration.guessed or guessed

    def _after_step(self, *_: Any) -> None:
        if not self._fresh:
            self._steps_without_backward += 1
        self._fresh = False
        for each in self._optimizers.parameters():
            if each.grad is not None and each.grad.is_sparse:
                self._sparse.add(id(each))

    def facts(self) -> dict[str, Any]:
        """Return the plan (which passes over which loaders feed backward passes), and the facts by which the plan may
        be impossible to follow."""
        return {
            "passes": [
                {
                    "loader": each.loader, "number": each.number, "creation": each.creation, "site": each.site,
                    "kind": each.kind, "feeds": each.feeds, "guessed": each.guessed, "splits": each.splits,
                    "batches": each.delivered,
                }
                for each in self._loaders.iterations
            ],
            "backwards": self.backwards, "byHand": self.by_hand, "grads": self.grads,
            "sparse": [
                place for place, each in enumerate(self._optimizers.parameters()) if id(each) in self._sparse
            ],
            "stepsWithout": self._steps_without_backward, "line": self._line,
            "operations": {line: sorted(names) for line, names in self._named.items()},
        }  # fmt: skip
