"""The target `local`: runs are processes of this machine, one after another."""

import math
import os
import shutil
import sys
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import psutil
import pulumi

from infra.doctor import GIB, Finding
from infra.places.local.gpus import unusable_here
from infra.places.local.measurement import ProcessMeasurement, common
from infra.places.local.run import TrainingRun
from infra.plan import RunPlan, Site, storage_of
from infra.settings.draft import Check, Draft
from infra.settings.key import Target
from infra.settings.problem import Problem, set_line
from infra.settings.settings import Judgement, Settings
from infra.storage import refuse_unusable
from training.contract.arms import counted
from training.contract.provenance import PROJECT
from training.contract.recipe import canonical
from training.contract.workload import Installed, named
from training.machine import output

DISK_BYTES = 4 * 10**9
"""The free disk space in bytes for the environment, the CLI and their download, which took 2.9 GB."""
NETWORK_PROBE = ("-m", "training.machine.isolation")
"""The arguments of the Python process that tries network isolation, which only one without threads can."""


class Local:
    """This machine as a place. It exists already, so nothing is created or cleaned up."""

    target: Target = "local"
    trains_here = True
    holds_machine = False  # each run waits for it by itself

    @property
    def checks(self) -> tuple[Check, ...]:
        """Return the checks of this target."""
        return (
            _cpus_are_whole,
            _cores_suffice,
            _input_has_cpus,
            _dashboard_can_be_served,
        )

    def installed(self, requirements: str | None, image: str | None) -> Installed:  # noqa: ARG002
        """Return None, because there is no image."""
        return None

    def judge(self, draft: Draft, arms: Sequence[str], optional: Collection[str]) -> Judgement:  # noqa: ARG002
        """Return the judgement that every arm is measured. It reports too few CPUs or GPUs, and ports that other
        machines reach, unless settings permit them.

        Its remarks say which workers share cores, or get slower ones, although each has its own CPUs, and which
        instructions the CPU lacks.
        """
        shared = _oversubscription(draft)
        no_gpus = unusable_here(draft) if draft.recipe.worker_gpus else []
        unfit = [*([Problem(shared, liftable=True)] if shared else []), *no_gpus, *_open_ports(draft)]
        return Judgement(unfit=unfit, remarks=[text for text in [_sharing(draft), _emulated(draft)] if text])

    def site(self, settings: Settings) -> Site:  # noqa: ARG002
        """Return the site, whose runs are on this machine. Ray is embedded in its run, so it reserves nothing in
        addition, and is never idle."""
        return Site(trains_here=True)

    def survey(self, settings: Settings) -> Site:
        """Check the storage, have the workload prepare what its runs need, and return the site. Raise RunError if
        either fails. A preview only returns the site."""
        if not pulumi.runtime.is_dry_run():
            if settings.storage:
                refuse_unusable(settings)
            _prepare(settings)
        return self.site(settings)

    def declare(self, settings: Settings, site: Site, runs: Sequence[RunPlan]) -> ProcessMeasurement:  # noqa: ARG002
        """Return the component that declares the runs."""
        properties = {plan.name: _properties(settings, plan) for plan in runs}
        return ProcessMeasurement("ray-worth-it:local:Measurement", TrainingRun, properties)

    def doctor(self, settings: Settings) -> Iterator[Finding]:
        """Return the findings about this machine."""
        return findings(settings)


def _prepare(settings: Settings) -> None:
    try:
        named(settings.recipe.workload).prepare(settings.recipe, pulumi.log.info)
    except (ValueError, OSError) as error:
        raise pulumi.RunError(f"nothing was changed: {error}") from None


def _properties(settings: Settings, plan: RunPlan) -> dict[str, Any]:
    """Return the properties for `TrainingRunProvider`."""
    secret = pulumi.Output.secret(canonical(dict(settings.secret_environment))) if settings.secret_environment else None
    command = named(plan.recipe.workload).command(plan.recipe, plan.arm, None)
    return {
        **({"command": command} if command else {}),  # read by nobody: a preview shows what is to be run
        **({"secretEnvironment": secret} if secret else {}),
        **_of_storage(settings),
        "storage": storage_of(settings, plan),
        **common(settings, plan),
        "datasetPath": settings.dataset_path or "",
        "rayDashboard": settings.ray_dashboard,
    }


