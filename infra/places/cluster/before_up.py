"""What is looked at, said and refused before an update makes anything. A preview asks no cluster: it may have none."""

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

from infra.image import command as image_script
from infra.places.cluster import helm_release, kube, leftover_jobs, operator_spec
from infra.places.cluster.kube import KubeError
from infra.places.kubernetes import inspection, kubeconfig
from infra.places.kubernetes.kubeconfig import NotHereError
from infra.places.minikube.command import started, trouble
from infra.programs import Failure
from infra.settings.settings import Settings
from training.contract.provenance import PROJECT
from training.machine import machine_lock


def check_existing(settings: Settings) -> None:
    """Target `kubernetes`: say which cluster it is, and refuse one that can't hold the measurement, with RunError."""
    assert settings.cluster is not None  # noqa: S101 (the target has it)
    try:
        selected = kubeconfig.select(settings.cluster.kubeconfig, settings.cluster.kube_context or "")
        pulumi.log.info(f"the cluster: {selected}")
        if pulumi.runtime.is_dry_run():
            _warn_of_silence(settings.stack, selected.content)
            return
        found = inspection.findings(kube.connect(selected.content), settings)
    except KubeError as error:
        if pulumi.runtime.is_dry_run() and isinstance(error, NotHereError):
            pulumi.log.warn(f"the cluster is not known here, and `up` would be refused: {error}")
            return
        raise pulumi.RunError(f"the cluster can't be asked; nothing was changed.\n{error}") from None
    lifted = [one for one in found if one.liftable and settings.allow_oversubscription]
    for one in lifted:
        pulumi.log.warn(one.what)
    refused = [str(one) for one in found if one not in lifted]
    if refused:
        raise pulumi.RunError("\n\n".join(["this cluster can't be used so; nothing was changed.", *refused]))


def _warn_of_silence(stack: str, otherwise: Mapping[str, Any] | None = None) -> None:
    """Say at preview that the stack's cluster, or the one it would be made in, does not answer: none is needed."""
    own = kubeconfig.path_of(stack)
    way = own if (PROJECT / own).is_file() else otherwise
    if way is None:
        return
    try:
        kube.get(kube.connect(way), "/version")
    except KubeError as error:
        patience = f" {kubeconfig.patience('preview')}" if way == own else ""
        pulumi.log.warn(f"{error}\nThis preview shows the cluster as it was last seen.{patience}")


def check_minikube(settings: Settings) -> None:
    """Target `minikube`: refuse a cluster that is gone or stopped, with RunError; clear what a killed `up` left."""
    assert settings.cluster is not None  # noqa: S101 (the target has it)
    if pulumi.runtime.is_dry_run():
        _warn_of_silence(settings.stack)
        return
    _have_machine()
    profile, own = settings.cluster.minikube_profile, kubeconfig.path_of(settings.stack)
    try:
        found = trouble(profile)
    except Failure as failure:
        raise pulumi.RunError(str(failure)) from None
    if found:
        raise pulumi.RunError(found)
    if not (PROJECT / own).is_file():
        return
    try:
        _clear(kube.connect(own), settings.cluster.namespace)
    except KubeError as error:
        if started(profile):
            raise pulumi.RunError(f"the cluster can't be asked: {error}") from None
        pulumi.log.debug(f"nothing was looked for in a cluster that is half made: {error}")


def _have_machine() -> None:
    """Hold the machine's lock while the program lives, which is as long as the update: its runs are this machine's.

    With `make up` that took it before, there is nothing to wait for.
    """
    try:
        machine_lock.hold(lambda text: print(text, flush=True))  # Pulumi's own log would say it after the wait
    except machine_lock.LockError as error:
        raise pulumi.RunError(str(error)) from None


def _clear(api: Any, namespace: str) -> None:
    """What an update that was killed left, and what would be in the way of this one."""
    jobs = leftover_jobs.end_unfinished(api, namespace)
    if jobs:
        pulumi.log.info(f"ended what an interrupted update left running: {', '.join(jobs)}")
    pending = helm_release.mark_failed(api, namespace, operator_spec.RELEASE)
    if pending:
        pulumi.log.info(f"an interrupted installation of the operator is made again ({', '.join(pending)})")


def bring_back_images(profile: str, images: Sequence[str]) -> None:
    """Target `minikube`: give the nodes what they lost of these, or pods would wait for them until their deadline."""
    if pulumi.runtime.is_dry_run() or not started(profile):
        return
    try:
        image_script.bring_back(profile, list(images))
    except Failure as failure:
        raise pulumi.RunError(str(failure)) from None
