"""What is installed in a script's environment: asked of its own Python, which imports none of it."""

import json
import os
import subprocess
from collections.abc import Mapping
from functools import cache

from training.launch import environment
from training.workloads.script.commands import install_line
from training.workloads.script.recognise import Script

PACKAGES = (
    "ray", "torch", "tensorflow", "tensorflow-cpu", "tf-keras", "keras", "lightning", "accelerate", "transformers",
    "xgboost", "xgboost-cpu", "lightgbm",
)  # fmt: skip
LEAST_PYTHON = (3, 9)
LEAST = {"ray": (2, 51), "torch": (2, 1)}
"""Older Ray has no Ray Train V2 by default, older PyTorch no hook after a step."""
PROBE = """
import json, platform
from importlib import metadata
found = {"python": platform.python_version()}
for name in %r:
    try:
        found[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
"""


class PythonError(ValueError):
    """The script's Python can't be used; the message says what to do."""


@cache
def versions(python: str) -> dict[str, str]:
    """Versions by package, and Python's own. Raises PythonError for what is no Python that can be observed."""
    try:
        asked = subprocess.run(
            [python, "-c", PROBE % (PACKAGES,)],
            env=environment.allowed(os.environ),
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PythonError(
            f"{python} can't be run ({error}): name the interpreter of the script's environment, as "
            "../mine/.venv/bin/python"
        ) from None
    try:
        found: dict[str, str] = json.loads(asked.stdout)
    except ValueError:
        raise PythonError(f"{python} is no Python: {(asked.stdout + asked.stderr).strip()[-200:]}") from None
    if _numbers(found["python"]) < LEAST_PYTHON:
        raise PythonError(f"{python} is Python {found['python']}: 3.9 is the oldest that can be observed")
    return found


def check(script: Script, found: Mapping[str, str], python: str) -> None:
    """What the script imports is there, and new enough. Raises PythonError with the line that installs it."""
    if script.needs_ray and "ray" not in found:
        raise PythonError(f"{script.path.name} imports Ray, and its environment has none: {install_line(python)}")
    for name, least in LEAST.items():
        if name in found and name in script.frameworks and _numbers(found[name]) < least:
            needed = ".".join(map(str, least))
            raise PythonError(
                f"{name} {found[name]} in the script's environment: {needed} or newer can be observed: "
                f"{python} -m pip install --upgrade {name}"
            )


def _numbers(version: str) -> tuple[int, int]:
    major, minor = ([*version.split("."), "0"])[:2]
    return int(major), int("".join(character for character in minor if character.isdecimal()) or 0)