def _of_storage(settings: Settings) -> dict[str, Any]:
    """Return the properties that give a run access to its storage."""
    storage = settings.storage
    if storage is None:
        return {}
    variables, credentials = storage.variables(), storage.credentials
    return {
        **({"storageEnvironment": canonical(variables)} if variables else {}),
        **({"storageCredentials": pulumi.Output.secret(canonical(dict(credentials)))} if credentials else {}),
        **({"storageRole": storage.role} if storage.role else {}),
    }


def _open_ports(draft: Draft) -> list[Problem]:
    """Return a problem if other machines can reach a run's ports. That is so with storage in a bucket, because a run in
    a network of its own could not reach the bucket."""
    if "://" not in (draft.storage.address or "") or draft.local.allow_open_ports:
        return []
    what = (
        f"{draft.shown('storage')}: to reach a bucket a run needs this machine's network, and from there its ports are"
        " reached. TensorFlow's and Ray's run what they are sent and ask for no password, and the bucket's keys are in"
        " the same process"
    )
    return [
        Problem(
            what, fixes=(set_line("storage", "../kept"), f"{set_line('allowOpenPorts', 'true')}    (behind a firewall)")
        )
    ]


def _oversubscription(draft: Draft) -> str:
    """Return a text about the CPUs that the workers share; empty if each worker has its own CPUs."""
    cpus = _cpus_at_a_time(draft)
    if draft.recipe.workers * _of_worker(draft) <= cpus:
        return ""
    limit = "the CPU quota of its cgroup" if cpus < draft.facts.cpus_allowed else "this machine"
    return f"{_workers(draft)} share the {counted(cpus, 'CPU')} that {limit} allows"


def _emulated(draft: Draft) -> str:
    if draft.values.get("precision") != "bfloat16" or not draft.facts.lacks_bfloat16:
        return ""
    return (
        "this CPU has no instructions for bfloat16 (avx512_bf16, amx_bf16): their emulation takes many times as long as"
        f" float32. {set_line('precision', 'float32')}"
    )


def _sharing(draft: Draft) -> str:
    """Return a text about cores that workers share, or slower cores that they get, although each worker has its own
    CPUs; empty if neither is so.

    Sharing cores is never refused, because two virtual CPUs are often one core, and the measurement reports it.
    """
    recipe, kinds = draft.recipe, draft.facts.cores_by_kind
    wanted = recipe.workers * math.ceil(_of_worker(draft))
    if not kinds or wanted <= kinds[0] or wanted > draft.facts.cpus_allowed:
        return ""
    cores, among = sum(kinds), f"of the {draft.facts.cpus_allowed} CPUs that this machine allows"
    if wanted <= cores:
        return (
            f"{_workers(draft)} need {wanted} physical cores, and {among} only {kinds[0]} are on cores of the fastest"
            " kind: all workers go at the pace of the slowest, and the verdict says so"
        )
    return (
        f"{_workers(draft)} use {wanted} CPUs on the {counted(cores, 'physical core')} {among}:"
        " two threads of one core compute less than two cores, and the verdict says so"
    )


def _of_worker(draft: Draft) -> float:
    """Return the number of CPUs of a worker, including the CPUs for reading its data."""
    return draft.recipe.worker_cpus * draft.recipe.processes_each + draft.recipe.input_cpus


def _workers(draft: Draft) -> str:
    recipe = draft.recipe
    each = f"trialWorkers {recipe.processes_each} and " if recipe.processes_each > 1 else ""
    of_input = f" and dataCpus {recipe.input_cpus}" if recipe.input_cpus else ""
    return f"{counted(recipe.workers, 'worker')} with {each}workerCpus {recipe.worker_cpus:g}{of_input}"


def _cpus_at_a_time(draft: Draft) -> float:
    """Return the number of CPUs that the workers can use at a time: those that the machine or a quota allows."""
    return min(draft.facts.cpus_allowed, draft.facts.cpu_quota or math.inf)


