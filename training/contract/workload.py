"""Defines a workload: the training, and all that the rest of the project has to know of it. Standard library only.

To add one: its name in `WORKLOADS` (`recipe.py`), and a folder `training/workloads/<name>` whose `workload.py` has a
`WORKLOAD`. It is found by its name and imported when it is asked for: so code hash and image of one hold nothing of
another.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal

from training.contract.recipe import WORKLOADS, Recipe

Role = Literal["reference", "alternative", "control", "subject", "variant"]
"""The role of an arm. reference: what everybody has. alternative: what a user would use instead of the subject.
control: the same work as the subject's, without Ray. subject: what the question is about. variant: the subject in
another form."""


ON_GPUS: Mapping[str, Role] = {"native": "alternative"}
"""Roles of arms that change if each worker has a GPU. One process uses one GPU, so a bigger process is no alternative;
the alternative is the same processes without Ray."""


@dataclass(frozen=True, kw_only=True)
class Score:
    """A number that says how well a run learned: a key of its result's `scores`, and a measure of the comparison."""

    name: str
    title: str
    meaning: str
    unit: str = ""
    digits: int = 2
    factor: float = 1
    """Factor by which a value is multiplied to be in `unit`."""
    better: Literal["lower", "higher"] = "higher"
    column: str = ""
    """Heading of the score's column in the text table; "" if it has no column there."""
    on_page: bool = True
    in_changes: bool = False
    """True if the score is used to compare two measurements."""
    in_sweeps: str = ""
    """Heading of the score's column in a sweep's table; "" if it has no column there."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """A number that a script reports, and that its training is meant to improve."""

    name: str
    better: Literal["lower", "higher"]
    value: float | None
    """Value that training has to reach; None if no value is set."""
    tolerance: float | None
    """Largest difference between arms that still count as having learned the same; None if no tolerance is set."""

    def is_reached(self, value: float) -> bool:
        """Return whether `value` reaches the value that is set; False if no value is set."""
        return self.value is not None and (value >= self.value if self.better == "higher" else value <= self.value)


Installed = Mapping[str, str] | None
"""Package versions in the image of a run's pods; None if the run is on this machine."""


class OfRayCluster(dict[str, str]):
    """Versions, by name, of the known packages of an existing Ray cluster, whose nodes run the processes. Other
    packages may be installed there."""


class OfOtherImage(dict[str, str]):
    """Versions, by name, of the packages that are required of an image which this project did not build. What else it
    has is unknown until a pod runs."""


@dataclass(frozen=True, kw_only=True)
class Files:
    """Files that the pods of a run need besides their image."""

    content: bytes
    digest: str
    """SHA-256 over the files' names and contents."""
    recipe: Mapping[str, Any]
    """Fields of the recipe that have other values in pods: paths within `content`."""


def _nothing(*_: Any) -> Any:
    return ()


