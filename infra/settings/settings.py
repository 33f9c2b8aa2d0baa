"""The settings of a stack: parsed, checked together, typed. The only module that reads Pulumi's config.

Everything that is wrong is said in one message at preview. Not here: what a key may hold (`infra.settings.table`), and
what must agree between keys (`infra.settings.checks`, `infra.settings.cluster_checks`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib.util import find_spec
from typing import Any

import psutil
import pulumi
from pulumi.runtime.config import get_config_env, get_config_secret_keys_env

from infra.settings.arms import absent_arms
from infra.settings.checks import (
    CHECKS,
    dataset_of,
    fewer_workers,
    oversubscription_of,
    path_of,
    run_checks,
    sharing_of,
)
from infra.settings.cluster_checks import CLUSTER_CHECKS, profile_of, unfit
from infra.settings.draft import Draft, Facts, InvalidSettingsError, read
from infra.settings.key import Target
from infra.settings.rules import Quantity
from infra.settings.table import KEYS
from training.contract import provenance
from training.contract.arms import ARMS
from training.contract.recipe import Recipe, camel
from training.contract.workload import named
from training.machine import topology


class SettingsError(pulumi.RunError):
    """Settings that cannot be used. Pulumi shows the message, without a traceback, and fails."""


@dataclass(frozen=True, kw_only=True)
class ClusterSettings:
    """The settings that mean something on a cluster alone; fields are named like their keys."""

    worker_memory: Quantity
    head_cpus: float
    head_memory: Quantity
    minikube_profile: str
    minikube_nodes: int
    minikube_cpus: int
    minikube_memory: Quantity
    minikube_addons: tuple[str, ...]
    minikube_cni: str
    preload_images: tuple[str, ...]
    kubernetes_version: str
    operator: str
    kuberay_version: str
    kuberay_repository: str
    kuberay_chart: str
    kuberay_chart_digest: str | None
    base_image: str
    image: str | None
    image_registry: str | None
    image_pull_secrets: tuple[str, ...]
    dashboard_node_port: int
    namespace: str
    create_namespace: bool
    kubeconfig: str | None
    kube_context: str | None
    node_selector: dict[str, str]
    tolerations: tuple[dict[str, Any], ...]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a stack is to measure, and how."""

    stack: str
    target: Target
    recipe: Recipe
    """With `dataset` resolved."""
    repeats: int
    workers_curve: tuple[int, ...]
    """Other numbers of workers, ascending, that Ray is measured with: all below the recipe's."""
    native_arm: bool
    wide_arm: bool
    tuned_ray: bool
    absent_arms: Mapping[str, str]
    """Why an arm is not measured, by its name."""
    keep_baseline: bool
    run_timeout_minutes: int
    allow_oversubscription: bool
    ray_dashboard: bool
    price_cpu_hour: float | None
    price_gib_hour: float | None
    dataset_path: str | None
    """Absolute; it exists."""
    worker_memory_bytes: int
    """Not enforced on `local`."""
    oversubscription: str | None
    """What the verdict says about cores that are shared by permission."""
    given: dict[str, str]
    """The texts of the keys that are not their defaults; without secrets."""
    warnings: tuple[str, ...]
    """To be logged by the program."""
    refused_at_up: tuple[str, ...]
    """Warnings about this machine that stop an update; a preview may run on another machine."""
    cluster: ClusterSettings | None
    """None on `local`."""

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms of the measurement, in the order in which they are shown."""
        wanted = {"native": self.native_arm, "wide": self.wide_arm, "tuned": self.tuned_ray}
        return tuple(arm for arm in ARMS if wanted.get(arm, True))


def load() -> Settings:
    """The settings of the stack being deployed. Raises SettingsError that lists all problems."""
    config = pulumi.Config()
    prefix = f"{config.name}:"
    given = {key.removeprefix(prefix) for key in get_config_env() if key.startswith(prefix)}
    values = {key: text for key in given | set(KEYS) if (text := config.get(key)) is not None}
    try:
        settings = parse(values, _facts())
    except InvalidSettingsError as error:
        raise SettingsError(str(error)) from None
    if settings.refused_at_up and not pulumi.runtime.is_dry_run():
        raise SettingsError("\n\n".join(["this does not fit; nothing was changed.", *settings.refused_at_up]))
    return settings


def _facts() -> Facts:
    """The facts of the stack that the engine runs this program for."""
    prefix = f"{pulumi.get_project()}:"
    secret = frozenset(key.removeprefix(prefix) for key in get_config_secret_keys_env())
    return machine_facts(pulumi.get_project(), pulumi.get_stack(), secret)


def machine_facts(project: str, stack: str, secret_keys: frozenset[str]) -> Facts:
    """The facts of a stack on this machine."""
    host = provenance.host()
    return Facts(
        project=project,
        stack=stack,
        folder=provenance.PROJECT,
        cpus_allowed=host.cpus_allowed,
        physical_cores=psutil.cpu_count(logical=False) or host.cpus_allowed,
        memory_bytes=host.memory_bytes,
        secret_keys=secret_keys,
        dashboard_installed=find_spec("aiohttp_cors") is not None,
        cpu_quota=host.cpu_quota,
        cores_by_kind=topology.cores_by_kind(topology.read(provenance.allowed_cpus()) or ()),
    )


def parse(values: Mapping[str, str], facts: Facts) -> Settings:
    """Settings from config texts by key (no namespace). Raises InvalidSettingsError that lists all problems."""
    draft, problems = read(values, facts)
    problems += run_checks(draft, CHECKS + CLUSTER_CHECKS)
    if problems:
        raise InvalidSettingsError(facts.stack, problems)
    return _settings(draft)


def _settings(draft: Draft) -> Settings:
    found, allowed = unfit(draft), draft["allowOversubscription"]
    shared = [text for text in (oversubscription_of(draft), *(one.what for one in found if one.liftable)) if text]
    absent = absent_arms(draft)
    refused = [one for one in found if not (one.liftable and allowed)]
    dataset_path = path_of(draft, "datasetPath")
    return Settings(
        stack=draft.facts.stack,
        target=draft.target,
        recipe=_recipe(draft),
        repeats=draft["repeats"],
        workers_curve=fewer_workers(draft),
        native_arm="native" not in absent,
        wide_arm="wide" not in absent,
        tuned_ray="tuned" not in absent,
        absent_arms=absent,
        keep_baseline=draft["keepBaseline"],
        run_timeout_minutes=draft["runTimeoutMinutes"],
        allow_oversubscription=allowed,
        ray_dashboard=draft["rayDashboard"],
        price_cpu_hour=draft["priceCpuHour"],
        price_gib_hour=draft["priceGibHour"],
        dataset_path=str(dataset_path) if dataset_path else None,
        worker_memory_bytes=draft["workerMemory"].bytes,
        oversubscription=shared[0] if shared and allowed else None,
        given=draft.changed(),
        warnings=(*(shared if allowed else ()), *filter(None, [sharing_of(draft)]), *map(str, refused)),
        refused_at_up=tuple(map(str, refused)),
        cluster=_cluster(draft) if draft.target != "local" else None,
    )


def _recipe(draft: Draft) -> Recipe:
    kind = named(draft["workload"]).recipe
    values = {key: draft[key] for key in kind.settings()}
    if "dataset" in values:
        # A gradient computed in bfloat16 has no more digits to send, so workers exchange what they compute in
        values["gradientPrecision"] = draft["gradientPrecision"] or draft["precision"]
        values["dataset"] = dataset_of(draft)
    return kind.from_dict(values)


def _cluster(draft: Draft) -> ClusterSettings:
    values = {its.name: draft[camel(its.name)] for its in fields(ClusterSettings)}
    kubeconfig = path_of(draft, "kubeconfig")
    return ClusterSettings(
        **values
        | {
            "minikube_profile": profile_of(draft),
            "kubeconfig": str(kubeconfig) if kubeconfig else None,
            "node_selector": dict(draft["nodeSelector"]),
            "tolerations": tuple(draft["tolerations"]),
        }
    )
