"""Steps around an update of a stack: lock this machine, start a stopped cluster, correct Helm's records.
Before a stack is destroyed, refuse to end the jobs of other people.

Two measurements at once on one machine would spoil each other. The lock is the one that each run on target `local`
takes; here it is kept for the whole update, because its runs are pods that can't wait for a lock.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress

from cli.look import cluster
from cli.setup.project import ToolError, say
from cli.stack import settings as stack_settings
from infra.places.cluster.api import helm_release, kube, ray_api
from infra.places.cluster.api.kube import KubeError
from infra.places.cluster.manifests import operator
from infra.places.kubernetes import pinned_cluster
from infra.places.place import choose, cluster_of
from infra.programs import ProgramError
from training.launch.ray import other_jobs
from training.machine import machine_lock
from training.machine.command_line import rwi

UNAUTHORIZED, FORBIDDEN = 401, 403
_ANY = (*helm_release.PENDING, "deployed")


@contextmanager
def alone(target: str) -> Iterator[None]:
    """Hold the machine's lock during the `with` block if updates of the target need it; however this process ends, it
    is released. If another process holds it, print that this one waits."""
    if not choose(target).holds_machine:
        yield
        return
    try:
        lock = machine_lock.take(say)
    except machine_lock.LockError as error:
        raise ToolError(str(error)) from None
    with lock or nullcontext():
        yield


@contextmanager
def ready(target: str, stack: str, overrides: dict[str, str]) -> Iterator[None]:
    """Hold the machine's lock, and start the cluster, if needed, for an update. Raise ToolError if that fails."""
    with alone(target):
        if cluster_of(target).traits.owned:
            resume(stack, overrides)
        yield


def mark_interrupted_release(stack: str, overrides: dict[str, str]) -> None:
    """Mark the operator's Helm release in a managed cluster as failed, if Pulumi was killed before it recorded that.
    The next `up` then installs it again."""
    stack_cluster = cluster.find(stack, overrides)
    if not stack_cluster.place.traits.owned:
        return
    with suppress(ToolError, KubeError):  # without a cluster there is no release either
        helm_release.mark_failed(cluster.connect(stack_cluster), stack_cluster.namespace, operator.RELEASE, _ANY)


def resume(stack: str, overrides: dict[str, str]) -> None:
    """Start the stack's cluster if it was stopped, not if there never was one. Raise ToolError if that fails."""
    stack_cluster = cluster.find(stack, overrides)
    try:
        stack_cluster.place.resume(stack_cluster.settings)
    except ProgramError as failure:
        raise ToolError(f"stack {stack}: {failure}") from None


def refuse_to_move_others(stack: str, overrides: dict[str, str], namespaces: list[str], pinned_as: str) -> None:
    """Raise ToolError if somebody's job runs on a Ray cluster that an update would remove, because the settings name
    another namespace, or no cluster. `namespaces` are those of the stack's Ray clusters in the state.

    Pulumi's program checks only the namespace in the settings, because it does not know the one in the state.
    """
    settings = stack_settings.load(stack, overrides)
    wanted = settings.cluster.namespace if settings.cluster else ""
    for namespace in namespaces:
        if namespace == wanted:
            continue
        try:
            refuse_to_end_others(stack, namespace, pinned_as, verb="up")
        except ToolError as error:
            where = f"stack {stack}: its Ray cluster is in namespace {namespace}, and the settings name"
            if not wanted:
                raise ToolError(f"{where} target {settings.target}; go back to the target before.\n{error}") from None
            back = rwi(f"set namespace={namespace}", stack)
            raise ToolError(f"{where} {wanted}; to reach it there:\n  {back}\n{error}") from None


def refuse_to_end_others(stack: str, namespace: str, pinned_as: str, *, verb: str = "destroy") -> None:
    """Raise ToolError if somebody else's job runs on the stack's Ray cluster, because it would end with the cluster.

    `pinned_as` is the stack's name when its kubeconfig was written and its runs were marked. `verb` is the command that
    would end the job.

    The settings are not read, because they may be wrong by now. Nothing is refused if the cluster does not answer, or
    its Ray is not ready, because the cluster may be gone, and the rest of the stack must still be removable.
    """
    if kube.own_text(pinned_as) is None:
        return
    try:
        others = ray_api.jobs_of_others(kube.connect(kube.own_path(pinned_as)), namespace, pinned_as)
    except ray_api.RayError as error:
        raise ToolError(f"stack {stack}: nothing was changed: {error}") from None
    except KubeError as error:
        if error.status in {UNAUTHORIZED, FORBIDDEN}:  # it is there
            raise ToolError(
                f"stack {stack}: nothing was changed: whether somebody's job runs on its Ray cluster, and would end"
                f" with it, can't be seen: {error}.{_way_in(stack, error, verb)}"
            ) from None
        return
    if others:
        raise ToolError(f"stack {stack}: nothing was changed: {other_jobs.refusal(others, stack, other_jobs.ENDS)}")


def _way_in(stack: str, error: KubeError, verb: str) -> str:
    """Return what to type if jobs cannot be listed: how to log in again, or which rights are needed, because a retry
    would use the same credentials."""
    again = f"  {rwi(verb, stack)}"
    if error.status == UNAUTHORIZED:
        return f"{pinned_cluster.way_in(error)} --stack {stack}\n{again}"
    return (
        f" With the right to list pods and to read Ray's Secret:\n{again}\n"
        f"Where you know that nobody's job runs there, without asking:\n  pulumi {verb} --stack {stack}"
    )
