"""Batches that are given again, of tensors that are made up: what the script does to one is not in the next."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from training.workloads.script.observe import torch_stock
from training.workloads.script.observe.torch_stock import KEPT_BATCHES, KEPT_OF, Stock, Stocks


class Tensor:
    """Numbers that several tensors may share; it can't be pickled."""

    def __init__(self, numbers: list[int], versions: list[int] | None = None) -> None:
        self.numbers = numbers
        self._versions = versions if versions is not None else [0]
        self.requires_grad = False

    @property
    def _version(self) -> int:
        return self._versions[0]

    def add_(self, number: int) -> None:
        """In place."""
        self.numbers[:] = [each + number for each in self.numbers]
        self._versions[0] += 1

    def detach(self) -> "Tensor":
        """Another one of the same memory."""
        return Tensor(self.numbers, self._versions)

    def clone(self) -> "Tensor":
        """Another one of its own."""
        return Tensor(list(self.numbers))

    def __reduce__(self) -> Any:
        raise TypeError


@pytest.fixture(autouse=True)
def torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A PyTorch with these tensors."""
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(Tensor=Tensor))


def test_a_batch_is_an_object_of_its_own_each_time() -> None:
    """Whatever is in it: a script may take a list out of it, or set a gradient."""
    stock = Stock()
    stock.keep({"rows": [Tensor([1, 2])], "names": ["a", "b"]})
    first = stock.give()
    first["names"].clear()
    first["rows"][0].requires_grad = True
    second = stock.give()

    assert ["a", "b"] == second["names"]
    assert not second["rows"][0].requires_grad
    assert first["rows"][0].numbers is second["rows"][0].numbers


def test_a_batch_that_was_changed_in_place_is_not_given() -> None:
    """From then on copies are."""
    stock, batch = Stock(), [Tensor([1, 2])]
    stock.keep(batch)
    batch[0].add_(1)
    with pytest.raises(LookupError):
        stock.give()
    batch = [Tensor([5, 6])]
    stock.keep(batch)
    batch[0].add_(1)
    given = stock.give()
    given[0].add_(1)

    assert [5, 6] == stock.give()[0].numbers


def test_one_of_some_batches_is_kept_when_there_are_enough() -> None:
    """The last ones, but not each: it takes time that no clock counts."""
    stock, taken = Stock(), 10 * KEPT_OF
    for number in range(taken):
        stock.keep(number)
    given = {stock.give() for _ in range(KEPT_BATCHES)}

    assert {taken - 1 - KEPT_OF * each for each in range(KEPT_BATCHES)} == given


def test_a_batch_that_takes_long_to_take_apart_is_not_kept_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that holds its data set, say."""
    assert not Stock().keep([1])
    monkeypatch.setattr(torch_stock, "MOST_SECONDS", -1.0)
    assert Stock().keep([1])


def loader(data: Any, collate: Any, size: int) -> SimpleNamespace:
    """An iterator of a loader."""
    return SimpleNamespace(_dataset=data, _collate_fn=collate, _index_sampler=SimpleNamespace(batch_size=size))


def test_loaders_that_make_the_same_batches_have_one_stock() -> None:
    """As those of each epoch; others of the same data set have their own."""
    stocks, data = Stocks(), [1, 2]
    collates = [lambda rows: rows for _ in range(2)]
    stock = stocks.of(loader(data, collates[0], 16))

    assert stock is stocks.of(loader(data, collates[1], 16))
    assert stock is not stocks.of(loader(data, collates[0], 8))
    assert stock is not stocks.of(loader(data, sorted, 16))
    assert stock is not stocks.of(loader([1, 2], collates[0], 16))
