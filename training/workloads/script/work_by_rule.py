"""Compares items whose values depend on chance or on data in a correct script: by the rule that made them. Pure.

Where the rule is not known, neither *equal* nor *different* is claimed.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from training.workloads.script.work_items import ArmWork, Item, Known

Rule = Callable[[Item, Mapping[str, ArmWork]], Known]

BY_CHANCE = ": by chance, by a metric, or by the number of workers"
HOW_OFTEN = ("trainedShare", "trainedShareError", "trainedAtTimes")
SAME_PHASE = 0.02
"""Share of the steps by which a phase may be longer in another arm and still count as the same."""
ERRORS = 3.0
"""Number of standard errors by which the shares of two arms may differ and still count as the same."""
FEW_LEFT_OUT, SHARE_LEFT_OUT = 4, 0.1
"""How many more steps, and how much larger a share of steps, a GradScaler may leave out in another arm by chance."""
SIZES = re.compile(r"(?<!\S)\d+:(tensors|numbers)=\d+ ?")
SCALED = 1e-5
"""Largest relative difference of equal rates, which are given to six digits."""


def compare_text(item: Item, arms: Mapping[str, ArmWork]) -> Known:
    """Return whether an item is the same text in all arms, as it has to be."""
    return equal(item, arms) if len({arm.items[item.name] for arm in arms.values()}) == 1 else differ(item, arms)


def equal(item: Item, arms: Mapping[str, ArmWork], but: str = "") -> Known:
    """Return that an item is equal in all arms, with a sentence that says so."""
    return True, f"{item.title}: equal in {'all arms' if len(arms) > 1 else next(iter(arms))}{but}"


def differ(item: Item, arms: Mapping[str, ArmWork], fact: str = "", because: str = "") -> Known:
    """Return that an item differs, with a sentence that names each arm's value of the item, or of `fact`."""
    by_arm = ", ".join(f"{name} {arm.items.get(fact or item.name, 'unknown')}" for name, arm in arms.items())
    return False, f"{item.title} DIFFER: {by_arm}{because}"


def _optimizers(item: Item, arms: Mapping[str, ArmWork]) -> Known:
    """Compare the steps of every optimizer. Whether another optimizer than the first steps may depend on its loss,
    unless the same number of other steps lies between any two of its steps."""
    counts = [_numbers(arm.items[item.name]) for arm in arms.values()]
    if left_out := _left_out(item, arms):
        return left_out
    if _step_by_chance(arms):
        return may_follow(item, arms)
    as_many = len({len(each) for each in counts}) == 1
    if not as_many or any(times_ranks(arms, each) for each in zip(*counts, strict=True)):
        return compare_text(item, arms)
    return may_follow(item, arms)


def _left_out(item: Item, arms: Mapping[str, ArmWork]) -> Known | None:
    """Return how arms differ in the steps that a GradScaler leaves out; None if chance may explain the difference. The
    difference is certain if one arm leaves out nearly all steps and another nearly none, and unknown if one arm leaves
    out clearly more."""
    counts = [_numbers(arm.items.get("stepsLeftOut", "0 of 1")) for arm in arms.values()]
    shares = [number / steps for number, steps in counts]
    are_few = max(number for number, _ in counts) - min(number for number, _ in counts) <= FEW_LEFT_OUT
    if max(shares) - min(shares) <= SHARE_LEFT_OUT or (are_few and max(shares) < 1):
        return None
    proof = not are_few and min(shares) <= SHARE_LEFT_OUT and max(shares) >= 1 - SHARE_LEFT_OUT
    return False if proof else None, differ(item, arms, "stepsLeftOut", " left out by a GradScaler")[1]


def _step_by_chance(arms: Mapping[str, ArmWork]) -> bool:
    return any("optimizersUneven" in arm.items for arm in arms.values())


def _differ_later(arms: Mapping[str, ArmWork]) -> bool:
    """Return whether some optimizers begin after the first pass, and those of that pass are the same in all arms."""
    return any("optimizersLater" in arm.items for arm in arms.values()) and _same(arms, "optimizersOfFirstPass")


def _same(arms: Mapping[str, ArmWork], *facts: str) -> bool:
    return all(len({arm.items.get(fact) for arm in arms.values()}) == 1 for fact in facts)


def _of_each_optimizer(rule: Rule, *, in_order: bool = True) -> Rule:
    """Return a rule that applies `rule` to an item with a value for every optimizer, unless chance decides which
    optimizers step.

    An optimizer may by chance never step in an arm, and if others step first there, nobody knows which is which; that
    matters if `in_order`. Optimizers that first step after the first pass, and their values, may follow a metric.
    """

    def compare_each(item: Item, arms: Mapping[str, ArmWork]) -> Known:
        counts = {len(_numbers(arm.items.get("optimizers", ""))) for arm in arms.values()}
        are_later = _differ_later(arms)
        if len(counts) > 1 and (are_later or _step_by_chance(arms)):
            return may_follow(item, arms)
        known = rule(item, arms)
        if known[0] is False and in_order and are_later:
            return None, f"{known[1]}{BY_CHANCE}"
        reordered = not _same(arms, "optimizersOrder") and _same(arms, "firstRates", "firstSettings")
        if known[0] and in_order and reordered:
            return None, f"{item.title}: equal, but optimizers step for the first time in another order"
        return known

    return compare_each


