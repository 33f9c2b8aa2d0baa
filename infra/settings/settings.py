"""The settings of a stack: parsed, checked together, typed. The only module that reads Pulumi's config.

A preview reports everything that is wrong in one message. Not here: the values that a key allows
(`infra.settings.table`), the checks between keys (`infra.settings.checks`), and what a place does with the settings
(`infra.places`).
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

import psutil
import pulumi
import yaml
from pulumi.runtime.config import get_config_env, get_config_secret_keys_env

from infra.settings import offline, pod_template
from infra.settings.checks import CHECKS, fewer_workers
from infra.settings.cluster import ClusterSettings
from infra.settings.draft import Check, Draft, Facts, run_checks
from infra.settings.key import CLUSTER, RAY, Target
from infra.settings.problem import InvalidSettingsError, Problem, stack_file
from infra.settings.reading import read
from infra.settings.sections import OFF, ON, ComparisonSettings, RaySettings, RunSettings
from infra.settings.storage import Storage, storage_of
from infra.settings.table import of_workload
from training.contract import provenance
from training.contract.arms import ARMS, Arm
from training.contract.recipe import Recipe, canonical
from training.contract.workload import Installed, named
from training.machine import cpu, topology


class SettingsError(pulumi.RunError):
    """Settings that cannot be used. Pulumi prints the message without a traceback, and fails."""


class Judge(Protocol):
    """A place's checks of the settings. They use the settings and facts alone."""

    @property
    def checks(self) -> tuple[Check, ...]:
        """The checks of this place in addition to `CHECKS`."""

    def installed(self, requirements: str | None, image: str | None) -> Installed:
        """Return the packages of its pods' image, built with these or this one; None if runs use this machine's."""

    def why_not(self, arm: str, draft: Draft) -> str:
        """Return why an arm that is not switched off cannot be measured there; empty if it can."""

    def unfit(self, draft: Draft) -> list[Problem]:
        """Return what does not fit there."""

    def remarks(self, draft: Draft) -> list[str]:
        """Return remarks about the settings that are no reason to refuse them: a sentence each."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a stack: what to measure, and how."""

    stack: str
    target: Target
    recipe: Recipe
    """The recipe with `dataset` resolved."""
    run: RunSettings
    comparison: ComparisonSettings
    workers_curve: tuple[int, ...]
    """Other numbers of workers, ascending, with which Ray is measured: all below the recipe's."""
    arms: tuple[str, ...]
    """The arms to measure, in the order of presentation."""
    absent_arms: Mapping[str, str]
    """Why an arm is not measured, by its name."""
    ray_dashboard: bool
    dataset_path: str | None
    """An absolute path of an existing folder, or an address in storage."""
    data_in_storage: bool
    """Whether `dataset_path` is an address in storage."""
    storage: Storage | None
    """Where runs keep what outlives them; None if nothing does."""
    oversubscription: str | None
    """The verdict's sentence about cores that are shared by permission; None if none are."""
    requirements: str | None
    """The absolute path of a file with packages of the training image in addition to the project's."""
    secret_environment: Mapping[str, str] = field(repr=False)
    """Secret variables of a script."""
    secret_digest: str | None
    """Salted scrypt hash of the secret variables, to detect a change. None without secrets."""
    commands: tuple[str, ...]
    """The command of each arm, or why it is absent, for reviewers of a preview; empty if arms run the project's own."""
    explicit: dict[str, str]
    """The texts of the keys that are not their defaults; without secrets."""
    warnings: tuple[str, ...]
    """Warnings for the program to log."""
    refused_at_up: tuple[str, ...]
    """Warnings about this machine that stop an update; a preview may run on another machine."""
    cluster: ClusterSettings | None
    """The settings of a Kubernetes cluster; None on other targets."""
    ray: RaySettings | None
    """The settings of an existing Ray cluster; None if Ray is started for the measurement."""

    @property
    def of_cluster(self) -> ClusterSettings:
        """Return the settings of a cluster; only for a target that has one."""
        assert self.cluster is not None, f"target {self.target} has no cluster"  # noqa: S101
        return self.cluster

    @property
    def of_ray(self) -> RaySettings:
        """Return the settings of an existing Ray cluster; only for a target that has one."""
        assert self.ray is not None, f"target {self.target} has no existing Ray cluster"  # noqa: S101
        return self.ray


