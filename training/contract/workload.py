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
"""reference: what everybody has. alternative: what one would do instead of the subject. control: the subject's work
without the subject. subject: what the question is about. variant: the subject in another form."""


ON_GPUS: Mapping[str, Role] = {"native": "alternative"}
"""Roles where each worker has a GPU. One process uses one, so no bigger process is an alternative: what one would use
instead is the same processes without Ray."""


@dataclass(frozen=True, kw_only=True)
class Score:
    """A number that says how well a run learned: a key of its result's `scores`, and a measure of the comparison."""

    name: str
    title: str
    meaning: str
    unit: str = ""
    digits: int = 2
    factor: float = 1
    """Factor from a value to `unit`."""
    better: Literal["lower", "higher"] = "higher"
    column: str = ""
    """Heading in the text table; "": not there."""
    on_page: bool = True
    in_changes: bool = False
    """True if two measurements are compared by it."""
    in_sweeps: str = ""
    """Heading in a sweep's table; "": not there."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """A number that a script reports of itself, and that its training is about."""

    name: str
    better: Literal["lower", "higher"]
    value: float | None
    """Value to reach; None if none is set."""
    tolerance: float | None
    """Largest difference of arms that count as having learned the same; None if none is set."""

    def is_reached(self, value: float) -> bool:
        """Return whether `value` reaches the target; False if no target is set."""
        return self.value is not None and (value >= self.value if self.better == "higher" else value <= self.value)


Installed = Mapping[str, str] | None
"""Package versions in the image of a run's pods; None if the run is on this machine."""


class OfRayCluster(dict[str, str]):
    """Known packages of an existing Ray cluster, whose nodes run the processes; others may be installed."""


class OfOtherImage(dict[str, str]):
    """Packages required of an image that this project did not build; the rest is unknown until a pod runs."""


