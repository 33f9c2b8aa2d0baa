"""Defines the same work: the list that claim A rests on, and the comparison of arms by it. Pure.

An item that differs between arms makes them not comparable. One that is not known leaves a lower claim. What an arm did
is text, item by item, so that it can stand in its result; `docs/own-script.md` has the table of ITEMS.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from training.contract.result import TrainingResult

Known = tuple[bool | None, str]
"""True, False or None where it can't be known; and why, in words."""
WEAK = (
    "weak scaling: each worker has as many rows a step as one process alone, so N workers take N times as many rows "
    "for each update of the weights. To give every arm the same batch, divide it by the number of workers, as in "
    "DataLoader(batch_size=batch // world_size)"
)

SAME_ROWS = (
    "each worker has as many rows a step as one process alone, because workers read the same rows: N workers do the "
    "work of one N times"
)


@dataclass(frozen=True, kw_only=True)
class Item:
    """One thing that arms have in common when they do the same work."""

    name: str
    title: str
    torch: str
    """Way in which it is observed of PyTorch; "" if it is not."""
    keras: str = ""
    boosters: str = ""
    facts: tuple[str, ...] = ()
    """Facts by which it is compared, if an arm alone does not show it."""


ITEMS = (
    Item(
        name="steps",
        title="steps of the run",
        torch="of the first optimizer that steps, and of those that take its place with an epoch, a fold or a phase; "
        "of several that step in turns the steps of one count",
        keras="batches of `fit`",
        boosters="rounds",
    ),
    Item(
        name="optimizers",
        title="steps of every optimizer",
        torch="of each; unknown if one steps while none of its steps counts",
    ),
    Item(
        name="rowsPerStep",
        title="rows a step, over all ranks",
        torch="counted when a DataLoader delivers them, while gradients are on",
        keras="as `fit` was told; not counted",
        boosters="as each rank's DMatrix or Dataset counts them",
    ),
    Item(
        name="rows",
        title="rows of the run and of an epoch, but for padding",
        torch="likewise; an epoch ends where the iterator of its DataLoader does",
        boosters="likewise",
    ),
    Item(
        name="rowsDisjoint",
        title="no row on two ranks",
        torch="row numbers in the first pass, in the latest of the passes 2, 4, 8, … and in the last one, also through "
        "`Subset`; in every other one whether ranks had all the same; if all ranks read the same data set. That is "
        "recognised by its attributes (arrays, lists, tables, numbers), or by its own fingerprint",
        facts=("sharedRows", "sameDataSet", "drawnAgain"),
    ),
    Item(
        name="input",
        title="what enters the first module that has parameters",
        torch="how many numbers over all ranks, from the second step on, and their type; if rows vary in size, arms "
        "may differ by a factor of up to 1.5",
        boosters="number of features",
    ),
    Item(name="autocast", title="autocast", torch="when that module is called"),
    Item(
        name="parameters",
        title="parameters: how many, of which type",
        torch="of all optimizers, one model after another",
        keras="of the model",
    ),
    Item(
        name="trained",
        title="parameters that get a gradient",
        torch="after steps 1, 2, 4, 8, … of the run and of each optimizer",
        keras="trainable ones",
    ),
    Item(
        name="weights",
        title="weights equal on all ranks",
        torch="after steps 1, 2, 4, 8, … of the run and of each optimizer, at the end of each epoch and at the end",
        keras="likewise",
        boosters="the trees, at the end",
    ),
    Item(
        name="learningRate",
        title="learning rate: highest and mean over the steps",
        torch="of every parameter group of every optimizer",
        keras="of the model's optimizer",
        boosters="as `train` was told",
    ),
    Item(
        name="hyperparameters",
        title="what else decides a step",
        torch="numbers of every parameter group, such as momentum and weight decay, after its steps 1, 2, 4, 8, …",
    ),
    Item(
        name="validation",
        title="validations",
        torch="passes over a DataLoader without a training step",
        keras="of `fit`",
    ),
    Item(
        name="rounds",
        title="rounds or epochs that were asked for",
        torch="",
        keras="as `fit` was told",
        boosters="as `train` was told",
    ),
    Item(
        name="boosterParameters",
        title="parameters of the trees",
        torch="",
        boosters="all that `train` was given, except threads and addresses",
    ),
)
"""Items in the order in which they are printed."""
FOLLOW_STEPS = ("optimizers", "input", "trained", "learningRate", "hyperparameters", "validation")
"""Items that say nothing of arms that made other numbers of steps."""
FOLLOW_BATCH = ("rows", "input", "learningRate", "optimizers")
"""Items that are not compared for arms whose batch grows with their ranks."""
EQUAL = "weights equal on all ranks"
MOST_PADDING = 1.5
"""Times as many numbers enter where rows of text are filled up to the longest of a larger batch."""
NEAR = 0.1
"""Part of the rows by which runs may differ whose epochs are not known: a script reads ahead."""


