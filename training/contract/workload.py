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

WORKLOADS = ("cnn",)
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


def _nothing(*_: Any) -> Any:
    return ()


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What is trained. Its processes come to be by an arm's launcher; each then calls `train` of the module `body`."""

    name: str
    framework: str
    """As the title of the control names it: `TensorFlow`."""
    recipe: type["Recipe"]
    """Its settings: those of every recipe, and its own. Each is a config key, a flag, and a key of the results."""
    body: str
    """Module with `train(recipe, process) -> TrainingResult | None`, imported once the process is set up. Rank 0 gives
    the result, the others None."""
    detail: type[Any]
    """Dataclass of what its results have beyond the core: its own pictures are drawn from that."""
    unit: str
    """Of the work, in the plural: `images`."""
    words: Callable[[Mapping[str, Any]], str]
    """From a recipe's camelCase dict: what is trained, as the heading of a table."""
    scores: tuple[Score, ...]
    """The first is the one whose gap between the arms is shown."""
    rendezvous: Callable[[Sequence[str], int], dict[str, str]]
    """Environment by which its framework finds the other ranks: from `host:port` of each, and this process's rank."""
    trainer: str
    """Class of Ray Train for its framework, with its module."""
    packages: tuple[str, ...]
    """Of uv.lock, what decides beside Ray what it computes: that and what it requires are its dependencies."""
    libraries: tuple[str, ...] = ()
    """More packages whose installed versions every rank reports."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment of its processes, before the framework is imported."""
    imports: tuple[str, ...] = ()
    """Modules beside `body` that a run imports: read once before the first run of a measurement."""
    data: Callable[[Any], str] = lambda _: ""
    """The data set of a recipe, by the name by which an image holds it; "": none."""
    fetch: Callable[[Any, str], Sequence[str]] = _nothing
    """From a recipe and the folder `--dataset-path`: what python is called with to download what a run needs. A run on
    this machine reaches no network, so that is called before it."""
    remarks: Callable[[Any], Mapping[str, str]] = lambda _: {}
    """From a recipe: sentences that qualify the verdict, by name."""


def named(name: str) -> Workload:
    """The workload of this name; raises ValueError naming those that there are."""
    if name not in WORKLOADS:
        raise ValueError(f"workload {name!r} is not known; known are {', '.join(WORKLOADS)}")
    workload: Workload = import_module(f"training.workloads.{name}.workload").WORKLOAD
    return workload


def recipe_of(data: Mapping[str, Any]) -> "Recipe":
    """The recipe of a camelCase dict, of the workload that it names. Raises ValueError naming keys that are unknown."""
    return named(data.get("workload", WORKLOADS[0])).recipe.from_dict(data)
