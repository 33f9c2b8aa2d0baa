"""The tensors in what a loader delivers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any


def mapped(torch: Any, content: Any, look: Callable[[Any], Any]) -> Any:
    """Return a batch with each of its tensors as `look` gives it."""
    if isinstance(content, torch.Tensor):
        return look(content)
    if isinstance(content, tuple) and hasattr(content, "_fields"):
        return type(content)(*(mapped(torch, each, look) for each in content))
    if type(content) in (list, tuple):
        return type(content)(mapped(torch, each, look) for each in content)
    if hasattr(content, "items") and hasattr(content, "keys"):
        with contextlib.suppress(Exception):
            for key in list(content.keys()):
                content[key] = mapped(torch, content[key], look)
    elif hasattr(content, "__dict__"):
        for key, each in list(vars(content).items()):
            if isinstance(each, torch.Tensor):
                setattr(content, key, look(each))
    return content
