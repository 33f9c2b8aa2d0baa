"""Has a function called when the script has imported a module, and not before: what it sets before counts."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any


class _Finder(importlib.abc.MetaPathFinder):
    """Finds one module by the other finders, and calls functions with the module after its import."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.calls: list[Callable[[Any], None]] = []

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of the module; None for any other."""
        if fullname != self._name:
            return None
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:  # one before may wait for the same module
            find = getattr(finder, "find_spec", None)
            spec: importlib.machinery.ModuleSpec | None = find(fullname, path, target) if find else None
            if spec is not None and spec.loader is not None:
                self._wait(spec.loader)
                return spec
        return None

    def _wait(self, loader: Any) -> None:
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            for call in self.calls:
                call(module)

        loader.exec_module = exec_module


_finders: dict[str, _Finder] = {}


def when_imported(name: str, call: Callable[[Any], None]) -> None:
    """Call `call` with the module when it has been imported: now, if it has been already. Functions for the same module
    are called in the order in which they were given."""
    if name in sys.modules:
        call(sys.modules[name])
        return
    if name not in _finders:
        _finders[name] = _Finder(name)
        sys.meta_path.insert(0, _finders[name])
    _finders[name].calls.append(call)
