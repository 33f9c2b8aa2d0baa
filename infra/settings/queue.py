"""Checks between `queue` and other keys."""

from collections.abc import Iterator

from infra.settings.cluster import KEPT
from infra.settings.draft import Draft
from infra.settings.key import KUBERNETES
from infra.settings.problem import Problem, set_line


def problems(draft: Draft) -> Iterator[Problem]:
    """Yield a problem for a waiting time without a queue, and for a queue with Ray workers that come and go."""
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
