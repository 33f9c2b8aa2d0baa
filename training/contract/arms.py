"""The arms: each way to run a workload, with its role in the comparison. Standard library only.

To add one: an entry here, and the module `training.<name>` that a run starts.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

from training.contract.recipe import Recipe
from training.contract.workload import ON_GPUS, Role, named

Start = Literal["alone", "peers", "ray"]
"""The way an arm's processes start: one by itself, N that find each other, or N that Ray starts."""


def counted(number: float, noun: str) -> str:
    """Return a number with its noun: `1 CPU`, `0.5 CPUs`, `9,000 epochs`."""
    return f"{number:,.6g} {noun}{'s' if number != 1 else ''}"


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One way to run a workload. `name` is its module, its label, and the beginning of its runs' names."""

    name: str
    usual_role: Role
    """Role in the comparison of most workloads; `role` returns that for a given workload."""
    start: Start
    title: str
    """What the arm runs, in words, for most workloads; `{cpus}`, `{workers}`, `{processes}`, `{trials}` (trials at a
    time), `{framework}` and `{ray}` are filled in."""
    all_cpus: bool = False
    """True if the arm's only process has the CPUs of all workers; False if it has those of one worker."""
    switch: str = ""
    """The setting that says whether the arm is measured; "" if none does."""
    ignores: tuple[str, ...] = ()
    """Keys of the recipe that cannot change the arm's runs."""
    only: str = ""
    """The only workload that can have this arm; "" if every workload can."""

    def role(self, workload: str, gpus: int = 0) -> Role:
        """Return the arm's role in the comparison of this workload, whose workers have `gpus` GPUs each."""
        usual = ON_GPUS.get(self.name, self.usual_role) if gpus else self.usual_role
        return named(workload).roles.get(self.name, usual)

    def processes(self, recipe: Recipe) -> int:
        """Return how many processes of the arm train together, or, in a search, how many trials run at a time."""
        return 1 if self.start == "alone" else recipe.workers

    def process_cpus(self, recipe: Recipe) -> float:
        """Return the CPUs of each of these workers, including the CPUs that read its input.

        The number is rounded to thousandths: 25 workers with 0.28 CPUs have 7, and not 7.000000000000001.
        """
        return round((recipe.worker_cpus * recipe.processes_each + recipe.input_cpus) * self._shares(recipe), 3)

    def compute_threads(self, recipe: Recipe) -> int:
        """Return the intra-op and OpenMP threads of each process, also where a worker has several: its CPUs without
        those that read its input, rounded up."""
        return max(1, math.ceil(round(recipe.worker_cpus * self._shares(recipe), 3)))

    def _shares(self, recipe: Recipe) -> int:
        """Return the number of workers whose CPUs one process of the arm has."""
        return recipe.workers if self.all_cpus else 1

    def settings(self, recipe: Recipe) -> dict[str, Any]:
        """Return the settings of the recipe that decide this arm's runs: for the baseline, `workers` is none of
        them."""
        deciding = {key for key, field in recipe.settings().items() if field.metadata["decides"]}
        return {key: value for key, value in recipe.to_dict().items() if key in deciding and key not in self.ignores}

    def words(self, recipe: Recipe) -> str:
        """Return the arm's title with its numbers: `one process on 2 CPUs`."""
        cpus, workers = self.process_cpus(recipe), recipe.workers
        trained, gpus = named(recipe.workload), recipe.worker_gpus
        return trained.titles.get(self.name, self.title).format(
            cpus=counted(cpus, "CPU") + (f" and {counted(gpus, 'GPU')}" if gpus else ""),
            workers=counted(workers, "worker") + (f" of {counted(gpus, 'GPU')}" if gpus else ""),
            processes=f"{workers} process{'es' * (workers != 1)}",
            trials=counted(workers, "trial"),
            framework=trained.framework,
            ray=trained.ray,
        )


BASELINE = Arm(
    name="baseline", usual_role="reference", start="alone", title="one process on {cpus}", ignores=("workers",)
)
WIDE = Arm(
    name="wide", usual_role="alternative", start="alone", title="one process on {cpus}", all_cpus=True, switch="wideArm"
)
NATIVE = Arm(
    name="native",
    usual_role="control",
    start="peers",
    title="{framework}'s own distribution with {workers}",
    switch="nativeArm",
)
RAY = Arm(name="ray", usual_role="subject", start="ray", title="Ray {ray} with {workers}")

RAYDATA = Arm(
    name="raydata",
    usual_role="variant",
    start="ray",
    title="Ray {ray} with {workers}, and Ray Data",
    switch="dataArguments",
)

RAYSTART = Arm(
    name="raystart",
    usual_role="variant",
    start="ray",
    title="Ray's start with {workers}, which do nothing",
    ignores=("epochs", "measureSteps", "scriptArguments"),
    only="script",
)
"""The arm that only starts Ray's workers, for a script that cannot be distributed: the least time that Ray takes. It
does not train, and is never compared as if it did."""

ARMS = {arm.name: arm for arm in (BASELINE, WIDE, NATIVE, RAY, RAYDATA, RAYSTART)}
"""All arms by name, in display order."""
