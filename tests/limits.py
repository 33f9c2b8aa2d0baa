"""How long a test waits before it ends what hangs: no promise of the project, and nothing that a test judges by."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
LONGEST_SECONDS = 900
"""A training that takes two minutes alone on a slow machine takes more beside three other tests."""
LEFT_SECONDS = 30
"""What a test has ended may take so long to be gone."""
LOOK_SECONDS = 0.05
"""Between two looks at what a test waits for."""


def wait_for(seen: Callable[[], T], what: str = "") -> T:
    """Return what `seen` gives as soon as that is something; AssertionError with `what` if it never is."""
    deadline = time.monotonic() + LONGEST_SECONDS
    while not (value := seen()):
        assert time.monotonic() < deadline, f"never seen: {what}"  # not prose: of this test
        time.sleep(LOOK_SECONDS)
    return value
