"""Checks between keys of a cluster: of monitoring, a queue and Ray's autoscaler. The keys: `infra.settings.cluster`."""

from collections.abc import Iterator

from infra.settings.cluster import AUTOSCALED, EXISTING, KEPT, NONE, PER_RUN, PROMETHEUS
from infra.settings.draft import Check, Draft
from infra.settings.key import CLUSTER, KUBERNETES
from infra.settings.problem import Problem, set_line


def _monitoring_is_there(draft: Draft) -> Iterator[Problem]:
    """Yield a problem for each key that has no effect with this `monitoring`, and for a PodMonitor in a cluster that
    the stack creates."""
    way = draft.cluster.monitoring
    for key, ways in ((name, key.needs.get("monitoring")) for name, key in draft.keys.items()):
        if ways and way not in ways and draft.is_set(key) and draft.applies(key):
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


def _queue_is_fit(draft: Draft) -> Iterator[Problem]:
    """Yield a problem for a waiting time without a queue, and for a queue with a RayCluster whose size changes at each
    run."""
    if draft.target not in KUBERNETES:
        return
    queue = draft.cluster.queue
    if draft.is_set("queueMinutes") and not queue:
        yield Problem(
            f"{draft.shown('queueMinutes')} without queue",
            "not set, or with queue",
            ("pulumi config rm queueMinutes", set_line("queue", draft.keys["queue"].example)),
            why="it would have no effect",
        )
    if queue and draft.cluster.ray_workers != KEPT:
        yield Problem(
            f"{draft.shown('rayWorkers')} with {draft.shown('queue')}",
            f"rayWorkers {KEPT}, or no queue",
            (set_line("rayWorkers", KEPT), "pulumi config rm queue"),
            why="a RayCluster with another number of workers is another workload to Kueue, which suspends it, the head"
            " included, in the middle of a measurement",
        )


def _autoscaler_is_fit(draft: Draft) -> Iterator[Problem]:
    """Yield a problem for an idle time without Ray's autoscaler, and for Ray's autoscaler with a service account of the
    user's."""
    if draft.target not in CLUSTER:
        return
    autoscaled = draft.cluster.ray_workers == AUTOSCALED
    if draft.is_set("idleSeconds") and not autoscaled:
        yield Problem(
            f"{draft.shown('idleSeconds')} with {draft.shown('rayWorkers')}",
            f"not set, or with rayWorkers {AUTOSCALED}",
            ("pulumi config rm idleSeconds", set_line("rayWorkers", AUTOSCALED)),
            why="it would have no effect",
        )
    if autoscaled and draft.cluster.service_account:
        yield Problem(
            f"{draft.shown('rayWorkers')} with {draft.shown('serviceAccount')}",
            f"rayWorkers {PER_RUN}, or no serviceAccount",
            (set_line("rayWorkers", PER_RUN),),
            why="KubeRay would let that account start pods",
        )


CHECKS: tuple[Check, ...] = (_monitoring_is_there, _queue_is_fit, _autoscaler_is_fit)
