"""Checks between `monitoring` and the keys that say more about it."""

from collections.abc import Iterator

from infra.settings.draft import Draft
from infra.settings.key import KUBERNETES
from infra.settings.problem import Problem, set_line

NONE, PROMETHEUS, EXISTING = "none", "prometheus", "existing"
WAYS_OF_KEYS = {
    "prometheusImage": (PROMETHEUS,),
    "monitoringNamespace": (PROMETHEUS, EXISTING),
    "podMonitorLabels": (EXISTING,),
    "grafanaUrl": (PROMETHEUS, EXISTING),
}
"""The values of `monitoring` with which each of these keys has an effect."""


def problems(draft: Draft) -> Iterator[Problem]:
    """Yield a problem for keys without effect under this `monitoring`, and for a PodMonitor in the stack's cluster."""
    way = draft.cluster.monitoring
    for key, ways in WAYS_OF_KEYS.items():
        if draft.is_set(key) and draft.applies(key) and way not in ways:
            yield Problem(
                f"{draft.shown(key)} with {draft.shown('monitoring')}",
                f"not set, or monitoring {' or '.join(ways)}",
                (f"pulumi config rm {key}", set_line("monitoring", ways[0])),
                why="it would have no effect",
            )
    if way == EXISTING and draft.target not in KUBERNETES:
        yield Problem(
            f"{draft.shown('monitoring')} on {draft.shown('target')}",
            f"{NONE} or {PROMETHEUS}",
            (set_line("monitoring", PROMETHEUS),),
            why="the stack creates this cluster, and no Prometheus is in it",
        )
