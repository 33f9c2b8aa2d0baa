"""`torch.autograd.backward` of a rank: DDP's own reducer over those leaves of the loss' graph that an optimizer has.

No module is touched: whatever led to the loss, its leaves are found in its graph. Gradients enter at the root weighted
by the rows of this rank, so that the reducer's mean over ranks is the mean over rows.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch.optim import optimizer as optimizer_hooks

from . import places
from .batches import Batch, Loaders
from .later import Later
from .weights import Weights

BUCKET_BYTES, FIRST_BUCKET_BYTES = 25 * 2**20, 2**20
"""Sizes of the buckets of gradients that are exchanged together: the defaults of DistributedDataParallel (DDP)."""
REENTRANT = "CheckpointFunctionBackward"
"""Name of a node of the graph that builds its part of the graph only when the backward pass reaches the node."""
MODES = ("_saved_training", "_saved_train", "_saved_reduction")
"""Attributes of nodes that say how they compute: batch normalisation by the statistics of the batch or by those kept, a
loss as a mean or as a sum. None of them is a tensor, because reading a saved tensor may compute it again."""


def leaves(roots: Iterable[Any], names: set[str] | None = None) -> tuple[dict[int, Any], bool]:
    """Return the leaf tensors of graphs by their ids, and whether these are all leaves; they are not if a part of a
    graph is built later. Add the names of the operations to `names`."""
    in_graph: dict[int, Any] = {}
    seen: set[Any] = set()
    complete = True
    pending = []
    for root in roots:
        if root.grad_fn is not None:
            pending.append(root.grad_fn)
        elif root.requires_grad:
            in_graph[id(root)] = root
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if variable is not None and not node.next_functions:
            in_graph[id(variable)] = variable
            continue
        if (name := node.name()) == REENTRANT:
            complete = False
        if names is not None:
            names.add(_operation(node, name))
        pending.extend(each for each, _ in node.next_functions if each is not None)
    return in_graph, complete


GIVEN, LOSSES = ("_raw_saved_weight", "_raw_saved_pos_weight"), ("Loss", "Entropy")
"""Attributes with what a loss may get or not, such as the weights of classes; and parts of the names of losses."""
_modes_of: dict[type, tuple[list[str], list[str]]] = {}


def _operation(node: Any, name: str) -> str:
    """Return the name of a node's operation, with the modes in which it computes."""
    kind = type(node)
    if kind not in _modes_of:
        is_loss = any(part in name for part in LOSSES)
        weights = [each for each in GIVEN if is_loss and hasattr(kind, each)]
        _modes_of[kind] = [each for each in MODES if hasattr(kind, each)], weights
    of_kind, weights = _modes_of[kind]
    modes = [f"{each.rpartition('_')[2]}={getattr(node, each)}" for each in of_kind]
    modes += [each.partition("saved_")[2] for each in weights if getattr(getattr(node, each), "data", None) is not None]
    return f"{name}({', '.join(modes)})" if modes else name


class Group:
    """The parameters of an optimizer, without those that another optimizer got before, and the reducer that exchanges
    the gradients of those that are trained now."""

    def __init__(self) -> None:
        self.parameters: list[Any] = []
        self._key: tuple[int, ...] = ()
        self.reducer: Any = None
        self._equal: set[int] = set()

    def trained(self) -> list[Any]:
        """Return the parameters that require gradients."""
        return [each for each in self.parameters if each.requires_grad]

    def prepare(self, torch: Any, sparse: set[int]) -> list[Any]:
        """Prepare the reducer to wait for the gradients of all trained parameters, and return these parameters."""
        trained = self.trained()
        key = tuple(map(id, trained))
        if key != self._key:
            self.reducer = None  # its hooks go before others come
            self._make_equal(torch, trained)
            self.reducer, self._key = _reducer(torch, trained, sparse), key
        self.reducer._rebuild_buckets()
        self.reducer.prepare_for_forward()
        self.reducer.prepare_for_backward([])
        return trained

    def _make_equal(self, torch: Any, trained: Sequence[Any]) -> None:
        """Give all ranks the parameters of rank 0 to start with, as DDP does."""
        with torch.no_grad():
            for each in trained:
                if id(each) not in self._equal:
                    self._equal.add(id(each))
                    torch.distributed.broadcast(each.detach(), 0)


def _reducer(torch: Any, parameters: Sequence[Any], of_sparse: set[int]) -> Any:
    distributed = torch.distributed
    sparse = [id(each) in of_sparse for each in parameters]
    buckets, limits = distributed._compute_bucket_assignment_by_size(
        list(parameters), [FIRST_BUCKET_BYTES, BUCKET_BYTES], sparse
    )
    return distributed.Reducer(
        list(parameters),
        list(reversed(buckets)),
        list(reversed(limits)),
        distributed.distributed_c10d._get_default_group(),
        sparse,
        BUCKET_BYTES,
        False,  # unused parameters get a gradient of zeros: see `_backward`
        False,
        {number: str(number) for number in range(len(parameters))},
        FIRST_BUCKET_BYTES,
    )