def _learning_rate(item: Item, arms: Mapping[str, ArmWork]) -> Known:
    """Compare learning rates. Rates that follow a metric differ by chance. For ReduceLROnPlateau the rule is compared
    instead, and where the script itself sets the rates, nobody knows their rule."""
    fixed = {arm.items.get("ratesFollow", "") for arm in arms.values()}
    rules = {arm.items.get("rateRules") for arm in arms.values()}
    if not _same(arms, "firstRates") or fixed == {"steps"} or _scaled(arms) or (fixed == {"metric"} and len(rules) > 1):
        return compare_text(item, arms)
    if fixed == {"metric"} and _same(arms, "highestRates"):
        return True, f"{item.title}: equal at first, and then by the same {' and '.join(map(str, rules))}"
    return may_follow(item, arms)


def _scaled(arms: Mapping[str, ArmWork]) -> bool:
    """Return whether the rates of one arm are those of another arm times its number of ranks."""
    return all(
        any(
            times_ranks(arms, each)
            for each in zip(*(_numbers(arm.items.get(name, "")) for arm in arms.values()), strict=False)
        )
        for name in ("highestRates", "meanRates")
    )


def _numbers(text: str) -> list[float]:
    """Return the numbers in a text; one that is followed by `(3 times)` is returned three times."""
    counted = re.findall(r"(\d[\d.]*(?:e[+-]\d+)?)(?: \((\d+) times\))?", text)
    return [float(number) for number, times in counted for _ in range(int(times or 1))]


def _hyperparameters(item: Item, arms: Mapping[str, ArmWork]) -> Known:
    """Compare the other settings of optimizers; settings that the script changes later may follow a metric."""
    if not all("parameters" in arm.items for arm in arms.values()) or not _same(arms, "parameters"):
        arms = {name: _without_sizes(arm) for name, arm in arms.items()}
    return may_follow(item, arms) if _same(arms, "firstSettings") else compare_text(item, arms)


def _without_sizes(arm: ArmWork) -> ArmWork:
    """Return the arm's work without sizes of parameter groups, which differ where the item `parameters` does."""
    return replace(arm, items={name: SIZES.sub("", text) for name, text in arm.items.items()})


def _trained(item: Item, arms: Mapping[str, ArmWork]) -> Known:
    """Compare the parameters that ever had a gradient; in which steps they have one may be drawn, or depend on rows."""
    if any("trainedEver" not in arm.items for arm in arms.values()):
        return compare_text(item, arms)
    ever = [arm.number("trainedEver") or 0.0 for arm in arms.values()]
    if max(ever) - min(ever) > max(arm.number("trainedSeldom") or 0.0 for arm in arms.values()):
        return differ(item, arms)
    phases = {arm.items.get("trainedPhases") for arm in arms.values()}
    shares = [arm.number("trainedPhaseShare") or 0.0 for arm in arms.values()]
    if len(set(ever)) == 1 and len(phases) == 1 and max(shares) - min(shares) <= SAME_PHASE and _as_often(arms):
        return equal(item, arms)
    return None, differ(item, arms, "trainedWhen", BY_CHANCE)[1]


def _as_often(arms: Mapping[str, ArmWork]) -> bool:
    """Return whether parameters may have gradients by the same rule in all arms, within the error of their shares. N
    ranks that draw for themselves have the gradients that any of them has: if one rank has the share s of the
    gradients, all together have at most the share 1 - (1 - s)^N."""
    fewest = min(arms.values(), key=lambda arm: arm.ranks)
    share, error, drawn = (fewest.number(name) or 0.0 for name in HOW_OFTEN)
    for arm in arms.values():
        without = (1 - share) ** (arm.ranks / fewest.ranks)
        of_arm, of_arm_error, of_arm_drawn = (arm.number(name) or 0.0 for name in HOW_OFTEN)
        apart = ERRORS * (error**2 + of_arm_error**2) ** 0.5
        if not share - apart <= of_arm <= 1 - without + apart or (of_arm_drawn and not drawn):
            return False
        if drawn and not of_arm_drawn and without * (arm.number("steps") or 0.0) >= 1:
            return False
    return True


def may_follow(item: Item, arms: Mapping[str, ArmWork], fact: str = "") -> Known:
    """Compare a text that may differ between correct runs of a script that looks at its loss or at a metric; a
    difference is unknown, not wrong."""
    if len({arm.items[fact or item.name] for arm in arms.values()}) == 1:
        return equal(item, arms)
    return None, differ(item, arms, fact, BY_CHANCE)[1]


def times_ranks(arms: Mapping[str, ArmWork], numbers: Sequence[float]) -> bool:
    """Return whether the number of an arm with several ranks is that of an arm with one rank, times the number of ranks
    or divided by it."""
    alone = [number for arm, number in zip(arms.values(), numbers, strict=True) if arm.ranks == 1]
    of_many = [(arm.ranks, number) for arm, number in zip(arms.values(), numbers, strict=True) if arm.ranks > 1]
    return any(
        math.isclose(number, number_alone * factor, rel_tol=SCALED) and number
        for number_alone in alone
        for ranks, number in of_many
        for factor in (ranks, 1 / ranks)
    )


BY_RULE: Mapping[str, Rule] = {
    "optimizers": _of_each_optimizer(_optimizers),
    "parameters": _of_each_optimizer(compare_text, in_order=False),
    "learningRate": _of_each_optimizer(_learning_rate),
    "hyperparameters": _of_each_optimizer(_hyperparameters),
    "trained": _trained,
    "validation": may_follow,
}
"""Rules for items whose values may depend on chance or on data in a correct script; the rule that made the values is
compared, as far as it is known."""
