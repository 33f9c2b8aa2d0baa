"""What `make up` does around an update of a Minikube stack: this machine to itself, and a stopped cluster started.

Two measurements at once on one machine would spoil each other. The lock is the one that each run on target `local`
takes; here it is held for the whole update, whose runs are pods that nobody could hold back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress

from infra.places.cluster import helm_release, operator_spec
from infra.places.cluster.kube import KubeError
from infra.places.minikube import command as minikube
from infra.programs import Failure
from tools.look import cluster
from tools.setup.project import ToolError, say
from tools.stack import settings as stack_settings
from training.machine import machine_lock

_ANY = (*helm_release.PENDING, "deployed")


@contextmanager
def alone_on_machine() -> Iterator[None]:
    """Hold the machine's lock; waits for it, and says so. It goes with this process, however that ends."""
    try:
        lock = machine_lock.take(say)
    except machine_lock.LockError as error:
        raise ToolError(str(error)) from None
    with lock or nullcontext():
        yield


def release_made_in_vain(stack: str, overrides: dict[str, str]) -> None:
    """Mark the operator's release as failed, because Pulumi was killed before it noted it: `up` installs it again."""
    found = cluster.find(stack, overrides)
    with suppress(ToolError, KubeError):  # without a cluster there is no release either
        helm_release.mark_failed(cluster.connect(found), found.namespace, operator_spec.RELEASE, _ANY)


def resume(stack: str, overrides: dict[str, str]) -> None:
    """Start the stack's cluster if it was stopped; what was never made is `up`'s to make. Raises ToolError."""
    settings = stack_settings.load(stack, overrides)
    if settings.cluster is None:
        return
    try:
        minikube.resume(settings.cluster.minikube_profile)
    except Failure as failure:
        raise ToolError(f"stack {stack}: {failure}") from None
