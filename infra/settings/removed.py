"""Keys of earlier versions: why they went, and what does their work now. Pure.

A stack's file that still has one is refused: another measurement than the one it describes would run in its place.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from infra.settings.rules import template_line


@dataclass(frozen=True, kw_only=True)
class Replacement:
    """What took the place of one key, or of several together."""

    keys: tuple[str, ...]
    instead: str
    """What a user sets now; it follows `allowed:`."""
    why: str
    line: Callable[[Mapping[str, str], str], str] = lambda _, __: ""
    """Returns the command line that follows the removal, from the removed keys' values and the stack's name; empty if
    nothing needs to be set. Raises ValueError for values that were never allowed."""


def _pod_template(values: Mapping[str, str], stack: str) -> str:
    spec = {key: json.loads(values[key]) for key in ("nodeSelector", "tolerations") if values.get(key)}
    secrets = [name.strip() for name in values.get("imagePullSecrets", "none").split(",")]
    spec |= {"imagePullSecrets": [{"name": name} for name in secrets]} if secrets not in (["none"], [""]) else {}
    return template_line(spec, f"stacks/pods.{stack}.yaml") if spec else ""


REPLACEMENTS = (
    Replacement(
        keys=("nodeSelector", "tolerations", "imagePullSecrets"),
        instead="podTemplate with the path of a YAML file that holds them as a pod's spec does",
        why="one file has what all pods have in common: docs/targets.md",
        line=_pod_template,
    ),
    Replacement(
        keys=("dashboardNodePort",),
        instead="not set: `make dashboard` prints the address",
        why="Ray's dashboard answers at port 30265 of Minikube's nodes",
    ),
    Replacement(
        keys=("tunedRay",),
        instead="not set: the arm ray is Ray as its documentation has it",
        why="Ray with private patches is no arm any more, because nobody could use it",
    ),
)
REMOVED = {key: replacement for replacement in REPLACEMENTS for key in replacement.keys}
"""What took the place of a removed key, by its name."""


def fixing_line(replacement: Replacement, values: Mapping[str, str], stack: str) -> str:
    """Return the command lines that set what its keys meant, and remove them; `values` are the texts of those set."""
    try:
        line = replacement.line(values, stack)
    except (ValueError, RecursionError):
        line = ""
    return " && ".join([*filter(None, [line]), *(f"pulumi config rm {key}" for key in values)])
