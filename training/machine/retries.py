"""The one way to try a step again. How often, with which pause and what is printed is the caller's rule.

Runs on Python 3.9: the set-up uses it before the project's Python is installed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from typing import TypeVar

T = TypeVar("T")
Errors = tuple[type[Exception], ...]


def retry(action: Callable[[], T], errors: Errors, pause: Callable[[int, Exception], float | None]) -> T:
    """Call `action`, again after each of `errors`, and return what it returns. Raises any other error, and the last.

    Args:
        action: The step.
        errors: Errors after which it may be tried again.
        pause: Returns, for the number of an attempt (1, 2, …) and its error, the seconds until the next attempt; None
            if there is to be no further attempt.
    """
    for attempt in count(1):
        try:
            return action()
        except errors as error:
            seconds = pause(attempt, error)
            if seconds is None:
                raise
            time.sleep(seconds)
    raise AssertionError("unreachable")
