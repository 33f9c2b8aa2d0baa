"""What a case is: a script, and what may honestly be said of its arms.

`NAME.py` is a whole script. `NAME.patch` has the lines in which a script differs from another one, its base: first the
text of its docstring, then `--- ` and the base's file, then hunks as of a unified diff, without the numbers of lines.
"""

import shutil
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
BY_HAND = "a correct script that looks at its loss, and does so then, shows the same"
RAY_TRAIN = "--num-workers {workers} --storage {storage}"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A script, and what is expected of the comparison of its arms."""

    name: str
    """Of its file, with the folder and without the ending: `wrong/half_the_steps`."""
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
    def text(self) -> str:
        """The script."""
        whole = SCRIPTS / f"{self.name}.py"
        return whole.read_text() if whole.exists() else patched(whole.with_suffix(".patch").read_text())

    @property
    def beside(self) -> Path:
        """A folder that it needs beside it; most need none, and it is not there."""
        return SCRIPTS / self.name

    def write(self, folder: Path) -> Path:
        """Write the script into a folder, which is created, with what it needs beside it; return its path."""
        folder.mkdir(parents=True)
        if self.beside.is_dir():
            shutil.copytree(self.beside, folder / self.beside.name)
        path = folder / f"{self.beside.name}.py"
        path.write_text(self.text)
        return path


def patched(patch: str) -> str:
    """Return the script of a patch. Raises ValueError unless its base has the old lines of every hunk exactly once."""
    head, *hunks = patch.split("@@\n")
    docstring, base = head.rstrip().rsplit("\n--- ", 1)
    text = f'"""{docstring}"""' + (SCRIPTS / base).read_text().split('"""', 2)[2]
    for hunk in hunks:
        old, new = (_lines(hunk, marks) for marks in (" -", " +"))
        if text.count(old) != 1:
            raise ValueError(f"{base} has these lines {text.count(old)} times:{old}")
        text = text.replace(old, new)
    return text


def _lines(hunk: str, marks: str) -> str:
    """Return the lines of a hunk that have one of these marks; a line without any is an empty one of both."""
    return "\n" + "".join(line[1:] or line for line in hunk.splitlines(keepends=True) if line[0] in f"{marks}\n")


def wrong(name: str, what: str, *items: Item, **more: Any) -> Case:
    """Arms that do not do the same work, by these items, any of which may say it."""
    return _case(f"wrong/{name}", what, {"not comparable"}, items=frozenset(items), **more)


def doubtful(name: str, what: str, *items: Item, why: str = BY_HAND, **more: Any) -> Case:
    """Arms that do not do the same work, which shows as little as in a correct script: nothing need be accused."""
    return wrong(name, what, *items, outcomes=frozenset({"not comparable", "same script"}), why=why, **more)


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
