"""The settings of a stack: parsed, checked together, typed. The only module that reads Pulumi's config.

A preview reports everything that is wrong in one message. Checks between the settings of every workload are here:
workers, seeds, tracking. Not here: the values that a key allows (`infra.settings.table`), the checks of storage
(`infra.settings.storage`), of one workload (`infra.settings.cnn`) or one place, and what a place does with the settings
(`infra.places`).
"""

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol
from urllib.parse import urlsplit

import pulumi
from pulumi.runtime.config import get_config_env

from infra.settings import offline, pod_template, storage
from infra.settings.cluster import ClusterSettings
from infra.settings.draft import Check, Draft, run_checks
from infra.settings.facts import Facts, of_stack
from infra.settings.key import CLUSTER, RAY, Target
from infra.settings.problem import InvalidSettingsError, Problem, set_line
from infra.settings.sections import OFF, ON, ComparisonSettings, RaySettings, RunSettings
from infra.settings.storage import Storage, storage_of
from infra.settings.table import of_workload, read
from training.contract.arms import ARMS, Arm
from training.contract.recipe import Recipe, canonical
from training.contract.repeats import FIRST_REPEATS
from training.contract.workload import Installed, named
from training.machine.command_line import again, rwi


class SettingsError(pulumi.RunError):
    """Raised if settings cannot be used. Pulumi prints the message without a traceback, and fails."""


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What a place says about settings that passed every check."""

    absent: Mapping[str, str] = field(default_factory=dict)
    """Why an arm cannot be measured in this place, by the arm's name."""
    unfit: Sequence[Problem] = ()
    """What does not fit into the place."""
    remarks: Sequence[str] = ()
    """Remarks about the settings that are no reason to refuse them; each is a sentence."""


class Judge(Protocol):
    """The part of a place in judging settings. It depends only on the settings and the facts, because a preview may see
    no cluster, and must show the same runs that the update executes."""

    @property
    def checks(self) -> tuple[Check, ...]:
        """Return the checks of this place, which run in addition to `CHECKS`."""

    def installed(self, requirements: str | None, image: str | None) -> Installed:
        """Return the packages in the image of the place's pods, which is `image`, or built with `requirements`; None if
        runs use this machine's packages."""

    def judge(self, draft: Draft, arms: Sequence[str], optional: Collection[str]) -> Judgement:
        """Return the place's judgement of settings that passed every check.

        `arms` are the arms to measure; `optional` are the arms that the place may leave out.
        """


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a stack: what to measure, and how."""

    stack: str
    target: Target
    recipe: Recipe
    """The recipe with all derived values, such as `dataset`."""
    run: RunSettings
    comparison: ComparisonSettings
    workers_curve: tuple[int, ...]
    """The other numbers of workers with which Ray is measured, ascending; each is smaller than the recipe's."""
    arms: tuple[str, ...]
    """The arms to measure, in the order of presentation."""
    absent_arms: Mapping[str, str]
    """Why an arm is not measured, by its name. Variants are left out: nobody misses one that was not asked for."""
    ray_dashboard: bool
    dataset_path: str | None
    """The absolute path of an existing folder, or an address in storage; None if `datasetPath` is not set."""
    data_in_storage: bool
    """Whether `dataset_path` is an address in storage."""
    storage: Storage | None
    """Where runs keep files that outlive them; None if no storage is set."""
    oversubscription: str | None
    """The verdict's sentence about cores that workers share because the user allowed it; None if they share none."""
    requirements: str | None
    """The absolute path of a file with further packages for the training image; None without such a file."""
    secret_environment: Mapping[str, str] = field(repr=False)
    """The script's secret variables, with their values."""
    secret_digest: str | None
    """The salted scrypt hash of the secret variables, by which a change is detected; None without secret variables."""
    commands: tuple[str, ...]
    """The command of each arm, or why it is absent, for reviewers; empty if arms run the project's own programs."""
    explicit: dict[str, str]
    """The texts of the keys whose values differ from their defaults, without secrets."""
    warnings: tuple[str, ...]
    """Warnings for the program to log."""
    refused_at_up: tuple[str, ...]
    """Warnings about this machine that stop an update; a preview may run on another machine."""
    cluster: ClusterSettings | None
    """The settings of a Kubernetes cluster; None on targets without such a cluster."""
    ray: RaySettings | None
    """The settings of an existing Ray cluster; None if the measurement starts Ray itself."""

    @property
    def of_cluster(self) -> ClusterSettings:
        """Return the settings of a Kubernetes cluster. Call this only for a target with such a cluster."""
        assert self.cluster is not None, f"target {self.target} has no cluster"  # noqa: S101
        return self.cluster

    @property
    def of_ray(self) -> RaySettings:
        """Return the settings of an existing Ray cluster. Call this only for the target `ray`."""
        assert self.ray is not None, f"target {self.target} has no existing Ray cluster"  # noqa: S101
        return self.ray