def load() -> Draft:
    """Return the settings of the deployed stack, as they are set."""
    config = pulumi.Config()
    prefix = f"{config.name}:"
    set_keys = {key.removeprefix(prefix) for key in get_config_env() if key.startswith(prefix)}
    values = {key: text for key in set_keys if (text := config.get(key)) is not None}
    return read(values, _facts())


def accepted(draft: Draft, place: Judge) -> Settings:
    """Return settings that a stack can be deployed with. Raises SettingsError that lists all problems."""
    try:
        settings = checked(draft, place)
    except InvalidSettingsError as error:
        raise SettingsError(str(error)) from None
    if settings.refused_at_up and not pulumi.runtime.is_dry_run():
        raise SettingsError(
            "\n\n".join(["The measurement does not fit this machine; nothing was changed.", *settings.refused_at_up])
        )
    return settings


def _facts() -> Facts:
    """Return the facts of the stack that the engine runs this program for."""
    prefix = f"{pulumi.get_project()}:"
    secret = frozenset(key.removeprefix(prefix) for key in get_config_secret_keys_env())
    return machine_facts(pulumi.get_project(), pulumi.get_stack(), secret, get_config_env())


def machine_facts(project: str, stack: str, secret_keys: frozenset[str], configured: Iterable[str] = ()) -> Facts:
    """Return the facts of a stack on this machine; `configured`: all keys that the engine passes, or a stack's file
    holds."""
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
        tracking_installed=find_spec("mlflow") is not None,
        cpu_quota=host.cpu_quota,
        cores_by_kind=topology.cores_by_kind(topology.read(provenance.allowed_cpus()) or ()),
        lacks_bfloat16=cpu.lacks_bfloat16(),
        declared=declared(provenance.PROJECT),
        elsewhere=frozenset(key for key in configured if key.rpartition(":")[0] not in ("", project)),
        set_twice=set_twice(provenance.PROJECT / stack_file(stack), project),
    )


def declared(folder: Path) -> dict[str, str]:
    """Return the keys that the Pulumi.yaml in a folder declares, with their defaults.

    Other entries are skipped: a `value`, which Pulumi writes for other projects' keys, or a bare one.
    """
    config = yaml.safe_load((folder / "Pulumi.yaml").read_text(encoding="utf-8"))["config"]
    entries = {key: entry for key, entry in config.items() if isinstance(entry, dict)}
    return {key: str(entry["default"]) for key, entry in entries.items() if "default" in entry}


def set_twice(file: Path, project: str) -> tuple[str, ...]:
    """Return the keys that a stack's file has both bare and with the project's name: Pulumi takes either, by chance."""
    try:
        keys = set((yaml.safe_load(file.read_text(encoding="utf-8")) or {}).get("config") or {})
    except (OSError, ValueError, AttributeError, TypeError, yaml.YAMLError):  # no file, or none that Pulumi reads
        return ()
    return tuple(sorted(key for key in keys if f"{project}:{key}" in keys))


def checked(draft: Draft, place: Judge) -> Settings:
    """Return settings that passed every check. Raises InvalidSettingsError that lists all problems."""
    own = of_workload(draft.workload)
    checks = (*CHECKS, *own.checks, *own.checks_where(_installed(draft, place)), *place.checks)
    problems = [*draft.problems, *run_checks(draft, checks)]
    if problems:
        raise InvalidSettingsError(draft.facts.stack, problems)
    return _settings(draft, place)


