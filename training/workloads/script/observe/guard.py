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
"""Names of the items of an observation, grouped by the work that they describe, as in the written observation."""


@dataclass
class Instead:
    """The result that a hook around a call returns to the script, in place of the call's own result."""

    result: Any


class Hook:
    """A function of the observer that runs within the script. `look` may be replaced: tests have it fail."""

    def __init__(self, look: Callable[..., Any], what: str, items: tuple[str, ...]) -> None:
        """Register the hook. `what`: words for its failure; `items`: what of the observation is unknown then."""
        self.look, self.what, self.items = look, what, items
        hooks[f"{look.__module__.rpartition('.')[2]}.{look.__qualname__}"] = self

    def lose(self, error: Exception) -> None:
        """Record that the hook has failed with `error`; raise it again if a signal handler of the script raised it."""
        if _is_of_a_signal(error.__traceback__):
            raise error
        with contextlib.suppress(Exception):  # there is nothing left that could say it
            lose(self.what, *self.items, why=_words(error))


hooks: dict[str, Hook] = {}
"""All hooks, by module and name of their function."""
_record: list[Callable[[str, str, tuple[str, ...]], None]] = []


def record_by(record: Callable[[str, str, tuple[str, ...]], None]) -> None:
    """Have `record` called for each failure, with what could not be observed, the reason, and the items that are
    unknown because of it."""
    _record[:] = [record]


def lose(what: str, *items: str, why: str = "") -> None:
    """Record that `items` of the observation are not known. `what`: what could not be observed; `why`: the reason."""
    for record in _record:
        record(what, why, items)


def guarded(what: str, *items: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator for hooks: if the function fails, that is recorded, and the hook returns None."""

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
    """Return a decorator that makes a hook of a generator function with one `yield`, at which the script's call is made
    exactly once. The generator gets the call's arguments and may yield others as `(args, more)`. Its `yield` returns
    the call's result or raises its error; the script gets the same, or `result` after `return Instead(result)`."""
    return lambda look: Around(look, what, items)


class Around(Hook):
    """A hook around a call of the script."""

    def __call__(
        self, call: Callable[..., Any], *first: Any, unless: Callable[[], bool] | None = None
    ) -> Callable[..., Any]:
        """Return a function that makes `call` with this hook around it; the hook gets `first` before the call's
        arguments. Where `unless` returns true, `call` is made without the hook, for example while a compiler reads
        it."""

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
        """Raise the error of the call in the generator, so that the hook can see it, and leave the error unchanged."""
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
    """Return whether a signal handler raised the error, for example at a time limit that the script has set: a handler
    runs wherever the program is, also in a hook."""
    handlers = {getattr(_handler(number), "__code__", None) for number in signal.valid_signals()} - {None}
    while traceback is not None:
        if traceback.tb_frame.f_code in handlers:
            return True
        traceback = traceback.tb_next
    return False


def _handler(number: int) -> Any:
    handler = signal.getsignal(number)
    return handler if hasattr(handler, "__code__") else getattr(handler, "__call__", None)  # noqa: B004 (an object's)
