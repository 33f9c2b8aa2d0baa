"""Compares arms by the list that claim A rests on. Pure.

An item that differs between arms makes them not comparable. One that is not known leaves a lower claim. What an arm did
is text, item by item, so that it can stand in its result; `docs/own-script.md` has the table of ITEMS.
"""

import math
from collections.abc import Mapping, Sequence

from training.contract.result import PROOF, SAME_BUT, TrainingResult
from training.workloads.script.work_by_rule import BY_RULE, compare_text, differ, equal, may_follow, times_ranks
from training.workloads.script.work_items import EQUAL, ITEMS, PROVED, TREES, ArmWork, Item, Known

WEAK = (
    "weak scaling: each worker has as many rows a step as one process alone, so N workers take N times as many rows "
    "for each update of the weights. To give every arm the same batch, divide it by the number of workers, as in "
    "DataLoader(batch_size=batch // world_size)"
)

SAME_ROWS = (
    "each worker has as many rows a step as one process alone, because workers read the same rows: N workers do the "
    "work of one N times"
)


FOLLOW_STEPS = ("optimizers", "input", "trained", "learningRate", "hyperparameters", "validation")
"""Items that are not compared if arms made different numbers of steps."""
FOLLOW_BATCH = ("rows", "input", "learningRate", "optimizers")
"""Items that are not compared for arms whose batch grows with the number of ranks."""
MOST_VARIED = 1.5
"""Largest ratio of input numbers that counts as equal where a step calls the network as often as it finds best."""
ALIKE = 1.01
"""Largest ratio of input numbers of a row, on average, that counts as equal where a model's first batch is not seen, or
one is read ahead."""
NEAR = 0.1
"""Share of the rows by which runs with unknown epochs may differ, because a script reads ahead."""


def compare(arms: Mapping[str, ArmWork]) -> dict[str, Known]:
    """Return for every item that concerns these arms whether the arms are equal in it, by the item's name."""
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
    """Return whether a step of N ranks has N times the rows of one process, so that the batch is each worker's own."""
    alone, together = arms.get("baseline"), arms.get("ray") or arms.get("native")
    if not alone or not together or together.ranks == 1 or alone.one_step_epochs:
        return False
    rows, of_one = together.number("rowsPerStep"), alone.number("rowsPerStep")
    return bool(rows and of_one and rows == together.ranks * of_one)


def share_rows(arms: Mapping[str, ArmWork]) -> bool:
    """Return whether ranks of an arm are known to train on the same rows; for boosters, on all rows."""
    alone = arms.get("baseline")
    rows = alone.number("rowsPerStep") if alone and alone.one_step_epochs else None
    several = [arm for arm in arms.values() if arm.ranks > 1]
    return any(
        disjoint(arm)[0] is False or (rows is not None and arm.number("rowsPerStep") == arm.ranks * rows)
        for arm in several
    )


def _compared(item: Item, arms: Mapping[str, ArmWork], weak: bool) -> Known:
    across = {PROOF: _proof, TREES: _trees, "rowsDisjoint": _rows_disjoint, "rows": _rows, "weights": _weights}
    if item.name in across:
        return across[item.name](item, arms)
    why = {name: arm.unknown[item.name] for name, arm in arms.items() if item.name in arm.unknown}
    why |= {name: "not observed" for name, arm in arms.items() if item.name not in {*arm.items, *arm.unknown}}
    if why:
        return None, f"{item.title}: not known in {' and '.join(why)} ({next(iter(why.values()))})"
    by_the_batch = {"steps": _steps, "rowsPerStep": _rows_per_step}
    if item.name in by_the_batch:
        return by_the_batch[item.name](item, arms, weak)
    return {"input": _input, **BY_RULE}.get(item.name, compare_text)(item, arms)


def _steps(item: Item, arms: Mapping[str, ArmWork], weak: bool) -> Known:
    """Compare the numbers of steps; if all epochs are whole, compare the numbers of epochs, because an epoch's steps
    follow from its rows, which are another item."""
    epochs = {arm.epochs for arm in arms.values()}
    if None not in epochs and len(epochs) > 1:
        rounds = {arm.items.get("rounds") for arm in arms.values()}  # another number that was asked for is another item
        what = "rounds" if None not in rounds else "epochs"
        return (
            None,
            f"the arms trained different numbers of {what}: {differ(item, arms, 'epochs')[1].partition(': ')[2]}",
        )
    if weak or len({arm.items["steps"] for arm in arms.values()}) == 1:
        return equal(item, arms)
    if None not in epochs:
        return None, differ(item, arms, because=" in as many epochs")[1]
    steps = [arm.number(item.name) or 0.0 for arm in arms.values()]
    return compare_text(item, arms) if times_ranks(arms, steps) else may_follow(item, arms)


def _rows_per_step(item: Item, arms: Mapping[str, ArmWork], weak: bool) -> Known:
    rows, ranks = [arm.number(item.name) or 0.0 for arm in arms.values()], max(arm.ranks for arm in arms.values())
    of_all = any(arm.one_step_epochs for arm in arms.values())
    if weak:
        return None, SAME_ROWS if share_rows(arms) else WEAK
    if max(rows) == min(rows) or (of_all and max(rows) - min(rows) < ranks):
        return equal(item, arms)
    if max(rows) - min(rows) < ranks:
        return None, differ(item, arms, because=": the workers do not divide the batch")[1]
    if len({arm.items.get("largestStep") for arm in arms.values()}) == 1 and all(
        "rowsPerStepVary" in arm.items for arm in arms.values()
    ):
        return may_follow(item, arms)
    because = ": every rank trains on all rows" if of_all and max(rows) == ranks * min(rows) else ""
    return differ(item, arms, because=because)