class Optimizers:
    """The parameters of all optimizers, in the order in which the optimizers got them."""

    def __init__(self, torch: Any) -> None:
        """Have each parameter recorded that an optimizer gets from now on."""
        self.groups: list[Group] = []
        self._group_of: dict[int, Group] = {}
        self._of_optimizer: weakref.WeakKeyDictionary[Any, Group] = weakref.WeakKeyDictionary()
        self._counts: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self.variables: list[weakref.ref[Any]] = []
        """The variables of Keras: of layers or of no layer, of optimizers, and of metrics."""
        self.layers: list[weakref.ref[Any]] = []
        """The layers of Keras."""
        self._looks: list[tuple[Callable[..., None], Callable[..., None]]] = []
        for name in ("add_param_group", "__setstate__"):  # the latter of one that is copied
            self._note_after(torch.optim.Optimizer, name)

    def _note_after(self, kind: Any, name: str) -> None:
        call = getattr(kind, name)

        def noting(optimizer: Any, *args: Any, **more: Any) -> None:
            call(optimizer, *args, **more)
            self._note(optimizer)

        setattr(kind, name, noting)

    def at_steps(self, before: Callable[..., None], after: Callable[..., None]) -> None:
        """Have `before` and `after` called around each step of an optimizer."""
        optimizer_hooks.register_optimizer_step_pre_hook(before)
        optimizer_hooks.register_optimizer_step_post_hook(after)
        self._looks.append((before, after))

    @contextmanager
    def step(self) -> Iterator[None]:
        """Call the functions of `at_steps` around a step that no optimizer of `torch.optim` makes."""
        for before, _ in self._looks:
            before()
        yield
        for _, after in self._looks:
            after()

    def look(self, in_graph: dict[int, Any]) -> None:
        """Record parameters that optimizers got in other ways than by their methods, and trained weights of Keras among
        the leaves of a graph, because a Keras optimizer gets its weights only at its first step."""
        for optimizer, count in list(self._counts.items()):
            if count != _count(optimizer):
                self._note(optimizer)
        if self.variables and (unknown := in_graph.keys() - self._group_of.keys()):
            values = [getattr(each(), "_value", None) for each in self.variables]
            self.add(self, [each for each in values if id(each) in unknown])

    def _note(self, optimizer: Any) -> None:
        self._counts[optimizer] = _count(optimizer)
        self.add(optimizer, [each for settings in optimizer.param_groups for each in settings["params"]])

    def add(self, optimizer: Any, parameters: Iterable[Any]) -> None:
        """Record parameters of an optimizer, without those that another optimizer has already."""
        group = self._of_optimizer.get(optimizer)
        if group is None:
            group = self._of_optimizer[optimizer] = Group()
            self.groups.append(group)
        for parameter in parameters:
            if id(parameter) not in self._group_of:
                self._group_of[id(parameter)] = group
                group.parameters.append(parameter)

    def parameters(self) -> list[Any]:
        """Return the parameters of all optimizers."""
        return [each for group in self.groups for each in group.parameters]

    def of(self, tensors: dict[int, Any]) -> list[Group]:
        """Return the groups that hold any of these tensors; the keys of `tensors` are the tensors' ids."""
        involved = {id(self._group_of[key]) for key in tensors if key in self._group_of}
        return [group for group in self.groups if id(group) in involved]

    def has(self, tensor: Any) -> bool:
        """Return whether an optimizer trains the tensor."""
        return id(tensor) in self._group_of


def _count(optimizer: Any) -> int:
    return sum(len(settings["params"]) for settings in optimizer.param_groups)


