"""Whether labels are selected, as Kubernetes decides it. Pure."""

import re
from collections.abc import Mapping
from typing import Any

Labels = Mapping[str, str]


def selects(selector: Mapping[str, Any] | None, labels: Labels) -> bool:
    """Return whether a label selector selects these labels; none at all selects nothing, and an empty one everything.

    Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#resources-that-support-set-based-requirements.
    """
    if selector is None:
        return False
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        meets(labels, each) for each in selector.get("matchExpressions", ())
    )


def meets(labels: Labels, requirement: Mapping[str, Any]) -> bool:
    """Return whether labels meet a requirement, also one of a node affinity: a label that is no whole number is neither
    more nor less than one."""
    operator, label = str(requirement["operator"]), labels.get(requirement["key"])
    values: list[str] = requirement.get("values", [])
    if operator in ("Exists", "DoesNotExist"):
        return (label is not None) == (operator == "Exists")
    if operator in ("In", "NotIn"):
        return (label in values) == (operator == "In")
    if label is None or not re.fullmatch(r"[+-]?\d+", label, re.ASCII):
        return False
    return int(label) > int(values[0]) if operator == "Gt" else int(label) < int(values[0])
