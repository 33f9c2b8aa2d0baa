"""Looks at each operation of PyTorch in a run of the proof, and has it computed as the proof needs it.

Which batches a result comes from; the multiplications made of each; numbers of 64 bits instead of fewer; random
numbers that belong to a row of the whole batch, whichever rank computes that row. Compilers leave code under it alone.
"""

from __future__ import annotations

import math
import os
import random
import sys
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from . import chance, places
from .batches import Batch, Loaders, taken
from .originals import OPEN
from .settings import SEED, Settings
from .traces import Origin, Traces, mapped, tensors

MARKER = "chance-in-data"
"""Name of the file that is written if a data set draws its rows by chance."""
IN_PLACE = {"uniform_", "normal_", "bernoulli_", "random_", "exponential_", "log_normal_", "cauchy_", "geometric_"}
FACTORIES = {"rand", "randn", "randint"}
OF_TENSORS = {"bernoulli", "poisson", "normal"}
LIKE = {"rand_like", "randn_like", "randint_like"} | OF_TENSORS
ARRAYS = "keras.src.trainers.data_adapters"
"""The package of Keras' data sets of arrays, which return the rows of a batch together and draw nothing by chance."""
PRODUCTS = {"mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1, "mv": 0, "addmv": 1, "dot": 0}
"""Products of matrices, each with the position of the first factor among the arguments."""


class Operations(TorchDispatchMode):  # type: ignore[misc]
    """Looks at each operation of PyTorch in a run of the proof, and computes it as the proof needs it."""

    def __init__(self, torch: Any, loaders: Loaders, settings: Settings) -> None:
        """Prepare to look at operations, and at batches when they are delivered."""
        super().__init__()
        self._torch, self._loaders, self._settings = torch, loaders, settings
        self._wider = dict.fromkeys((torch.float32, torch.float16, torch.bfloat16), torch.float64)
        self._wider |= dict.fromkeys((torch.complex64, torch.complex32), torch.complex128)
        self.traces = Traces(torch.nn.Parameter)
        self.products: dict[str, float] = {}
        """Number of multiplications, by the pass from whose batches the factors come: `number of a pass`, or "" if they
        come from no batch."""
        self.results: dict[str, float] = {}
        """How many numbers were computed, by pass in the same way."""
        self.chance: dict[str, str] = {}
        """The kinds of what is drawn by chance for each row (`operation`, `data`), each with the line of the script."""
        self.batch_statistics = ""
        self._reads = self._collates = False
        """Whether a row of a data set is being read, and whether rows are being collated to a batch in this process."""
        loaders.at_delivery.append(self._deliver)
        if settings.double:
            torch.set_default_dtype(torch.float64)
            self._widen()
        if settings.keyed:
            self._key_data()
        if not settings.statistics:
            self._fix_statistics()

    def _deliver(self, batch: Batch, content: Any) -> Any:
        torch = self._torch
        origin = frozenset([(self._loaders.iterations.index(batch.iteration), batch.number)])

        def look(tensor: Any) -> Any:
            if self._settings.double and tensor.dtype in self._wider:
                tensor = tensor.to(self._wider[tensor.dtype])
            self.traces.mark(tensor, origin)
            return tensor

        with _disable_current_modes():
            return mapped(torch, content, look)

    def facts(self) -> dict[str, Any]:
        """Return what was seen, as plain data: multiplications, results, chance and statistics of batches."""
        chance_ = dict(self.chance)
        if os.path.exists(os.path.join(self._settings.out, MARKER)):
            chance_.setdefault("data", "?")
        return {
            "products": self.products,
            "results": self.results,
            "chance": chance_,
            "batchStatistics": self.batch_statistics,
        }

    # Operations

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        if self._settings.double:
            args, kwargs = self._wide(args), self._wide(kwargs)
        result = self._of_rows(func, name, args, kwargs)
        if self._settings.double and name == "lift_fresh" and result.dtype in self._wider:
            result = result.to(self._wider[result.dtype])
        origin = self.traces.follow((*args, *kwargs.values()), result)
        if "batch_norm" in name and not self.batch_statistics and _trains(args):
            self.batch_statistics = places.line() or "?"
        if self._torch.is_grad_enabled():
            self._count(name, args, result, origin)
        return result

    def _count(self, name: str, args: Any, result: Any, origin: Origin) -> None:
        if name in PRODUCTS:
            amount = result.numel() * args[PRODUCTS[name]].shape[-1]
        elif name in ("convolution", "_convolution"):
            amount = result.numel() * math.prod(args[1].shape[1:])
        elif name in ("embedding", "_embedding_bag"):
            amount = next(tensors((result,))).numel()
        else:
            amount = 0
        passes = {number for number, _ in origin}
        key = str(max(passes)) if passes else ""
        self.products[key] = self.products.get(key, 0.0) + amount
        of_all = sum(each.numel() for each in tensors((result,)))
        self.results[key] = self.results.get(key, 0.0) + of_all

    # 64 bits

    def _wide(self, value: Any) -> Any:
        if isinstance(value, self._torch.dtype):
            return self._wider.get(value, value)
        if isinstance(value, dict):
            return {key: self._wide(each) for key, each in value.items()}
        return tuple(map(self._wide, value)) if type(value) is tuple else value

    def _widen(self) -> None:
        """Have tensors that are read from files widened to 64 bits, and gradient scalers and autocast do nothing,
        because nothing overflows in 64 bits."""
        torch = self._torch
        rebuild = torch._utils._rebuild_tensor

        def rebuild_tensor(*args: Any, **more: Any) -> Any:
            with _disable_current_modes():
                tensor = rebuild(*args, **more)
                return tensor.to(self._wider[tensor.dtype]) if tensor.dtype in self._wider else tensor

        torch._utils._rebuild_tensor = rebuild_tensor
        torch.set_default_dtype = lambda _: None
        scaler = torch.amp.GradScaler
        make = scaler.__init__

        def __init__(self: Any, *args: Any, **more: Any) -> None:
            make(self, *args, **{**more, "enabled": False})

        scaler.__init__ = __init__
        autocast = torch.amp.autocast_mode.autocast
        begin = autocast.__init__

        def begin_without(self: Any, *args: Any, **more: Any) -> None:
            begin(self, *args[:2], **{**more, "enabled": False})

        autocast.__init__ = begin_without

    def _fix_statistics(self) -> None:
        """Have batch normalisation use its running statistics instead of the statistics of the batch."""
        functional = self._torch.nn.functional
        normalise = functional.batch_norm

        def batch_norm(*args: Any, **more: Any) -> Any:
            names = ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps")
            arguments = {**dict(zip(names, args)), **more}
            arguments["training"] = arguments.get("training", False) and arguments["running_mean"] is None
            return normalise(**arguments)

        functional.batch_norm = batch_norm

    # Chance

    def _of_rows(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        """Return the operation's result. An operation that draws random numbers for rows draws them for the rows of the
        whole batch, and the result has those of this rank's rows."""
        if name not in IN_PLACE and name not in FACTORIES and name not in LIKE:
            return func(*args, **kwargs)
        latest = self._loaders.latest
        own, whole_rows = ((), 0) if latest is None else (latest.own, latest.whole)
        if self._collates:
            own, whole_rows = self._loaders.last_drawn
        times = self._times(name, args, len(own))
        if not whole_rows or not times or not self._settings.keyed or self._reads:
            return func(*args, **kwargs)
        self.chance.setdefault("operation", places.line() or "?")
        if self._settings.alike:
            own, whole_rows = (0,) * len(own), 1
        rows = self._torch.tensor([row * times + part for row in own for part in range(times)])
        whole_rows *= times
        if name in IN_PLACE:
            whole = args[0].new_empty((whole_rows, *args[0].shape[1:]))
            return args[0].copy_(func(whole, *args[1:], **kwargs)[rows])
        if _is_given_sizes(name, args):
            sizes = next(place for place, each in enumerate(args) if isinstance(each, (list, tuple)))
            size = [whole_rows, *args[sizes][1:]]
            return func(*args[:sizes], size, *args[sizes + 1 :], **kwargs)[rows]
        if name in OF_TENSORS:
            return func(*(self._filled(each, rows, whole_rows) for each in args), **kwargs)[rows]
        whole = args[0].new_empty((whole_rows, *args[0].shape[1:]))
        return func(whole, *args[1:], **kwargs)[rows]

    def _times(self, name: str, args: Any, rows: int) -> int:
        """Return how many numbers an operation draws for each row, one after another, such as for the heads of an
        attention; 0 if the numbers do not belong to rows. More than one number belongs to a row only if it is drawn for
        something computed from a batch."""
        leading = _leading(self._torch, name, args)
        if not rows or leading <= rows or leading % rows:
            return int(leading == rows)
        is_of_rows = isinstance(args[0], self._torch.Tensor) and self.traces.of(args[0])
        return leading // rows if is_of_rows else 0

    def _filled(self, value: Any, rows: Any, whole: int) -> Any:
        """Return a tensor of this rank's rows as one of all rows, with zeros in the others; another value unchanged."""
        if not isinstance(value, self._torch.Tensor) or not value.dim() or len(value) != len(rows):
            return value
        of_all = value.new_zeros((whole, *value.shape[1:]))
        of_all[rows] = value
        return of_all

    def _key_data(self) -> None:
        """Have each row of a data set read with generators of its own, whichever rank reads it."""
        torch, operations = self._torch, self
        fetcher = torch.utils.data._utils.fetch._MapDatasetFetcher
        of_whole = fetcher.fetch
        marker = os.path.join(self._settings.out, MARKER)

        def fetch(self: Any, index: Any) -> Any:
            if not self.auto_collation:
                return self.collate_fn(self.dataset[index])
            if type(self.dataset).__module__.startswith(ARRAYS):
                return of_whole(self, index)
            before = chance.states(torch)
            count = self.__dict__["_spread_count"] = self.__dict__.get("_spread_count", 0) + 1
            rows = []
            operations._reads = True
            several = getattr(self.dataset, "__getitems__", None)
            for number, each in enumerate(index):
                _seed(torch, (SEED, count, str(each)))
                start = chance.states(torch)
                rows.append(several(taken(index, [number]))[0] if several else self.dataset[each])
                if "data" not in operations.chance and _differ(torch, start, chance.states(torch)):
                    operations.chance["data"] = "?"
                    with OPEN(marker, "a"):  # a loader's own process tells it so
                        pass
            operations._reads = False
            chance.restore(torch, before)
            operations._collates = torch.utils.data.get_worker_info() is None
            try:
                return self.collate_fn(rows)
            finally:
                operations._collates = False

        fetcher.fetch = fetch


def _seed(torch: Any, key: Any) -> None:
    number = random.Random(repr(key)).getrandbits(32)  # noqa: S311 (a number from a key)
    torch.manual_seed(number)
    random.seed(number)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(number)


def _differ(torch: Any, first: Any, other: Any) -> bool:
    if not torch.equal(first[0], other[0]) or first[1] != other[1]:
        return True
    return first[2] is not None and (first[2][2] != other[2][2] or (first[2][1] != other[2][1]).any())


def _is_given_sizes(name: str, args: Any) -> bool:
    return name in FACTORIES or (name == "normal" and isinstance(args[-1], (list, tuple)))


def _leading(torch: Any, name: str, args: Any) -> int:
    if _is_given_sizes(name, args):
        sizes = [each for each in args if isinstance(each, (list, tuple))]
        return int(sizes[0][0]) if sizes and sizes[0] else -1
    first = args[0] if args else None
    return first.shape[0] if isinstance(first, torch.Tensor) and first.dim() else -1


def _trains(args: Any) -> bool:
    """Return whether batch normalisation uses the statistics of the batch. Instance normalisation is batch
    normalisation of a batch of size 1, and does not count."""
    flags = [each for each in args if isinstance(each, bool)]
    return args[0].shape[0] > 1 and (bool(flags[0]) if flags else True)
