"""What a case is: a script, and what may honestly be said of its arms."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

SCRIPTS = Path(__file__).parent

Outcome = Literal["same work", "same script", "it finished", "not comparable"]
"""What a comparison comes to: its claim, or that there is none."""
Item = Literal[
    "steps",
    "optimizers",
    "rowsPerStep",
    "rows",
    "rowsDisjoint",
    "input",
    "parameters",
    "trained",
    "autocast",
    "weights",
    "learningRate",
    "hyperparameters",
    "validation",
    "rounds",
    "boosterParameters",
    "ranks",
]
"""What the claim *same work* rests on, as reasons name it: `work.steps`."""
ITEMS: tuple[Item, ...] = get_args(Item)
Package = Literal["torch", "accelerate", "lightning", "transformers", "xgboost", "lightgbm", "ray", "compiler", "keras"]
RAY_TRAIN = "--num-workers {workers} --storage {storage}"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A script, and what is expected of the comparison of its arms."""

    name: str
    """Of its file, with the folder: `wrong/half_the_steps`."""
    what: str
    """In a few words."""
    outcomes: frozenset[Outcome]
    """Those that are honest; `why` says it where there are several."""
    items: frozenset[Item] = frozenset()
    """One of them has to be named, unless the claim is *same work*."""
    why: str = ""
    arguments: str = ""
    needs: tuple[Package, ...] = ("torch",)
    with_ray: bool = False
    """Whether the arm `ray` is run, too, instead of made of `native`."""
    quick: bool = False
    """Whether it is tried each time where its packages are at hand."""

    @property
    def path(self) -> Path:
        """The script."""
        return SCRIPTS / f"{self.name}.py"


def wrong(name: str, what: str, *items: Item, **more: Any) -> Case:
    """Arms that do not do the same work, by these items, any of which may say it."""
    return _case(f"wrong/{name}", what, {"not comparable"}, items=frozenset(items), **more)


def weak(name: str, what: str, **more: Any) -> Case:
    """Each worker has a batch of its own: another training, which is named and decides nothing."""
    return _case(f"wrong/{name}", what, {"same script"}, **more)


def right(name: str, what: str, **more: Any) -> Case:
    """Arms that do the same work, all of which is known."""
    return _case(f"right/{name}", what, {"same work"}, **more)


def unknown(name: str, what: str, *items: Item, **more: Any) -> Case:
    """Correct, but one of these items can't be known."""
    return _case(f"right/{name}", what, {"same script"}, items=frozenset(items), **more)


def either(name: str, what: str, *items: Item, why: str, **more: Any) -> Case:
    """Correct; whether one of these items can be known depends on how well one looks."""
    return _case(f"right/{name}", what, {"same work", "same script"}, items=frozenset(items), why=why, **more)


def beyond(name: str, what: str) -> Case:
    """Not the same work in what no item of the list is about."""
    return _case(f"beyond/{name}", what, set(get_args(Outcome)))


def _case(name: str, what: str, usual: set[Outcome], **more: Any) -> Case:
    return Case(name=name, what=what, **{"outcomes": frozenset(usual), **more})
