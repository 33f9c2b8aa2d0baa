"""Differences between a search on this machine and in pods.

Pods share no folder. So each has a copy of the script, and what its trials left is brought to where the result is made:
by Optuna's processes to the first of their pods, by Ray's workers through Ray's own store to the driver.
"""

import io
import json
import os
import shutil
import tempfile
import uuid
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from training.contract.codec import encode
from training.contract.result import RayHead
from training.contract.workload import Installed
from training.launch import entry, rendezvous
from training.launch.entry import Request
from training.launch.environment import JOB_CONFIG
from training.launch.foreign_command import End
from training.launch.rendezvous import Rendezvous
from training.workloads.script import rank_exchange, source
from training.workloads.script.commands import ArmCommand
from training.workloads.script.environment import own_ray, variables_of
from training.workloads.script.execution_site import HeadPod, Machine, Pod, RankPod
from training.workloads.search import brought, trial_environment
from training.workloads.search.brought import Brought
from training.workloads.search.plan import STORES, Plan
from training.workloads.search.recipe import SearchRecipe

PACKAGE, SCRIPT, HOME = "script.zip", "script", "home"
"""Names of the file of the script's package, of the folder of the script's files, and of the home of trials. They are
in the folder of a run whose trials are in Ray's workers."""
SEARCHES = "search-*"
"""Pattern of the names of the folders of such runs."""


class OfProof(Machine):
    """This machine, for the proof of what a trial's ranks do, with the secret variables of trials."""

    def __init__(self) -> None:
        self.secret = trial_environment.secret_variables()