def _cpus_are_whole(draft: Draft) -> Iterator[Problem]:
    cpus = draft.recipe.worker_cpus
    if cpus != int(cpus):
        yield Problem(
            draft.shown("workerCpus"),
            "a whole number on target local",
            (set_line("workerCpus", math.ceil(cpus)),),
            why="workers are pinned to whole CPUs on target local",
        )


def _cores_suffice(draft: Draft) -> Iterator[Problem]:
    shared = _oversubscription(draft)
    if not shared or draft.run.allow_oversubscription or draft.recipe.input_cpus:
        return
    cores, workers, each = int(_cpus_at_a_time(draft)), draft.recipe.workers, draft.recipe.processes_each
    cpus = math.ceil(_of_worker(draft))
    if cores >= cpus:
        less = [set_line("workers", cores // cpus)]
    elif each > 1:
        less = [set_line("trialWorkers", 1)]
    else:  # a quota may be less than the CPU of one worker
        less = [f"{set_line('workers', min(workers, cores))} && {set_line('workerCpus', 1)}"] if cores else []
    names = ("workers", "workerCpus", *(("trialWorkers",) if each > 1 else ()))
    yield Problem(
        f"{draft.shown(names[0])} with {' and '.join(map(draft.shown, names[1:]))}",
        f"{' × '.join(names)} of at most {_cpus_at_a_time(draft):g}",
        (*less, set_line("allowOversubscription", "true")),
        why=f"{shared}, so they would slow each other down; with allowOversubscription the verdict says so",
    )


def _input_has_cpus(draft: Draft) -> Iterator[Problem]:
    """Yield a problem if the workers and Ray Data need more CPUs than there are, even with `allowOversubscription`."""
    shared = _oversubscription(draft)
    if not (shared and draft.recipe.input_cpus):
        return
    fitting = int(_cpus_at_a_time(draft) // _of_worker(draft))
    yield Problem(
        f"{draft.shown('workers')} with {draft.shown('dataArguments')}",
        f"workers × (workerCpus + dataCpus) of at most {_cpus_at_a_time(draft):g}",
        (*([set_line("workers", fitting)] if fitting else []), "pulumi config rm dataArguments"),
        why=f"{shared}; Ray Data needs CPUs that no worker holds: where workers had all of them, runs did not end",
    )


def _dashboard_can_be_served(draft: Draft) -> Iterator[Problem]:
    if draft.values.get("rayDashboard") and not draft.facts.dashboard_installed:
        yield Problem(
            draft.shown("rayDashboard"),
            "false, unless the packages of Ray's dashboard are installed",
            (set_line("rayDashboard", "false"), "uv sync --frozen --inexact --extra image"),
        )


def findings(settings: Settings) -> Iterator[Finding]:
    """Yield the findings about this machine. The CPUs were checked with the settings already."""
    recipe = settings.recipe
    cpus = recipe.workers * (recipe.worker_cpus * recipe.processes_each + recipe.input_cpus)
    yield Finding("CPUs", str(os.cpu_count() or 1), f"{cpus:g} for the workers", True)
    memory, needed = psutil.virtual_memory().total, recipe.workers * settings.run.worker_memory.bytes
    fix = "pulumi config set workers 1    (or a smaller workerMemory, if a run's peak memory shows that it is enough)"
    yield Finding("memory", f"{memory / GIB:.1f} GiB", f"{needed / GIB:.1f} GiB for the workers", memory >= needed, fix)
    yield network()
    free = shutil.disk_usage(PROJECT).free
    yield Finding("disk", f"{free / 1e9:.0f} GB free", f"{DISK_BYTES / 1e9:.0f} GB", free >= DISK_BYTES, "Make room")


def network() -> Finding:
    """Return the finding about the isolation of a run's ports. It never fails: a run works without it, and says so."""
    command = [sys.executable, *NETWORK_PROBE]
    tried = output.capture_text(command, cwd=PROJECT)
    reason = tried.stdout.strip()
    reach = f"other machines reach a run's ports: {reason}" if reason else "a run's own: no other machine reaches it"
    return Finding("network", reach, "a run's own, or a firewall", True)