class Exchange:
    """Replaces the backward pass of a rank, so that ranks exchange their gradients."""

    def __init__(self, torch: Any, loaders: Loaders, optimizers: Optimizers, weights: Weights) -> None:
        """Replace `torch.autograd.backward`."""
        self._torch, self._loaders, self._optimizers, self._weights = torch, loaders, optimizers, weights
        self._call: Callable[..., None] = torch.autograd.backward
        self._later = Later(loaders) if loaders.rank == 0 and loaders.plan is not None else None
        self._inside = self.has_inputs = False
        self.begins: Callable[[Group, Sequence[Any]], bool] = lambda *_: True
        """Called before each exchange with a group and its parameters; false leaves the exchange out."""
        self.around: list[Callable[[str, Batch | None], None]] = []
        """Called before each exchange, with the lines of the script that led there, and the batch."""
        self.after: list[Callable[[], None]] = []
        torch.autograd.backward = self.backward

    def backward(  # noqa: PLR0913, PLR0917 (PyTorch's own)
        self,
        tensors: Any,
        grad_tensors: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        grad_variables: Any = None,
        inputs: Any = None,
    ) -> None:
        """Compute gradients as `torch.autograd.backward` does, and exchange those of an optimizer's parameters."""
        torch = self._torch
        roots = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        if grad_tensors is None:
            grad_tensors = grad_variables
        root_gradients = (
            [grad_tensors] if grad_tensors is None or isinstance(grad_tensors, torch.Tensor) else list(grad_tensors)
        )
        root_gradients += [None] * (len(roots) - len(root_gradients))
        more: dict[str, Any] = {"retain_graph": retain_graph, "create_graph": create_graph}
        if inputs is not None:
            more["inputs"] = [inputs] if isinstance(inputs, torch.Tensor) else list(inputs)
        if self._inside or not all(isinstance(root, torch.Tensor) for root in roots):
            self._call(tensors, grad_tensors, inputs=inputs, **{k: v for k, v in more.items() if k != "inputs"})
            return
        names: set[str] = set()
        in_graph, complete = leaves(roots, names)
        self._optimizers.look(in_graph)
        if inputs is not None:
            in_graph = {id(each): each for each in more["inputs"] if id(each) in in_graph}
        groups = self._optimizers.of(in_graph)
        if not groups:
            self._call(roots, root_gradients, **more)
            return
        if self._later is not None:
            self._later.look(names)
        self._inside = True
        try:
            self._exchange(roots, root_gradients, in_graph if complete else None, groups, more)
        finally:
            self._inside = False
        self._loaders.since_backward.clear()

    def _exchange(
        self,
        roots: list[Any],
        root_gradients: list[Any],
        in_graph: dict[int, Any] | None,
        groups: list[Group],
        more: Any,
    ) -> None:
        torch, batch = self._torch, self._loaders.latest
        weight = self._weights.of(roots)
        gradients = [_root(torch, root, gradient, weight) for root, gradient in zip(roots, root_gradients)]
        if not all([self.begins(group, group.trained()) for group in groups]):  # noqa: C419 (each is told)
            self._call(roots, gradients, **more)
            return
        site = places.stack()
        for look in self.around:
            look(site, batch)
        trained = [each for group in groups for each in group.prepare(torch, self._sparse())]
        unused = [] if in_graph is None else [each for each in trained if id(each) not in in_graph]
        had_none = [each for each in unused if each.grad is None]
        inputs = [] if in_graph is None else [
            (each, None if each.grad is None else each.grad.clone())
            for each in in_graph.values()
            if not self._optimizers.has(each) and not isinstance(each, torch.nn.Parameter)
        ]  # fmt: skip
        if "inputs" in more:
            more["inputs"] = [*more["inputs"], *unused]
        zeros = [_zeros(torch, each, is_sparse=id(each) in self._sparse()) for each in unused]
        self._call([*roots, *unused], [*gradients, *zeros], **more)
        with torch.no_grad():
            for each in had_none:
                if each.grad is not None and not (each.grad._values() if each.grad.is_sparse else each.grad).any():
                    each.grad = None  # no rank used it
            for each, before in inputs:
                self.has_inputs = True
                self._correct(each, before, weight)
        for done in self.after:
            done()

    def _sparse(self) -> set[int]:
        plan = self._loaders.plan
        if plan is None or not plan.sparse:
            return set()
        return {id(each) for place, each in enumerate(self._optimizers.parameters()) if place in plan.sparse}

    def _correct(self, tensor: Any, before: Any, weight: float) -> None:
        """Divide the gradient of an input tensor by the weight of the root's gradient, as a port has it. If the plan
        says that gradients of inputs are those of the single process, divide by the number of ranks, so that the share
        of rows stays."""
        plan = self._loaders.plan
        times = self._loaders.world if plan is not None and plan.inputs_as_single else weight
        if tensor.grad is not None and times:
            own = (tensor.grad if before is None else tensor.grad - before) / times
            tensor.grad = own if before is None else before + own

    def facts(self) -> dict[str, Any]:
        """Return as a fact whether input tensors got gradients."""
        return {"hasInputs": self.has_inputs}


def _zeros(torch: Any, parameter: Any, *, is_sparse: bool) -> Any:
    """Return a gradient of zeros for the parameter, in the memory of one number, or of none if it is sparse."""
    if not is_sparse:
        return torch.zeros((), dtype=parameter.dtype, device=parameter.device).expand_as(parameter)
    indices = torch.empty((1, 0), dtype=torch.int64, device=parameter.device)
    return torch.sparse_coo_tensor(indices, parameter.new_empty((0, *parameter.shape[1:])), parameter.shape)


def _root(torch: Any, root: Any, gradient: Any, weight: float) -> Any:
    if gradient is None:
        if root.numel() != 1:
            return None  # the original says so
        gradient = torch.ones_like(root, memory_format=torch.preserve_format)
    return gradient if weight == 1.0 else gradient * weight
