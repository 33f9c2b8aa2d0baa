"""What a workload is: what is trained, and all that the rest of the project has to know of it. Standard library only.

To add one: its name in `WORKLOADS`, and a folder `training/workloads/<name>` whose `workload.py` has a `WORKLOAD`. It
is found by its name and imported when it is asked for: so code hash and image of one hold nothing of another.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from training.contract.recipe import Recipe
    from training.contract.result import TrainingResult

WORKLOADS = ("cnn", "script")
"""Every workload by name; the first is the default."""


@dataclass(frozen=True, kw_only=True)
class Score:
    """A number that says how well a run learned: a key of its result's `scores`, and a measure of the comparison."""

    name: str
    title: str
    meaning: str
    unit: str = ""
    digits: int = 2
    factor: float = 1
    """What a value is multiplied by to be shown in `unit`."""
    better: Literal["lower", "higher"] = "higher"
    column: str = ""
    """Heading in the text table; "": not there."""
    on_page: bool = True
    in_changes: bool = False
    """Whether two measurements are compared by it."""
    in_sweeps: str = ""
    """Heading in a sweep's table; "": not there."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """A number that a script reports of itself, and that its training is about."""

    name: str
    better: Literal["lower", "higher"]
    value: float | None
    """What has to be reached; None: nothing is said of that."""
    tolerance: float | None
    """By how much arms may end apart and have learned the same; None: nothing is said of that."""

    def is_reached(self, value: float) -> bool:
        """Whether this is as good as what has to be reached; nothing is where that is not said."""
        return self.value is not None and (value >= self.value if self.better == "higher" else value <= self.value)


Installed = Mapping[str, str] | None
"""Versions by package of the image that the pods of a run have; None: it runs on this machine."""


class OfRayCluster(dict[str, str]):
    """Likewise, of a Ray cluster that exists: a run is a process of one of its nodes, and what else is installed there
    nobody knows before."""


class OfOtherImage(dict[str, str]):
    """Likewise, of an image that somebody else made: what it has beside these its pods alone know."""


@dataclass(frozen=True, kw_only=True)
class Files:
    """What the pods of a run need beside their image."""

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
    """What is trained. Its processes come to be by an arm's launcher; each then calls `train` of the module `body`."""

    name: str
    framework: str
    """As the title of the control names it: `TensorFlow`."""
    ray: str = "as documented"
    """How the arm `ray` uses Ray, as its title says it."""
    recipe: type["Recipe"]
    """Its settings: those of every recipe, and its own. Each is a config key, a flag, and a key of the results."""
    detail: type[Any]
    """Dataclass of what its results have beyond the core: its own pictures are drawn from that."""
    unit: str
    """Of the work, in the plural: `images`."""
    words: Callable[[Mapping[str, Any]], str]
    """From a recipe's camelCase dict: what is trained, as the heading of a table."""
    scores: tuple[Score, ...]
    """The first is the one whose gap between the arms is shown."""
    body: str = ""
    """Module with `train(recipe, process) -> TrainingResult | None`, imported once the process is set up. Rank 0 gives
    the result, the others None. "": it has a `launcher`."""
    launcher: str = ""
    """Module with `launch(request, arm) -> TrainingResult`, which makes a run of processes that are not the project's.
    "": the arm's own launcher makes the processes, and `body` is what each does."""
    rendezvous: Callable[[Sequence[str], int], dict[str, str]] = _no_rendezvous
    """Environment by which its framework finds the other ranks: from `host:port` of each, and this process's rank."""
    trainer: str = ""
    """Class of Ray Train for its framework, with its module."""
    packages: tuple[str, ...] = ()
    """Of uv.lock, what decides beside Ray what it computes: that and what it requires are its dependencies. Empty:
    it runs in an environment of its own."""
    libraries: tuple[str, ...] = ()
    """More packages whose installed versions every rank reports."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment of its processes, before the framework is imported."""
    imports: tuple[str, ...] = ()
    """Modules beside `body` that a run imports: read once before the first run of a measurement."""
    warm_up: Callable[[Any], Sequence[str]] = _nothing
    """From a recipe: a command that imports that in an environment of its own; empty: `body` and `imports` are it."""
    data: Callable[[Any], str] = lambda _: ""
    """The data set of a recipe, by the name by which an image holds it; "": none."""
    fetch: Callable[[Any, str], Sequence[str]] = _nothing
    """From a recipe and the folder `--dataset-path`: what python is called with to download what a run needs. A run on
    this machine reaches no network, so that is called before it."""
    remarks: Callable[[Any], Mapping[str, str]] = lambda _: {}
    """From a recipe: sentences that qualify the verdict, by name."""
    binds_ranks: bool = True
    """Each rank is bound to CPUs of its own, in every arm; else its ranks share those that an arm has as a whole."""
    files: Callable[[Any], Files | None] = lambda _: None
    """From a recipe: files of the user's that its pods need; None: the image has all."""
    by_path: tuple[str, ...] = ()
    """Folders of the project whose modules its processes load by their path, which no import tells."""
    inputs: Callable[[Any, Installed], Mapping[str, Any]] = lambda *_: {}
    """From a recipe: what its runs depend on beside the recipe and the project: versions, hashes of files."""
    modules: Callable[[Any], Mapping[str, str]] = lambda _: {}
    """From a recipe: modules that its processes import, each with the package that brings it."""
    why_not: Callable[[Any, str, Installed], str] = lambda *_: ""
    """From a recipe and the name of an arm: why it can't be run so; "": it can."""
    command: Callable[[Any, str, Installed], str] = lambda *_: ""
    """From a recipe and the name of an arm: what a preview shows of it, as one would type it; "": nothing."""
    target: "Callable[[Any], Target | None]" = lambda _: None
    """From a recipe: what its training is about; None: the scores say it, or nothing does."""
    work_checks: tuple[str, ...] = ("shardsCoverDataSet", "weightsEqual")
    """The checks of a result's `checks` by which arms of several ranks are known to have done the same work."""
    same_work: "Callable[[Sequence[TrainingResult]], Mapping[str, tuple[bool | None, str]]] | None" = None
    """From the results of a repeat: what makes the work the same, item by item: whether the arms have it in common, and
    the words for it. None: what they say of it has to be equal."""


def named(name: str) -> Workload:
    """The workload of this name; raises ValueError naming those that there are."""
    if name not in WORKLOADS:
        raise ValueError(f"workload {name!r} is not known; known are {', '.join(WORKLOADS)}")
    workload: Workload = import_module(f"training.workloads.{name}.workload").WORKLOAD
    return workload


def recipe_of(data: Mapping[str, Any]) -> "Recipe":
    """The recipe of a camelCase dict, of the workload that it names. Raises ValueError naming keys that are unknown."""
    return named(data.get("workload", WORKLOADS[0])).recipe.from_dict(data)