def _settings(draft: Draft, place: Judge) -> Settings:
    unfit, allowed, absent = place.unfit(draft), draft.run.allow_oversubscription, absent_arms(draft, place)
    permitted = [shortage.what for shortage in unfit if shortage.liftable and allowed]
    refused = [shortage.advice() for shortage in unfit if not (shortage.liftable and allowed)]
    data, own = draft.values.get("datasetPath"), of_workload(draft.workload)
    dataset_path = draft.in_storage(data) or draft.path(data)
    recipe, secret = recipe_of(draft), own.secrets(draft)
    return Settings(
        stack=draft.facts.stack,
        target=draft.target,
        recipe=recipe,
        secret_environment=secret,
        secret_digest=secret_digest(secret, draft.facts) if secret else None,
        requirements=_requirements(draft),
        commands=_commands(recipe, absent, _installed(draft, place)),
        run=draft.run,
        comparison=draft.comparison,
        workers_curve=fewer_workers(draft),
        arms=tuple(arm for arm in ARMS if arm not in absent),
        absent_arms=absent,
        ray_dashboard=bool(draft.values.get("rayDashboard")),
        dataset_path=str(dataset_path) if dataset_path else None,
        data_in_storage=draft.in_storage(data) is not None,
        storage=storage_of(draft) if draft.storage.address else None,
        oversubscription=permitted[0] if permitted else None,
        explicit=draft.changed(),
        warnings=(*permitted, *place.remarks(draft), *refused),
        refused_at_up=tuple(refused),
        cluster=cluster_of(draft) if draft.target in CLUSTER else None,
        ray=draft.ray if draft.target in RAY else None,
    )


def _requirements(draft: Draft) -> str | None:
    path = draft.path(draft.values.get("requirements"))
    return str(path) if path else None


def _installed(draft: Draft, place: Judge) -> Installed:
    """Return the image's packages, with those of `requirements` if the file can be used: another check reports it."""
    image = draft.values.get("image")
    try:
        return place.installed(_requirements(draft), image)
    except (OSError, ValueError):
        return place.installed(None, image)


def _commands(recipe: Recipe, absent: Mapping[str, str], installed: Installed) -> tuple[str, ...]:
    command = named(recipe.workload).command
    shown = {arm: command(recipe, arm, installed) for arm in ARMS if arm not in absent}
    lines = [f"{arm}: {text}" for arm, text in shown.items() if text]
    return (*lines, *(f"{arm} is absent: {why}" for arm, why in absent.items())) if lines else ()


def secret_digest(secret: Mapping[str, str], facts: Facts) -> str:
    """Return the scrypt hash of the variables, with the stack as salt, so that stacks have different ones for one
    value."""
    salt = f"{facts.project}/{facts.stack}".encode()
    return hashlib.scrypt(canonical(dict(secret)).encode(), salt=salt, n=2**14, r=8, p=1, dklen=32).hex()


def absent_arms(draft: Draft, place: Judge) -> dict[str, str]:
    """Return why arms are not measured, by their names; measured arms are left out.

    A preview may see no cluster, and must show the runs that the update executes: so no node is asked.
    """
    recipe = recipe_of(draft)
    why_not, installed = named(recipe.workload).why_not, _installed(draft, place)
    reasons = {name: why_not(recipe, name, installed) or _why_absent(arm, draft, place) for name, arm in ARMS.items()}
    return {arm: reason for arm, reason in reasons.items() if reason}


def _why_absent(arm: Arm, draft: Draft, place: Judge) -> str:
    if not arm.switch:
        return ""
    if arm.all_cpus:
        return _why_not_with_all_cpus(arm, draft, place)
    return place.why_not(arm.name, draft) or ("" if draft.values.get(arm.switch) else f"{arm.switch} is off")


def _why_not_with_all_cpus(arm: Arm, draft: Draft, place: Judge) -> str:
    if draft.values[arm.switch] == OFF:
        return f"{arm.switch} is off"
    if draft.recipe.workers == 1:
        return "with one worker it is the baseline"
    return "" if draft.values[arm.switch] == ON else place.why_not(arm.name, draft)


def recipe_of(draft: Draft) -> Recipe:
    """Return the recipe, with every derived value."""
    return type(draft.recipe).from_dict({**draft.recipe.to_dict(), **of_workload(draft.workload).recipe(draft)})


def cluster_of(draft: Draft) -> ClusterSettings:
    """Return the settings of a cluster, with every derived value."""
    kubeconfig = draft.path(draft.cluster.kubeconfig)
    return replace(
        draft.cluster,
        minikube_profile=profile_of(draft),
        kubeconfig=str(kubeconfig) if kubeconfig else None,
        offline=offline.supplies_of(draft),
        pod_template=pod_template.template_of(draft),
    )


def profile_of(draft: Draft) -> str:
    """Return the Minikube profile: as set, or named after project and stack."""
    return draft.cluster.minikube_profile or f"{draft.facts.project}-{draft.facts.stack}"