@dataclass(frozen=True, kw_only=True)
class ArmWork:
    """The work of one arm, as text and by name, so that it can stand in a result."""

    ranks: int
    items: Mapping[str, str]
    """Items that are known, and facts that they are compared by (`epochs`, `rowsPerEpoch`, `endedEarly`,
    `stepOfAllRows`, those of ITEMS); what does not concern a framework is absent."""
    unknown: Mapping[str, str] = field(default_factory=dict)
    """Items that are not known, and why."""

    def number(self, name: str) -> float | None:
        """One of them as a number."""
        return float(self.items[name]) if name in self.items else None

    @property
    def epochs(self) -> float | None:
        """Whole ones; None where it made none, or they are not known."""
        return self.number("epochs")

    @property
    def one_step_epochs(self) -> bool:
        """Return whether a step goes over all rows."""
        return "stepOfAllRows" in self.items


def compare(arms: Mapping[str, ArmWork]) -> dict[str, Known]:
    """Compare every item that concerns these arms, by name."""
    weak = is_weak(arms)
    known_items: dict[str, Known] = {}
    for item in ITEMS:
        if not any({item.name, *item.facts} & {*arm.items, *arm.unknown} for arm in arms.values()):
            continue
        if item.name in FOLLOW_STEPS and known_items["steps"][0] is not True:
            continue
        if not (weak and item.name in FOLLOW_BATCH):
            known_items[item.name] = _compared(item, arms, weak)
    return known_items


def is_weak(arms: Mapping[str, ArmWork]) -> bool:
    """Return whether a step has N times the rows with N ranks: the batch is each worker's own."""
    alone, together = arms.get("baseline"), arms.get("ray") or arms.get("native")
    if not alone or not together or together.ranks == 1 or alone.one_step_epochs:
        return False
    rows, of_one = together.number("rowsPerStep"), alone.number("rowsPerStep")
    return bool(rows and of_one and rows == together.ranks * of_one)


def share_rows(arms: Mapping[str, ArmWork]) -> bool:
    """Return whether ranks of an arm are known to train on the same rows, of boosters on all of them."""
    alone = arms.get("baseline")
    rows = alone.number("rowsPerStep") if alone and alone.one_step_epochs else None
    several = [arm for arm in arms.values() if arm.ranks > 1]
    return any(
        disjoint(arm)[0] is False or (rows is not None and arm.number("rowsPerStep") == arm.ranks * rows)
        for arm in several
    )


def _compared(item: Item, arms: Mapping[str, ArmWork], weak: bool) -> Known:
    across = {"rowsDisjoint": _rows_disjoint, "rows": _rows, "weights": _weights}
    if item.name in across:
        return across[item.name](item, arms)
    why = {name: arm.unknown[item.name] for name, arm in arms.items() if item.name in arm.unknown}
    why |= {name: "not observed" for name, arm in arms.items() if item.name not in {*arm.items, *arm.unknown}}
    if why:
        return None, f"{item.title}: not known in {' and '.join(why)} ({next(iter(why.values()))})"
    by_the_batch = {"steps": _steps, "rowsPerStep": _rows_per_step}
    if item.name in by_the_batch:
        return by_the_batch[item.name](item, arms, weak)
    return _input(item, arms) if item.name == "input" else _text(item, arms)


