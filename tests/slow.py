"""Which cases of a test run in `rwi test`, where each takes long: the others are `slow`, and run with SLOW=1."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def slow_but(quick: Collection[str], cases: Iterable[str]) -> list[Any]:
    """Return the cases for `parametrize`, those that are not `quick` marked slow."""
    return [each if each in quick else pytest.param(each, marks=pytest.mark.slow) for each in cases]
