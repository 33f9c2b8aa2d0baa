"""Checks that this Python has the versions that the program was locked to. Standard library only.

An image can be built elsewhere, or from an older lock; a measurement made with it would carry wrong versions.
"""

import json
import os
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

EXPECTED = "TRAINING_EXPECTED_VERSIONS"
"""Environment variable with the versions that have to be installed in a pod: a JSON object of package to version."""


class WrongVersionsError(ValueError):
    """The installed versions are not the expected ones; the message names both."""


def check(environment: Mapping[str, str] = os.environ) -> None:
    """Raise WrongVersionsError if installed versions are not those in the variable EXPECTED; without it, do nothing."""
    expected = json.loads(environment.get(EXPECTED, "{}"))
    installed = {name: _installed(name) for name in expected}
    wrong = [
        f"{name} {installed[name]} instead of {expected[name]}"
        for name in sorted(expected)
        if differs(expected, installed, name)
    ]
    if wrong:
        raise WrongVersionsError(
            f"this image has {', '.join(wrong)} (uv.lock): build it from this project, or set `image` to one that was"
        )


def differs(expected: Mapping[str, str], installed: Mapping[str, str], name: str) -> bool:
    """Return whether a package's expected and installed versions differ; of Python's, only major and minor count."""
    if name == "python":
        return expected[name].split(".")[:2] != installed[name].split(".")[:2]
    return expected[name] != installed[name]


def _installed(name: str) -> str:
    """Return the installed version of a package or of its variant `-cpu`, which stands for it; else "nothing"."""
    if name == "python":
        return platform.python_version()
    for package in (name, f"{name}-cpu"):
        try:
            return version(package)
        except PackageNotFoundError:
            continue
    return "nothing"