def _text(item: Item, arms: Mapping[str, ArmWork]) -> Known:
    return _equal(item, arms) if len({arm.items[item.name] for arm in arms.values()}) == 1 else _differ(item, arms)


def _equal(item: Item, arms: Mapping[str, ArmWork], but: str = "") -> Known:
    return True, f"{item.title}: equal in {'all arms' if len(arms) > 1 else next(iter(arms))}{but}"


def _differ(item: Item, arms: Mapping[str, ArmWork], fact: str = "", because: str = "") -> Known:
    by_arm = ", ".join(f"{name} {arm.items.get(fact or item.name, 'unknown')}" for name, arm in arms.items())
    return False, f"{item.title} DIFFER: {by_arm}{because}"


def _steps(item: Item, arms: Mapping[str, ArmWork], weak: bool) -> Known:
    """Compare steps; of whole epochs, these count: their number of steps follows from its rows, which are another
    item."""
    epochs = {arm.epochs for arm in arms.values()}
    if None not in epochs and len(epochs) > 1:
        rounds = {arm.items.get("rounds") for arm in arms.values()}  # another number that was asked for is another item
        what = "rounds" if None not in rounds else "epochs"
        return (
            None,
            f"the arms trained different numbers of {what}: {_differ(item, arms, 'epochs')[1].partition(': ')[2]}",
        )
    if weak or len({arm.items["steps"] for arm in arms.values()}) == 1:
        return _equal(item, arms)
    if None not in epochs:
        return None, _differ(item, arms, because=" in as many epochs")[1]
    return _differ(item, arms)


def _rows_per_step(item: Item, arms: Mapping[str, ArmWork], weak: bool) -> Known:
    rows, ranks = [arm.number(item.name) or 0.0 for arm in arms.values()], max(arm.ranks for arm in arms.values())
    of_all = any(arm.one_step_epochs for arm in arms.values())
    if weak:
        return None, SAME_ROWS if share_rows(arms) else WEAK
    if max(rows) == min(rows) or (of_all and max(rows) - min(rows) < ranks):
        return _equal(item, arms)
    if max(rows) - min(rows) < ranks:
        return None, _differ(item, arms, because=": the workers do not divide the batch")[1]
    because = ": every rank trains on all rows" if of_all and max(rows) == ranks * min(rows) else ""
    return _differ(item, arms, because=because)


def _rows(item: Item, arms: Mapping[str, ArmWork]) -> Known:
    """Compare rows of an epoch if all arms know their epochs, or were ended early; else of the run.

    Padding is less than a batch, or where a step goes over all rows less than a row a rank.
    """
    why = next((arm.unknown[item.name] for arm in arms.values() if item.name in arm.unknown), "")
    if why:
        return None, f"{item.title}: not known ({why})"
    by_epoch = all(arm.epochs is not None or "endedEarly" in arm.items for arm in arms.values())
    fact = "rowsPerEpoch" if by_epoch else item.name
    rows = [number for number in (arm.number(fact) for arm in arms.values()) if number is not None]
    if len(rows) < len(arms):
        if by_epoch and all("rowsPerStep" in arm.items for arm in arms.values()):
            return True, f"{item.title}: as many as steps of equal size have"
        return None, f"{item.title}: not known (not observed)"
    batch = max(arm.number("rowsPerStep") or 0.0 for arm in arms.values())
    of_all = any(arm.one_step_epochs for arm in arms.values())
    allowed = max(arm.ranks for arm in arms.values()) - 1 if of_all else max(0.0, batch - 1)
    if max(rows) - min(rows) <= allowed:
        return _equal(item, arms)
    if not by_epoch and max(rows) - min(rows) <= NEAR * max(rows):
        return None, _differ(item, arms, fact, ": some may have been read ahead")[1]
    return _differ(item, arms, fact)


