"""Checks between `rayWorkers autoscaled` and other keys."""

from collections.abc import Iterator

from infra.settings.cluster import AUTOSCALED, PER_RUN
from infra.settings.draft import Draft
from infra.settings.key import CLUSTER
from infra.settings.problem import Problem, set_line


def problems(draft: Draft) -> Iterator[Problem]:
    """Yield a problem for an idle time without Ray's autoscaler, and for a service account of the user's with it."""
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