class ThisMachine:
    """This machine: all trials share a folder, and are bound to the CPUs of the arm."""

    image: Installed = None
    """Packages in the image of the search's pods; None on this machine."""

    def __init__(self, request: Request) -> None:
        self._request = request

    @property
    def folder(self) -> Path:
        """Return the folder of the run."""
        return self._request.result.parent

    def recipe(self, recipe: SearchRecipe) -> SearchRecipe:
        """Return the recipe with the path that the script has where the trials run."""
        return recipe

    def variables_of_trials(self, command: ArmCommand, named: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of all trials, with the variables that the user names, but no secret ones."""
        whole = variables_of(command, named, self.folder)
        return {name: value for name, value in whole.items() if name not in own_ray(self.folder)}

    def planned(self, plan: Plan) -> Plan:
        """Return the plan with what depends on this place; on this machine nothing does."""
        return plan

    def cpus(self, plan: Plan) -> int:
        """Return the number of CPUs to which the search is bound; 0 if it is bound to none."""
        return plan.threads * plan.slots * plan.settings.trial_workers

    def variables(self) -> Mapping[str, str]:
        """Return the environment of the search's driver."""
        return {**os.environ, "PYTHONUNBUFFERED": "1"}

    def ended(self, end: End) -> End:
        """Return the end of the run with the start from which the time of the run counts."""
        return end

    def trials(self, plan: Plan) -> Sequence[Brought] | None:
        """Return all trials that have records; None if another process gives the result."""
        return list(brought.of_run(plan))

    def head(self) -> RayHead | None:
        """Return the pod of Ray's head if this process runs in it; None otherwise."""
        return None


class OnePod(ThisMachine):
    """A pod, whose CPU limit holds its trials."""

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self._pod = self._as_pod()
        self.image = self._pod.image

    def _as_pod(self) -> Pod:
        return Pod(self._request)

    def recipe(self, recipe: SearchRecipe) -> SearchRecipe:
        """Return the recipe with the path of this pod's own copy of the script."""
        unpacked = self._pod.recipe(recipe)
        assert isinstance(unpacked, SearchRecipe)  # noqa: S101 (the same class)
        return unpacked

    def variables_of_trials(self, command: ArmCommand, named: Mapping[str, str]) -> dict[str, str]:
        """Return the variables that a trial has in addition to those of its pod."""
        return {**named, **command.variables}

    def planned(self, plan: Plan) -> Plan:
        """Return the plan with the mark that trials run in pods."""
        return replace(plan, in_pods=True)

    def cpus(self, plan: Plan) -> int:  # noqa: ARG002 (as above)
        """Return 0, because the CPU limit of the pod already holds the search."""
        return 0


class OneOfPods(OnePod):
    """One of several pods of Optuna's processes: the first has the study and gives the result, and the others send
    their trials to the first."""

    def __init__(self, request: Request, cluster: Rendezvous) -> None:
        self._cluster = cluster
        super().__init__(request)

    def _as_pod(self) -> Pod:
        self._rank = _Rank(self._request, self._cluster)
        return self._rank

    def planned(self, plan: Plan) -> Plan:
        """Return the plan with the number of this pod and the address at which the processes meet."""
        plan = super().planned(plan)
        return replace(plan, member=self._cluster.rank, meeting=self._cluster.addresses[0])

    def trials(self, plan: Plan) -> Sequence[Brought] | None:
        """Return the trials of all pods in the first pod; None in the others, which send their trials to the first."""
        return self._rank.gathered(list(brought.of_run(plan)))


class _Rank(RankPod):
    def gathered(self, own: Sequence[Brought]) -> Sequence[Brought] | None:
        """Return the trials of all ranks in rank 0; None in the others, which send theirs to rank 0."""
        if self._listener is None:
            rank_exchange.bring(
                self._meeting, {"rank": self._cluster.rank, "observations": [encode(each) for each in own]}
            )
            return None
        others = rank_exchange.received(self._listener, set(range(1, len(self._cluster.addresses))))
        return [*own, *map(brought.parse, others)]


class OnHead(OnePod):
    """The pod of Ray's head, where Tune's driver runs; the trials are in the pods of Ray's workers."""

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        # Ray's pods outlive a run: the next one must not find what this one left
        self._folder = request.result.parent / f"search-{uuid.uuid4().hex}"

    def _as_pod(self) -> Pod:
        self._head = HeadPod(self._request)
        return self._head

    @property
    def folder(self) -> Path:
        """Return the folder of this run, which has the same path in every pod of Ray."""
        return self._folder

    def recipe(self, recipe: SearchRecipe) -> SearchRecipe:
        """Return the recipe with the path of a copy of the script that every pod of Ray makes at the same path."""
        begin(self._folder, _packed(Path.cwd()))
        return replace(recipe, script=str(self._folder / SCRIPT / recipe.script))

    def variables_of_trials(self, command: ArmCommand, named: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of trials with a HOME of this run alone, because Ray's pods outlive the run."""
        return {"HOME": str(self._folder / HOME), **super().variables_of_trials(command, named)}

    def planned(self, plan: Plan) -> Plan:
        """Return the plan with the package that brings the script to the workers, and the keys of their records."""
        plan = super().planned(plan)
        return replace(plan, store=f"{STORES}{uuid.uuid4().hex}", package=str(self._folder / PACKAGE))

    def variables(self) -> Mapping[str, str]:
        """Return the environment of Tune's driver, whose workers find this project's modules where this process does.
        The workers do not get the folder of the job, which is the user's: Ray would search that folder first, and a
        module in it may have the name of one of this project's."""
        config = json.loads(os.environ.get(JOB_CONFIG, "{}"))
        runtime = config.setdefault("runtime_env", {})
        runtime.pop("working_dir", None)
        path = os.environ.get("PYTHONPATH", "")
        runtime["env_vars"] = {**runtime.get("env_vars", {}), **({"PYTHONPATH": path} if path else {})}
        return {**super().variables(), JOB_CONFIG: json.dumps(config)}

    def ended(self, end: End) -> End:
        """Return the end of a run that starts at the submission of the job."""
        return self._head.ended(end)

    def head(self) -> RayHead | None:
        """Return the pod of Ray's head with the CPU time of its container; None if that time is not counted."""
        return self._head.head()


def begin(folder: Path, packed: bytes) -> None:
    """Make a run's folder with the script in a pod of Ray, unless it exists; delete those of earlier runs."""
    if folder.exists():
        return
    for earlier in folder.parent.glob(SEARCHES):
        shutil.rmtree(earlier, ignore_errors=True)
    fresh = Path(tempfile.mkdtemp(prefix=".search-", dir=folder.parent))
    (fresh / HOME).mkdir()
    (fresh / PACKAGE).write_bytes(packed)
    source.unpack(packed, fresh / SCRIPT)
    try:
        fresh.rename(folder)
    except OSError:  # another trial of this pod was faster
        shutil.rmtree(fresh)


def _packed(folder: Path) -> bytes:
    """Return the files of a folder as a zip."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", strict_timestamps=False) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(folder))
    return packed.getvalue()


def here(request: Request) -> ThisMachine:
    """Return an object for the kind of place in which this process runs."""
    if entry.POD not in os.environ:
        return ThisMachine(request)
    if request.address:
        return OnHead(request)
    cluster = rendezvous.from_environment()
    return OneOfPods(request, cluster) if cluster else OnePod(request)