def _no_rendezvous(*_: Any) -> dict[str, str]:
    return {}


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A kind of training. An arm's launcher starts its processes; each then calls `train` of the module `body`."""

    name: str
    framework: str
    """Name of the framework in the control's title: `TensorFlow`."""
    ray: str = "as documented"
    """How the arm `ray` uses Ray, in words, for the arm's title."""
    recipe: type[Recipe]
    """Class of the workload's settings: those of every recipe, and its own. Each setting is a config key, a flag, and a
    key in results."""
    detail: type[Any]
    """Dataclass of what the workload's results have beyond those of all workloads; the workload's own pictures are
    drawn from that."""
    unit: str
    """Unit of the work, in the plural: `images`."""
    words: Callable[[Mapping[str, Any]], str]
    """Returns a table's heading, which names the training, from a recipe's camelCase dict."""
    scores: tuple[Score, ...]
    """Scores of the workload; for the first, the gap between arms is shown."""
    searches: bool = False
    """True if a run is a search: its passes, and its units of work, are trials, each of which is a training."""
    roles: Mapping[str, Role] = field(default_factory=dict)
    """Roles of arms in the workload's comparison, by the arm's name, where they are not the usual ones."""
    titles: Mapping[str, str] = field(default_factory=dict)
    """Titles of arms, by the arm's name, where the arm runs something else than usual; with the placeholders of
    `Arm.title`."""
    passed: str = "epoch"
    """Word for a pass: longer runs have more of them, and a result's `epochs_completed` counts them."""
    passing: str = "one epoch of Ray"
    """What Ray does in one more pass, as the subject of a sentence."""
    passes_key: str = "epochs"
    """The setting that decides how many passes a run has: a key of the recipe, in camelCase."""
    most_passes: Callable[[Any], float] = lambda _: math.inf
    """Returns, from a recipe, the most passes that its other settings allow."""
    longer: str = "Longer training"
    """Words for a run with more passes, at the beginning of a sentence."""
    replica: str = "replica"
    """Word for what a result's `world_size` counts."""
    entries: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Title and meaning of measures and ratios, by name, where they mean something else for this workload."""
    lacks: tuple[str, ...] = ()
    """Names of measures that runs of this workload cannot have."""
    checks: Mapping[str, str] = field(default_factory=dict)
    """Sentences for fairness checks, by name, where a check verifies something else than usual."""
    body: str = ""
    """Module with `train(recipe, process) -> TrainingResult | None`, imported once the process is set up. Rank 0 gives
    the result, the others None. "" if it has a `launcher`."""
    launcher: str = ""
    """Module with `launch(request, arm) -> TrainingResult`, which makes a run of processes that are not the project's.
    "" if the arm's own launcher makes the processes, and `body` is what each does."""
    rendezvous: Callable[[Sequence[str], int], dict[str, str]] = _no_rendezvous
    """Returns the environment variables by which the framework finds the other ranks, from `host:port` of each rank and
    this process's rank."""
    trainer: str = ""
    """Ray Train's trainer class for the workload's framework, with its module."""
    packages: tuple[str, ...] = ()
    """Packages of uv.lock, besides Ray, that decide what the workload computes; its dependencies are these packages and
    what they require. Empty if it runs in an environment of its own."""
    libraries: tuple[str, ...] = ()
    """Further packages whose installed versions every rank reports."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the workload's processes, set before the framework is imported."""
    imports: tuple[str, ...] = ()
    """Modules besides `body` that a run imports; they are read once before the first run of a measurement."""
    prepare: Callable[[Any, Callable[[str], None]], None] = lambda *_: None
    """Makes, from a recipe, whatever runs on this machine need, before the first run and outside all measured times; it
    may download. The function that it gets prints what takes a while. Raises ValueError, which says what to type."""
    warm_up: Callable[[Any], Sequence[str]] = _nothing
    """Returns, from a recipe, a command that imports the packages in the recipe's own environment; empty if importing
    `body` and `imports` is enough."""
    data: Callable[[Any], str] = lambda _: ""
    """Returns, from a recipe, the name of its data set in an image; "" if it has no data set."""
    fetch: Callable[[Any, str], Sequence[str]] = _nothing
    """Returns, from a recipe and the folder `--dataset-path`, the arguments of a Python that downloads what a run
    needs. It runs before the run, because a run on this machine reaches no network."""
    remarks: Callable[[Any], Mapping[str, str]] = lambda _: {}
    """Returns, from a recipe, sentences that qualify the verdict, by name."""
    binds_ranks: bool = True
    """True if each rank is bound to CPUs of its own, in every arm; False if the ranks share the CPUs of the arm."""
    files: Callable[[Any], Files | None] = lambda _: None
    """Returns, from a recipe, the user's files that its pods need; None if the image has everything."""
    by_path: tuple[str, ...] = ()
    """Folders of the project whose modules the workload's processes load by their path, so that no import shows it."""
    inputs: Callable[[Any, Installed], Mapping[str, Any]] = lambda *_: {}
    """Returns, from a recipe, the inputs of its runs besides recipe and project: versions, hashes of files."""
    modules: Callable[[Any], Mapping[str, str]] = lambda _: {}
    """Returns, from a recipe, the modules that its processes import, each with the package that provides it."""
    why_not: Callable[[Any, str, Installed], str] = lambda *_: ""
    """Returns, from a recipe and the name of an arm, why that arm can't be run; "" if it can."""
    command: Callable[[Any, str, Installed], str] = lambda *_: ""
    """Returns, from a recipe and the name of an arm, the command that a preview shows; "" if it shows none."""
    ports: Mapping[str, str] = field(default_factory=dict)
    """What a user writes to distribute a training that is not distributed yet, by the trainer that its run of the arm
    `raystart` has in `did`."""
    target: "Callable[[Any], Target | None]" = lambda _: None
    """Returns, from a recipe, the target of its training; None if the scores are the target, or there is no target."""
    work_checks: tuple[str, ...] = ("shardsCoverDataSet", "weightsEqual")
    """Names of the checks, in a result's `checks`, which show that arms of several ranks did the same work."""
    same_work: Callable[[Sequence[Any]], Mapping[str, tuple[bool | None, str]]] | None = None
    """Compares the results of a repeat, each a `TrainingResult`. Returns for each item of the work whether it is the
    same in all arms, and a description. None if the arms' own descriptions in `did` have to be equal."""

    def has_key_for_passes(self, recipe: Mapping[str, Any]) -> bool:
        """Return whether `passes_key` decides a run's length: a script's only if `scriptArguments` have `{epochs}`."""
        return self.passes_key != "epochs" or "{epochs}" in recipe.get("scriptArguments", "{epochs}")

    def unit_in(self, recipe: Mapping[str, Any]) -> str:
        """Return the unit of work of a recipe, given as a camelCase dict. It is the recipe's key `unit`, if that is set
        and the workload is no search."""
        return self.unit if self.searches else str(recipe.get("unit") or self.unit)


def named(name: str) -> Workload:
    """Return the workload of this name. Raises ValueError with the known names if there is no such workload."""
    if name not in WORKLOADS:
        raise ValueError(f"workload {name!r} is not known; known are {', '.join(WORKLOADS)}")
    workload: Workload = import_module(f"training.workloads.{name}.workload").WORKLOAD
    return workload


def recipe_of(data: Mapping[str, Any]) -> Recipe:
    """Return the recipe that a camelCase dict describes, of the class of the workload that it names. Raises ValueError
    with keys that are unknown."""
    return named(data.get("workload", WORKLOADS[0])).recipe.from_dict(data)