def _rows(item: Item, arms: Mapping[str, ArmWork]) -> Known:
    """Compare how many rows arms have; if as many, also how many came again in a pass, and their data set."""
    known = _how_many_rows(item, arms)
    if not known[0]:
        return known
    again = [number for number in (arm.number("rowsAgain") for arm in arms.values()) if number is not None]
    batch = max(arm.number("rowsPerStep") or 0.0 for arm in arms.values())
    if len(again) == len(arms) and max(again) - min(again) >= max(arm.ranks for arm in arms.values()):
        is_known = min(again) < batch <= max(again) - min(again) and _as_many_steps(arms)
        return (False if is_known else None), differ(item, arms, "rowsAgain", because=" come again in a pass")[1]
    if len({arm.items.get("dataSet") for arm in arms.values() if arm.ranks == 1 or "dataSet" in arm.items}) > 1:
        return None, f"{item.title}: the arms are not known to read the same data set"
    return known


def _as_many_steps(arms: Mapping[str, ArmWork]) -> bool:
    return len({arm.items.get("steps") for arm in arms.values()}) == 1


def _how_many_rows(item: Item, arms: Mapping[str, ArmWork]) -> Known:
    """Compare the rows of an epoch if all arms know their epochs or were ended early; otherwise those of the run. Rows
    may differ by padding: less than a batch, or, where a step goes over all rows, less than one row for each rank."""
    why = next((arm.unknown[item.name] for arm in arms.values() if item.name in arm.unknown), "")
    if why:
        return None, f"{item.title}: not known ({why})"
    are_whole = all(arm.epochs is not None or "endedEarly" in arm.items for arm in arms.values())
    by_epoch = are_whole or not _as_many_steps(arms)
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
        return equal(item, arms)
    if not by_epoch and max(rows) - min(rows) <= NEAR * max(rows):
        return None, differ(item, arms, fact, ": some may have been read ahead")[1]
    return differ(item, arms, fact)


def _input(item: Item, arms: Mapping[str, ArmWork]) -> Known:
    """Compare the model's input: equal if type and numbers per row are, apart from rows with which a sampler pads."""
    one_type = len({arm.items[item.name] for arm in arms.values()}) == 1
    if _first_module_is_drawn(arms):
        return may_follow(item, arms, "inputNumbers" if one_type else item.name)
    if not one_type:
        return differ(item, arms)
    return _numbers(item, arms) if all(arm.number("inputNumbers") for arm in arms.values()) else equal(item, arms)


def _numbers(item: Item, arms: Mapping[str, ArmWork]) -> Known:
    apart = _apart(arms, "inputNumbers")
    is_padding = apart <= 1 + _share_of_padding(arms)
    same_largest = len({arm.items.get("inputLargest") for arm in arms.values()}) == 1
    varies = all("inputVaries" in arm.items for arm in arms.values())
    if apart == 1 or (is_padding and _apart(arms, "inputOfRow") <= (ALIKE if same_largest else 1)):
        return equal(item, arms)
    if same_largest and all("inputSizes" in arm.items for arm in arms.values()):
        return may_follow(item, arms, "inputNumbers")
    if varies and same_largest and apart <= MOST_VARIED:
        return equal(item, arms)
    known_to_differ = differ(item, arms, "inputNumbers")
    why = ": rows vary in size" if varies else ": no more than rows that pad an epoch" if is_padding else ""
    return (None, known_to_differ[1] + why) if why else known_to_differ


def _apart(arms: Mapping[str, ArmWork], fact: str) -> float:
    """Return the ratio of the largest to the smallest number of the arms; infinity if a number is unknown."""
    numbers = [arm.number(fact) or 0.0 for arm in arms.values()]
    return max(numbers) / min(numbers) if min(numbers) else math.inf


def _first_module_is_drawn(arms: Mapping[str, ArmWork]) -> bool:
    """Return whether the module whose input was seen is called only now and then, because other modules are the first
    in other steps. That must hold in all arms, or in some if all of those have parameters with gradients only now and
    then."""
    at_times = [arm for arm in arms.values() if "inputAtTimes" in arm.items]
    return len(at_times) == len(arms) or (bool(at_times) and all(arm.number("trainedAtTimes") for arm in at_times))


def _share_of_padding(arms: Mapping[str, ArmWork]) -> float:
    """Return the share of padding in an epoch's rows: less than a batch, or, if a step goes over all rows, less than
    one row for each rank."""
    shares = []
    for arm in arms.values():
        rows = arm.number("rowsPerEpoch") or arm.number("rows")
        padding = arm.ranks if arm.one_step_epochs else arm.number("rowsPerStep")
        shares.append(padding / rows if padding and rows else 0.0)
    return max(shares)


def _proof(item: Item, arms: Mapping[str, ArmWork]) -> Known:
    """Return what was proved about the ranks; arms of one process have nothing to prove."""
    others = sorted({arm.items[item.name] for arm in arms.values() if item.name in arm.items} - {PROVED})
    if not others:
        return True, "proved: ranks do the work of one process"
    other = next((text for text in others if not text.startswith(SAME_BUT)), "")
    if other:
        return None, f"proved: ranks do {other}"
    return True, f"proved: ranks do {others[0]}, as the ranks of any distributed version do"


def _trees(item: Item, arms: Mapping[str, ArmWork]) -> Known:
    return None, next(arm.items[item.name] for arm in arms.values() if item.name in arm.items)


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
    """Return whether the ranks of one arm had different rows; a row's number is the same row on two ranks only if both
    read one data set."""
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
    """Compare the results of one repeat, and return for every item whether they are equal."""
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