def _input(item: Item, arms: Mapping[str, ArmWork]) -> Known:
    """Compare input: of one type, and the same number of numbers in all but for padding: of the rows, and if these vary
    in size, as in text, of each batch to its longest row."""
    if len({arm.items[item.name] for arm in arms.values()}) > 1:
        return _differ(item, arms)
    numbers = [arm.number("inputNumbers") for arm in arms.values()]
    known = [number for number in numbers if number]
    if len(known) < len(numbers):
        return _equal(item, arms)
    apart = max(known) / min(known)
    varies = all("inputVaries" in arm.items for arm in arms.values())
    if apart <= (MOST_PADDING if varies else 1 + _share_of_padding(arms)):
        return _equal(item, arms)
    known_to_differ = _differ(item, arms, "inputNumbers")
    return (None, f"{known_to_differ[1]}: rows vary in size") if varies else known_to_differ


def _share_of_padding(arms: Mapping[str, ArmWork]) -> float:
    """Return padding's share of an epoch's rows: less than a batch; if a step goes over all rows, less than a row a
    rank."""
    shares = []
    for arm in arms.values():
        rows = arm.number("rowsPerEpoch") or arm.number("rows")
        padding = arm.ranks if arm.one_step_epochs else arm.number("rowsPerStep")
        shares.append(padding / rows if padding and rows else 0.0)
    return max(shares)


def _weights(_: Item, arms: Mapping[str, ArmWork]) -> Known:
    apart = [
        f"{name}: {arm.items['weights']}" for name, arm in arms.items() if arm.items.get("weights", EQUAL) != EQUAL
    ]
    why = [f"{name}: {arm.unknown['weights']}" for name, arm in arms.items() if "weights" in arm.unknown]
    if apart:
        return False, "; ".join(apart)
    return (None, "; ".join(why)) if why else (True, EQUAL)


def _rows_disjoint(_: Item, arms: Mapping[str, ArmWork]) -> Known:
    why = {}
    for name, arm in arms.items():
        known, words = disjoint(arm) if arm.ranks > 1 else (True, "")
        if known is False:
            return False, f"{name}: {words}"
        if known is None:
            why[name] = words
    if why:
        return None, f"whether ranks share rows is not known in {' and '.join(why)} ({next(iter(why.values()))})"
    return True, "rows disjoint"


def disjoint(arm: ArmWork) -> Known:
    """Compare the rows of one arm's ranks: a number is the same row on two ranks if both read one data set."""
    shared, same = arm.number("sharedRows"), arm.items.get("sameDataSet")
    if shared is None or "rowsDisjoint" in arm.unknown:
        return None, arm.unknown.get("rowsDisjoint", "rows have no numbers that all ranks share")
    if same == "no":
        return None, "ranks have data sets of their own"
    if same is None:
        return None, "the data set holds its rows where they are not seen, so that it is not known to be one"
    if not shared:
        return True, "rows disjoint"
    if "drawnAgain" in arm.items:
        return None, "rows are drawn with replacement"
    return False, f"ranks SHARE {shared:g} rows: each trains on data of the others"


def of_results(results: Sequence[TrainingResult]) -> dict[str, Known]:
    """Compare every item of the results of one repeat."""
    several = len({result.arm for result in results}) < len(results)
    names = (f"{each.arm} with {each.recipe['workers']}" if several else each.arm for each in results)
    return compare({name: _of_result(result) for name, result in zip(names, results, strict=True)})


def _of_result(result: TrainingResult) -> ArmWork:
    prefix = "work."
    return ArmWork(
        ranks=result.world_size or len(result.workers),
        items=result.did,
        unknown={key.removeprefix(prefix): why for key, why in result.reasons.items() if key.startswith(prefix)},
    )