def load() -> Draft:
    """Return the unchecked settings of the deployed stack."""
    config = pulumi.Config()
    prefix = f"{config.name}:"
    set_keys = {key.removeprefix(prefix) for key in get_config_env() if key.startswith(prefix)}
    values = {key: text for key in set_keys if (text := config.get(key)) is not None}
    return read(values, of_stack())


def accepted(draft: Draft, place: Judge) -> Settings:
    """Return settings that the stack can be deployed with. Raise SettingsError, listing all problems, if it cannot."""
    try:
        settings = checked(draft, place)
    except InvalidSettingsError as error:
        raise SettingsError(str(error)) from None
    if settings.refused_at_up and not pulumi.runtime.is_dry_run():
        raise SettingsError(
            "\n\n".join(["The measurement does not fit this machine; nothing was changed.", *settings.refused_at_up])
        )
    return settings


def checked(draft: Draft, place: Judge) -> Settings:
    """Return settings that passed every check. Raise InvalidSettingsError, which lists all problems, if any fails."""
    own, installed = of_workload(draft.workload), _installed(draft, place)
    checks = (*CHECKS, *own.checks, *own.checks_where(installed), *place.checks)
    problems = [*draft.problems, *run_checks(draft, checks)]
    if problems:
        raise InvalidSettingsError(draft.facts.stack, problems)
    return _settings(draft, place, installed)


def _settings(draft: Draft, place: Judge, installed: Installed) -> Settings:
    own, allowed, recipe = of_workload(draft.workload), draft.run.allow_oversubscription, recipe_of(draft)
    secret = own.secrets(draft)
    why_not, judgement = _judged(draft, place, recipe, installed)
    absent = {arm: why for arm, why in why_not.items() if ARMS[arm].usual_role != "variant"}
    permitted = [shortage.what for shortage in judgement.unfit if shortage.liftable and allowed]
    refused = [shortage.advice() for shortage in judgement.unfit if not (shortage.liftable and allowed)]
    data = draft.values.get("datasetPath")
    dataset_path = draft.in_storage(data) or draft.path(data)
    return Settings(
        stack=draft.facts.stack,
        target=draft.target,
        recipe=recipe,
        secret_environment=secret,
        secret_digest=secret_digest(secret, draft.facts) if secret else None,
        requirements=_requirements(draft),
        commands=_commands(recipe, why_not, absent, installed),
        cluster=cluster_of(draft) if draft.target in CLUSTER else None,
        run=draft.run,
        comparison=draft.comparison,
        workers_curve=_fewer_workers(draft),
        arms=tuple(arm for arm in ARMS if arm not in why_not),
        absent_arms=absent,
        ray_dashboard=bool(draft.values.get("rayDashboard")),
        dataset_path=str(dataset_path) if dataset_path else None,
        data_in_storage=draft.in_storage(data) is not None,
        storage=storage_of(draft) if draft.storage.address else None,
        oversubscription=permitted[0] if permitted else None,
        explicit=draft.changed(),
        warnings=(*permitted, *judgement.remarks, *own.remarks(draft, installed), *refused),
        refused_at_up=tuple(refused),
        ray=draft.ray if draft.target in RAY else None,
    )


def _judged(draft: Draft, place: Judge, recipe: Recipe, installed: Installed) -> tuple[dict[str, str], Judgement]:
    """Return why arms are not measured, by the arm's name, and the place's judgement of the other arms."""
    why_not = named(recipe.workload).why_not
    reasons = {name: why_not(recipe, name, installed) or _why_unwanted(arm, draft) for name, arm in ARMS.items()}
    possible = {name: arm for name, arm in ARMS.items() if not reasons[name]}
    switches = {name: (arm.switch, draft.values.get(arm.switch)) for name, arm in possible.items() if arm.switch}
    off = {name: f"{switch} is off" for name, (switch, value) in switches.items() if not value}
    optional = [name for name, (_, value) in switches.items() if value != ON and ARMS[name].usual_role != "variant"]
    judgement = place.judge(draft, [name for name in possible if name not in off], optional)
    reasons |= {**off, **judgement.absent}
    return {arm: reason for arm, reason in reasons.items() if reason}, judgement