@dataclass(frozen=True, kw_only=True)
class Files:
    """Files that the pods of a run need besides their image."""

    content: bytes
    digest: str
    """SHA-256 over names and contents."""
    recipe: Mapping[str, Any]
    """Fields of the recipe that are others in pods: paths within the content."""


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
    """The way the arm `ray` uses Ray, for its title."""
    recipe: type[Recipe]
    """Class of its settings: those of every recipe, and its own. Each is a config key, a flag, and a key of the
    results."""
    detail: type[Any]
    """Dataclass of what its results have beyond the core: its own pictures are drawn from that."""
    unit: str
    """Unit of the work, in the plural: `images`."""
    words: Callable[[Mapping[str, Any]], str]
    """Returns a table's heading, which names the training, from a recipe's camelCase dict."""
    scores: tuple[Score, ...]
    """The first is the one whose gap between the arms is shown."""
    searches: bool = False
    """True if a run is a search: its passes are trials, each a training of its own, and its unit of work."""
    roles: Mapping[str, Role] = field(default_factory=dict)
    """Roles of arms in its comparison, by name, that are not the usual ones."""
    titles: Mapping[str, str] = field(default_factory=dict)
    """Titles of arms, by name, that run something else than usual; with the placeholders of `Arm.title`."""
    passed: str = "epoch"
    """Word for a pass: longer runs have more of them, and a result's `epochs_completed` counts them."""
    passing: str = "one epoch of Ray"
    """What Ray does in the time that more passes take, as the subject of a sentence."""
    passes_key: str = "epochs"
    """Setting by which a run has more passes: a key of the recipe, in camelCase."""
    most_passes: Callable[[Any], float] = lambda _: math.inf
    """Returns, from a recipe, the most passes that its other settings allow."""
    longer: str = "Longer training"
    """What a run with more passes is called, at the beginning of a sentence."""
    replica: str = "replica"
    """Word for what a result's `world_size` counts."""
    entries: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Title and meaning of measures and ratios, by name, that are something else than usual."""
    lacks: tuple[str, ...] = ()
    """Names of measures that its runs cannot have."""
    checks: Mapping[str, str] = field(default_factory=dict)
    """Sentences for fairness checks, by name, that verify something else than usual."""
    body: str = ""
    """Module with `train(recipe, process) -> TrainingResult | None`, imported once the process is set up. Rank 0 gives
    the result, the others None. "" if it has a `launcher`."""
    launcher: str = ""
    """Module with `launch(request, arm) -> TrainingResult`, which makes a run of processes that are not the project's.
    "" if the arm's own launcher makes the processes, and `body` is what each does."""
    rendezvous: Callable[[Sequence[str], int], dict[str, str]] = _no_rendezvous
    """Environment by which its framework finds the other ranks: from `host:port` of each, and this process's rank."""
    trainer: str = ""
    """Class of Ray Train for its framework, with its module."""
    packages: tuple[str, ...] = ()
    """Packages of uv.lock that decide, besides Ray, what it computes; they and their requirements are its dependencies.
    Empty if it runs in an environment of its own."""
    libraries: tuple[str, ...] = ()
    """More packages whose installed versions every rank reports."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment of its processes, before the framework is imported."""
    imports: tuple[str, ...] = ()
    """Modules beside `body` that a run imports: read once before the first run of a measurement."""
    prepare: Callable[[Any, Callable[[str], None]], None] = lambda *_: None
    """Makes what runs on this machine need, from a recipe, before the first one and in no clock: it may download.
    What takes a while is said to the function. Raises ValueError with what to type."""
    warm_up: Callable[[Any], Sequence[str]] = _nothing
    """Returns, from a recipe, a command that imports the packages in the recipe's own environment; empty if importing
    `body` and `imports` is enough."""
    data: Callable[[Any], str] = lambda _: ""
    """The data set of a recipe, by the name by which an image holds it; "": none."""
    fetch: Callable[[Any, str], Sequence[str]] = _nothing
    """Returns, from a recipe and the folder `--dataset-path`, the arguments of a python that downloads what a run
    needs. A run on this machine reaches no network, so this is called before it."""
    remarks: Callable[[Any], Mapping[str, str]] = lambda _: {}
    """Returns, from a recipe, sentences that qualify the verdict, by name."""
    binds_ranks: bool = True
    """True if each rank is bound to CPUs of its own, in every arm; else its ranks share the CPUs of the arm."""
    files: Callable[[Any], Files | None] = lambda _: None
    """Returns, from a recipe, the user's files that its pods need; None if the image has everything."""
    by_path: tuple[str, ...] = ()
    """Folders of the project whose modules its processes load by their path, which no import tells."""
    inputs: Callable[[Any, Installed], Mapping[str, Any]] = lambda *_: {}
    """Returns, from a recipe, the inputs of its runs besides recipe and project: versions, hashes of files."""
    modules: Callable[[Any], Mapping[str, str]] = lambda _: {}
    """Returns, from a recipe, the modules that its processes import, each with the package that provides it."""
    why_not: Callable[[Any, str, Installed], str] = lambda *_: ""
    """Returns, from a recipe and the name of an arm, why that arm can't be run; "" if it can."""
    command: Callable[[Any, str, Installed], str] = lambda *_: ""
    """Returns, from a recipe and the name of an arm, the command that a preview shows; "" if there is none."""
    ports: Mapping[str, str] = field(default_factory=dict)
    """What one writes to have a training distributed that nothing distributes, by the trainer that its `raystart` has
    in `did`."""
    target: "Callable[[Any], Target | None]" = lambda _: None
    """Returns, from a recipe, the target of its training; None if the scores are the target, or there is none."""
    work_checks: tuple[str, ...] = ("shardsCoverDataSet", "weightsEqual")
    """The checks of a result's `checks` by which arms of several ranks are known to have done the same work."""
    same_work: Callable[[Sequence[Any]], Mapping[str, tuple[bool | None, str]]] | None = None
    """Compares the results of a repeat, each a `TrainingResult`: for each item of the work, whether the arms have it in
    common, and its description. None if the arms' own descriptions have to be equal."""

    def has_key_for_passes(self, recipe: Mapping[str, Any]) -> bool:
        """Return whether `passes_key` decides how long a run of a recipe is: a script takes it from its arguments."""
        return self.passes_key != "epochs" or "{epochs}" in recipe.get("scriptArguments", "{epochs}")

    def unit_in(self, recipe: Mapping[str, Any]) -> str:
        """Return the unit of work of a recipe, as a camelCase dict: its own key `unit`, if that is not of a trial."""
        return self.unit if self.searches else str(recipe.get("unit") or self.unit)


def named(name: str) -> Workload:
    """Return the workload of this name; raises ValueError naming those that there are."""
    if name not in WORKLOADS:
        raise ValueError(f"workload {name!r} is not known; known are {', '.join(WORKLOADS)}")
    workload: Workload = import_module(f"training.workloads.{name}.workload").WORKLOAD
    return workload


def recipe_of(data: Mapping[str, Any]) -> Recipe:
    """Return the recipe of a camelCase dict, of the workload that it names. Raises ValueError naming keys that are
    unknown."""
    return named(data.get("workload", WORKLOADS[0])).recipe.from_dict(data)
