"""Keeps errors of the observer out of the script: every function of it that a call of the script reaches is a hook.

A hook that fails is recorded, with the items that are not known for it, and the script goes on as it does alone. What
is no `Exception` passes: the end after the wanted steps (`state.Enough`), KeyboardInterrupt. So do the script's own
exceptions, unchanged, and what its signal handlers raise while a hook runs. Standard library only.
"""

from __future__ import annotations

import contextlib
import functools
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any

STEPS = ("steps", "optimizers", "weights", "trained", "learningRate", "hyperparameters")
ROWS = ("rowsPerStep", "rows", "rowsDisjoint")
INPUT = ("input", "autocast")
PARTS, WAITS, METRICS = "stepParts", "dataWaitSeconds", "metrics"
"""Items of the same work, and names of other numbers, as they stand in what is written."""


@dataclass
class Instead:
    """What a hook around a call has the script get, in place of the call's own result."""

    result: Any


class Hook:
    """A function of the observer that runs within the script. `look` may be replaced: tests have it fail."""

    def __init__(self, look: Callable[..., Any], what: str, items: tuple[str, ...]) -> None:
        """`what`: the words for its failure; `items`: what is not known then."""
        self.look, self.what, self.items = look, what, items
        hooks[f"{look.__module__.rpartition('.')[2]}.{look.__qualname__}"] = self

    def lose(self, error: Exception) -> None:
        """Record that it failed. Raises the error again where it is the script's."""
        if _is_of_a_signal(error.__traceback__):
            raise error
        with contextlib.suppress(Exception):  # there is nothing left that could say it
            lose(self.what, *self.items, why=_words(error))


hooks: dict[str, Hook] = {}
"""All of them, by module and name."""
_record: list[Callable[[str, str, tuple[str, ...]], None]] = []


def record_by(record: Callable[[str, str, tuple[str, ...]], None]) -> None:
    """Have this function called with what could not be observed, why, and the items that are not known for it."""
    _record[:] = [record]


def lose(what: str, *items: str, why: str = "") -> None:
    """Record that items are not known."""
    for record in _record:
        record(what, why, items)


def guarded(what: str, *items: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a hook of a function. It returns None where it fails."""

    def decorate(look: Callable[..., Any]) -> Callable[..., Any]:
        hook = Hook(look, what, items)

        @functools.wraps(look)
        def guarded_look(*args: Any, **more: Any) -> Any:
            try:
                return hook.look(*args, **more)
            except Exception as error:  # noqa: BLE001 (whatever it is, the script goes on)
                hook.lose(error)
                return None

        return guarded_look

    return decorate


def around(what: str, *items: str) -> Callable[[Callable[..., Iterator[Any]]], Around]:
    """Make a hook of a generator function with one `yield`, at which the script's call is made: once, whatever fails.

    It gets the call's arguments, and may yield others, as `(args, more)`. The yield gives the call's result, or raises
    what the call raises, which the script gets in any case. `return Instead(result)` changes the result.
    """
    return lambda look: Around(look, what, items)


class Around(Hook):
    """A hook around a call of the script."""

    def __call__(
        self, call: Callable[..., Any], *first: Any, unless: Callable[[], bool] | None = None
    ) -> Callable[..., Any]:
        """Return the call with this hook around it, which gets `first` before the call's arguments.

        `unless`: whether the call is to be made as it is, as while a compiler reads it.
        """

        @functools.wraps(call)
        def observed(*args: Any, **more: Any) -> Any:
            if unless is not None and unless():
                return call(*args, **more)
            try:
                looking = self.look(*first, *args, **more)
                changed = next(looking)
            except Exception as error:  # noqa: BLE001 (whatever it is, the script's call is made)
                self.lose(error)
                looking = changed = None
            if changed is not None:
                args, more = changed
            try:
                result = call(*args, **more)
            except BaseException as error:
                self._fail(looking, error)
                raise
            try:
                if looking is not None:
                    looking.send(result)
            except StopIteration as end:
                return end.value.result if end.value is not None else result
            except Exception as error:  # noqa: BLE001 (whatever it is, the script has its result)
                self.lose(error)
            return result

        return observed

    def _fail(self, looking: Any, raised: BaseException) -> None:
        """Tell the generator what the call raised, and leave that as it is."""
        traceback = raised.__traceback__
        try:
            if looking is not None:
                looking.throw(raised)
        except StopIteration:
            pass
        except BaseException as error:
            if not (error is raised or error.__cause__ is raised):  # a StopIteration leaves a generator as a cause
                if not isinstance(error, Exception):
                    raise
                self.lose(error)
        finally:
            raised.__traceback__ = traceback


def _words(error: Exception) -> str:
    try:
        return repr(error)
    except Exception:  # noqa: BLE001 (an exception of somebody's own may have no text)
        return type(error).__name__


def _is_of_a_signal(traceback: TracebackType | None) -> bool:
    """Return whether a handler of a signal, which runs wherever the program is, raised the error: as at a time limit
    that the script has set."""
    handlers = {getattr(_handler(number), "__code__", None) for number in signal.valid_signals()} - {None}
    while traceback is not None:
        if traceback.tb_frame.f_code in handlers:
            return True
        traceback = traceback.tb_next
    return False


def _handler(number: int) -> Any:
    handler = signal.getsignal(number)
    return handler if hasattr(handler, "__code__") else getattr(handler, "__call__", None)  # noqa: B004 (an object's)