def _why_unwanted(arm: Arm, draft: Draft) -> str:
    """Return why an arm of another workload, or with all CPUs, is not wanted; empty for others, or if it is."""
    if arm.only not in ("", draft.recipe.workload):
        return f"it is of the workload {arm.only}"
    if not arm.all_cpus:
        return ""
    if draft.values[arm.switch] == OFF:
        return f"{arm.switch} is off"
    return "with one worker it is the baseline" if draft.recipe.workers == 1 else ""


def _requirements(draft: Draft) -> str | None:
    path = draft.path(draft.values.get("requirements"))
    return str(path) if path else None


def _installed(draft: Draft, place: Judge) -> Installed:
    """Return the packages of the image, with those in `requirements` unless another check reports that file."""
    image = draft.values.get("image")
    try:
        return place.installed(_requirements(draft), image)
    except (OSError, ValueError):
        return place.installed(None, image)


def _commands(
    recipe: Recipe, why_not: Collection[str], absent: Mapping[str, str], installed: Installed
) -> tuple[str, ...]:
    command = named(recipe.workload).command
    shown = {arm: command(recipe, arm, installed) for arm in ARMS if arm not in why_not}
    lines = [f"{arm}: {text}" for arm, text in shown.items() if text]
    return (*lines, *(f"{arm} is absent: {why}" for arm, why in absent.items())) if lines else ()


def secret_digest(secret: Mapping[str, str], facts: Facts) -> str:
    """Return the scrypt hash of the secret variables, with the project and the stack as its salt."""
    salt = f"{facts.project}/{facts.stack}".encode()
    return hashlib.scrypt(canonical(dict(secret)).encode(), salt=salt, n=2**14, r=8, p=1, dklen=32).hex()


def recipe_of(draft: Draft) -> Recipe:
    """Return the recipe, with every derived value."""
    derived = of_workload(draft.workload).recipe(draft)
    return type(draft.recipe).from_dict({**draft.recipe.to_dict(), **derived})


def cluster_of(draft: Draft) -> ClusterSettings:
    """Return the settings of a cluster, with every derived value."""
    kubeconfig, (template, _) = draft.path(draft.cluster.kubeconfig), pod_template.read(draft)
    return replace(
        draft.cluster,
        minikube_profile=profile_of(draft),
        kubeconfig=str(kubeconfig) if kubeconfig else None,
        offline=offline.supplies_of(draft),
        pod_template=template,
    )


def profile_of(draft: Draft) -> str:
    """Return the name of the Minikube profile: as set, or made of the project's and the stack's names."""
    return draft.cluster.minikube_profile or f"{draft.facts.project}-{draft.facts.stack}"


def _fewer_workers(draft: Draft) -> tuple[int, ...]:
    """Return the numbers of workers in `workersCurve`, ascending and without the number in `workers`."""
    return tuple(sorted(set(draft.run.workers_curve) - {draft.recipe.workers}))


def _curve_ends_at_workers(draft: Draft) -> Iterator[Problem]:
    curve, workers = draft.run.workers_curve, draft.recipe.workers
    if not curve or (_fewer_workers(draft) and max(curve) <= workers):
        return
    raised = [set_line("workers", max(curve))] if len(set(curve)) > 1 else []
    fitting = [number for number in _fewer_workers(draft) if number < workers] or [1]
    lowered = [set_line("workersCurve", ",".join(map(str, (*fitting, workers))))] if workers > 1 else []
    yield Problem(
        f"{draft.shown('workersCurve')} with {draft.shown('workers')}",
        "none, or numbers up to workers with at least one below it",
        (*lowered, *raised, set_line("workersCurve", "none")),
        why="the curve ends at `workers`, whose runs the comparison has anyway",
    )


def _seeds_stay_valid(draft: Draft) -> Iterator[Problem]:
    rule, repeats = draft.keys["seed"].rule, draft.run.repeats.most
    try:
        rule.parse(str(draft.recipe.seed + repeats - 1))
    except ValueError:
        yield Problem(
            f"{draft.shown('seed')} with {draft.shown('repeats')}",
            f"{rule.allowed}, for the last repeat too",
            (set_line("seed", draft.recipe.seed - repeats + 1),),
            why=f"repeat {repeats} uses seed + {repeats - 1}",
        )


def _auto_measures_all_arms_anew(draft: Draft) -> Iterator[Problem]:
    """Yield a problem for each setting that cannot be combined with `repeats auto`, whose intervals are valid only for
    whole repeats of all arms."""
    if not draft.run.repeats.is_auto:
        return
    others = {
        "keepBaseline": (draft.run.keep_baseline, "a kept baseline would be looked at in two measurements", "false"),
        "workersCurve": (bool(draft.run.workers_curve), "no rule says yet when the curve is decided", "none"),
    }
    for key, (is_set, why, off) in others.items():
        if is_set:
            yield Problem(
                f"{draft.shown('repeats')} with {draft.shown(key)}",
                f"{key} {off}, or a number of repeats",
                (set_line(key, off), set_line("repeats", FIRST_REPEATS)),
                why=why,
            )


def _tracking_is_an_address(draft: Draft) -> Iterator[Problem]:
    """Yield a problem if `trackingUri` is more than an address. The message does not show the value, because the rest
    may be a credential, and the comparison is public."""
    key = draft.keys["trackingUri"]
    if key.name in draft.facts.secret_keys:
        yield Problem(
            f"{key.name} is set with --secret", key.rule.allowed,
            (f"pulumi config rm {key.name} && {set_line(key.name, key.example)}",),
            why="the comparison says to which server it was written",
        )  # fmt: skip
        return
    address = _address_alone(draft.comparison.tracking_uri or "")
    if address != (draft.comparison.tracking_uri or ""):
        yield Problem(
            f"{key.name} holds more than the address of a server", key.rule.allowed,
            (set_line(key.name, address or key.example),),
            why="MLflow's client takes user and password from MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, "
            f"a token from MLFLOW_TRACKING_TOKEN: `export` them before `{again('up')}`",
        )  # fmt: skip


def _address_alone(address: str) -> str:
    """Return the address's scheme, host, port and path; empty if the address has no host, or an invalid port."""
    try:
        parts = urlsplit(address)
        usable = parts.hostname and (parts.port is None or parts.port)
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if usable else ""


def _tracking_is_installed(draft: Draft) -> Iterator[Problem]:
    if draft.comparison.tracking_uri and not draft.facts.tracking_installed:
        yield Problem(
            draft.shown("trackingUri"), "not set, unless MLflow's client is installed",
            ("uv sync --frozen --inexact --extra tracking", "pulumi config rm trackingUri"),
            why=f"`{rwi('up')}` installs it for a stack that sets this key",
        )  # fmt: skip


def _gpus_exist_for_their_keys(draft: Draft) -> Iterator[Problem]:
    if draft.recipe.worker_gpus:
        return
    for key in (name for name, key in draft.keys.items() if "workerGpus" in key.needs and draft.is_set(name)):
        of_pods = set(draft.keys[key].targets) <= set(CLUSTER)
        if draft.applies(key) or not of_pods:
            why = f"no {'pod' if of_pods else 'run'} has a GPU, so it would have no effect"
            yield Problem(draft.shown(key), "not set without workerGpus", (f"pulumi config rm {key}",), why=why)


def _spot_keys_come_together(draft: Draft) -> Iterator[Problem]:
    values = {
        "priceSpotFactor": draft.comparison.price_spot_factor,
        "interruptionsPerHour": draft.comparison.interruptions_per_hour,
    }
    missing = [key for key, value in values.items() if value is None]
    if len(missing) == 1:
        (present,) = values.keys() - missing
        yield Problem(
            f"{draft.shown(present)} without {missing[0]}",
            "both, or none",
            (set_line(missing[0], draft.keys[missing[0]].example), f"pulumi config rm {present}"),
            why="what spot capacity costs depends on its price and on how often it is taken away",
        )


CHECKS: tuple[Check, ...] = (
    _curve_ends_at_workers,
    _seeds_stay_valid,
    _auto_measures_all_arms_anew,
    storage.problems,
    _tracking_is_an_address,
    _tracking_is_installed,
    _gpus_exist_for_their_keys,
    _spot_keys_come_together,
)
