"""Combines the work of one run's ranks into the text by which arms are compared. Pure."""

import functools
import itertools
import math
import operator
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from training.workloads.script.observations import BOOSTERS, RLLIB, MarkedPass, Observation, Optimizer, Trained
from training.workloads.script.work_items import EQUAL, ITEMS, ArmWork

APART = 1.0
"""How many more steps than twice the usual number an optimizer may make between two steps that count; one that makes
more goes its own way."""
DRAWN_AGAIN = 0.02
"""If a larger share of the rows of a pass than this was delivered twice, rows were drawn with replacement; a sampler
pads with fewer."""

FOLLOW = {"steps": ("epochs", "endedEarly", "stepOfAllRows"), "rows": ("rowsPerEpoch",)}
"""Facts that are unknown whenever the item they belong to is unknown, by item."""
SEVERAL = "more than one data set was trained on"
PARTS = "ranks hold parts of the weights"
ALONE = "some ranks train with an optimizer that others do not have"


def together(seen: Sequence[Observation]) -> ArmWork:
    """Return the work of one run; `seen` has the observations of its ranks, at least one."""
    items: dict[str, str] = {}
    unknown: dict[str, str] = {}
    for part in (_steps, _rows, _which_rows, _model, _weights, _learning, _training_arguments):
        known, missing = part(seen)
        items |= known
        unknown |= missing
    not_of_all = _not_of_all_ranks(seen, items.get("sharedRows"))
    for item in ITEMS:
        if why := lost(item.name, seen) or not_of_all.get(item.name, ""):
            unknown[item.name] = why
            for name in (item.name, *item.facts, *FOLLOW.get(item.name, ())):
                items.pop(name, None)
    return ArmWork(ranks=seen[0].world if seen[0].framework == RLLIB else len(seen), items=items, unknown=unknown)


def lost(item: str, seen: Sequence[Observation]) -> str:
    """Return why an item is unknown because the observer failed in a rank; "" otherwise."""
    return next((observation.lost[item] for observation in seen if item in observation.lost), "")


def no_steps(seen: Sequence[Observation]) -> str:
    """Return why the steps of ranks can't be compared; "" if they can."""
    return lost("steps", seen) or (ALONE if first_alone(seen) else "")


Part = tuple[dict[str, str], dict[str, str]]
"""The items that are known, and the reasons why others are unknown."""


def _steps(seen: Sequence[Observation]) -> Part:
    first = seen[0]
    if first.framework == RLLIB:
        return {}, {"steps": "how many iterations a run takes follows from what its runners sampled"}
    lengths = [len(observation.step_ends) for observation in seen]
    items = {"steps": str(max(lengths) if are_uneven(seen) else min(lengths))}
    if first.ended_early:
        items["endedEarly"] = "yes"
    elif first.has_whole_epochs:
        items["epochs"] = str(len(first.pass_steps))
    if set(first.pass_steps) == {1}:
        items["stepOfAllRows"] = "yes"
    if first.framework != "torch":
        return items, {}
    if why := _apart(first):
        return items, {"optimizers": why}
    items["optimizers"] = _and_so_on(" + ", (str(each.steps) for each in _in_order(first)))
    if first.work.optimizers:
        most = max(first.work.optimizers, key=lambda each: each.left_out / each.steps)
        items["stepsLeftOut"] = f"{most.left_out} of {most.steps}"
    if any(not each.even for each in first.work.optimizers):
        items["optimizersUneven"] = "yes"
    items["optimizersOrder"] = _and_so_on(" | ", (str(_at_first(each)) for each in first.work.optimizers))
    of_first_pass = [each for each in _in_order(first) if each.first < next(iter(first.pass_steps), math.inf)]
    items["optimizersOfFirstPass"] = _and_so_on(" | ", (str(_at_first(each)) for each in of_first_pass))
    if len(of_first_pass) < len(first.work.optimizers):
        items["optimizersLater"] = "yes"
    return items, {}


def _in_order(observation: Observation) -> list[Optimizer]:
    """Return the optimizers in an order that does not depend on which of them happened to step first."""
    return sorted(observation.work.optimizers, key=_at_first)


def _at_first(optimizer: Optimizer) -> tuple[list[float], tuple[str, ...]]:
    return [rates[0] for rates in optimizer.rates], optimizer.settings[:1]


def are_uneven(seen: Sequence[Observation]) -> bool:
    """Return whether ranks made different numbers of steps, but only within Joins, whose last rank steps for all."""
    joins = {len(observation.work.joins) for observation in seen}
    if len(joins) > 1 or joins == {0}:
        return False
    return len({len(observation.step_ends) - observation.work.joins[-1] for observation in seen}) == 1


def first_alone(seen: Sequence[Observation]) -> tuple[int, int] | None:
    """Return at which point some ranks first step with an optimizer that others do not have; None if no rank does. The
    point is the number of Joins that had ended, and the number of steps since the last of them."""
    starts = [
        Counter(_since_join(observation, each.first) for each in observation.work.optimizers) for observation in seen
    ]
    return min(functools.reduce(operator.or_, starts) - functools.reduce(operator.and_, starts), default=None)


def _not_of_all_ranks(seen: Sequence[Observation], shared_rows: str | None) -> dict[str, str]:
    """Return the items that can't be added up over ranks, and why; ranks with parts of a layer need the same rows."""
    if first_alone(seen):
        return dict.fromkeys(("steps", "rowsPerStep", "rows", "rowsDisjoint"), ALONE)
    if len(seen) > 1 and shared_rows != "0" and _hold_parts(seen):
        return dict.fromkeys(("rowsPerStep", "rows", "rowsDisjoint", "input"), f"{PARTS}, and may need the same rows")
    return {}


def _hold_parts(seen: Sequence[Observation]) -> bool:
    parameters = {observation.work.parameters for observation in seen}
    return seen[0].framework not in (*BOOSTERS, RLLIB) and (len(parameters) > 1 or None in parameters)


def _apart(observation: Observation) -> str:
    """Return a note if an optimizer makes many steps that the clock does not count, or is not recorded; else ""."""
    if observation.work.more_optimizers:
        return f"{observation.work.more_optimizers} optimizers more than are told apart made steps"
    for number, each in enumerate(observation.work.optimizers, 1):
        usual = (each.steps - each.most_between) / max(1, each.rounds - 1)
        if each.most_between > APART + 2 * max(1.0, usual):
            return f"optimizer {number} made {each.most_between} steps between two that count"
    return ""


def _and_so_on(separator: str, texts: Iterable[str]) -> str:
    """Join the texts; equal texts that follow each other are written once, with their count."""
    groups = [(text, len(list(equal))) for text, equal in itertools.groupby(texts)]
    return separator.join(f"{text} ({count} times)" if count > 1 else text for text, count in groups)


def _rows(seen: Sequence[Observation]) -> Part:
    counted = [observation.rows_per_step for observation in seen]
    if None in counted:
        reported = seen[0].reported_rows
        why = f"{reported} as the script says, not counted" if reported else "no DataLoader delivered them step by step"
        why = (
            "a thread beside the training read them ahead"
            if any(observation.rows_ahead for observation in seen)
            else why
        )
        return {}, {"rowsPerStep": why, "rows": why}
    items = {"rowsPerStep": _text(sum(rows for rows in counted if rows))}
    items["largestStep"] = str(sum(max(observation.rows_of_steps) for observation in seen))
    if all(len(set(observation.rows_of_steps)) > 1 for observation in seen):
        items["rowsPerStepVary"] = "yes"
    in_all, of_epoch = [observation.rows for observation in seen], [observation.epoch_rows for observation in seen]
    unknown = {} if None not in in_all else {"rows": SEVERAL}
    if not unknown:
        items["rows"] = _text(sum(rows for rows in in_all if rows))
    if None not in of_epoch:
        items["rowsPerEpoch"] = _text(sum(rows for rows in of_epoch if rows))
    return items | _which_data(seen), unknown


def _which_data(seen: Sequence[Observation]) -> dict[str, str]:
    """Return a digest of the data set, if all ranks read the same one, and how many rows came again on the same rank. A
    row counts if it came in place of another, which padding does not do; the count is the largest of any marked
    pass."""
    contents = {observation.dataset_content for observation in seen}
    items = {"dataSet": str(*contents)} if len(contents) == 1 and None not in contents else {}
    dataset_rows = max(observation.dataset_rows or 0 for observation in seen)
    again = [
        min(dataset_rows, sum(each.drawn for each in ranks)) - sum(each.delivered for each in ranks)
        for ranks in zip(*(observation.marked or () for observation in seen), strict=False)
    ]
    return items | ({"rowsAgain": str(max(0, *again))} if again else {})


def _which_rows(seen: Sequence[Observation]) -> Part:
    """Return the most rows that two ranks shared in a pass, beyond those with which a sampler pads."""
    if len(seen) == 1:
        return {}, {}
    of_ranks = [observation.marked or () for observation in seen]
    together = list(zip(*of_ranks, strict=False))
    if not together or any(len({len(each.rows) for each in ranks}) > 1 for ranks in together):
        return {}, {"rowsDisjoint": "rows have no numbers that all ranks share"}
    if not all(observation.rows_of_all_steps for observation in seen):
        return {}, {"rowsDisjoint": SEVERAL}
    starts = zip(seen, of_ranks, strict=True)
    if len({tuple(_since_join(rank, each.start) for each in marked) for rank, marked in starts}) > 1:
        return {}, {"rowsDisjoint": "ranks begin their passes over the data set at different steps"}
    items = dict[str, str]()
    contents = {observation.dataset_identity for observation in seen}
    if None not in contents:
        items["sameDataSet"] = "yes" if len(contents) == 1 else "no"
    dataset_rows, batch = (
        max(observation.dataset_rows or 0 for observation in seen),
        sum(observation.rows_per_step or 0 for observation in seen),
    )
    in_marked = max(_shared_of_pass(ranks, dataset_rows, batch) for ranks in together)
    items["sharedRows"] = str(max(in_marked, _same_rows([observation.pass_sums for observation in seen])))
    if any(each.drawn - each.delivered > DRAWN_AGAIN * each.drawn for ranks in together for each in ranks):
        items["drawnAgain"] = "yes"
    return items, {}


def _since_join(observation: Observation, step: int) -> tuple[int, int]:
    """Return how many Joins had ended before a step, and how many steps it lies after the last of them."""
    ended = [end for end in observation.work.joins if end <= step]
    return len(ended), step - (ended[-1] if ended else 0)


def _shared_of_pass(ranks: Sequence[MarkedPass], dataset_rows: int, batch: float) -> int:
    """Return the number of rows that ranks shared in one pass of all ranks over a data set with `dataset_rows` rows.
    Rows of padding are not counted: there are as many as all ranks drew beyond `dataset_rows`, and always fewer than a
    batch."""
    shared, padding = _shared([each.rows for each in ranks]), sum(each.drawn for each in ranks) - dataset_rows
    least = min(each.delivered for each in ranks)
    return 0 if shared <= max(0, padding) and shared < batch and 2 * shared < least else shared


def _same_rows(of_ranks: Sequence[Sequence[tuple[int, ...]]]) -> int:
    """Return how many rows two ranks had in a pass in which both had the same rows: the most of any pass, or 0. A pass
    is compared only if no other pass of its rank began at the same step."""
    counts = [Counter(start for start, *_ in passes) for passes in of_ranks]
    alone = [
        {each for each in passes if each[1] and count[each[0]] == 1}
        for passes, count in zip(of_ranks, counts, strict=True)
    ]
    same = [each[1] for first, second in itertools.combinations(alone, 2) for each in first & second]
    return max(same, default=0)


def _shared(marks: Sequence[bytes]) -> int:
    shared = 0
    for first, second in itertools.combinations(marks, 2):
        shared += (int.from_bytes(first, "big") & int.from_bytes(second, "big")).to_bytes(len(first), "big").count(1)
    return shared


def _model(seen: Sequence[Observation]) -> Part:
    """Return the parameters of the model, which of them were trained, and what entered the first module."""
    items, unknown = dict[str, str](), dict[str, str]()
    if seen[0].framework not in (*BOOSTERS, RLLIB):
        trained = [observation.work.trained for observation in seen if observation.work.trained]
        if _hold_parts(seen) or len(trained) < len(seen):
            unknown |= dict.fromkeys(("parameters", "trained"), PARTS)
        else:
            items["parameters"] = str(seen[0].work.parameters)
            if len({each.ever for each in trained}) == 1:
                items |= _trained(trained[0])
            else:
                unknown["trained"] = "each rank has gradients of other parameters"
    if seen[0].framework in ("torch", *BOOSTERS):
        known, missing = _inputs(seen)
        items, unknown = items | known, unknown | missing
    return items, unknown


def _trained(trained: Trained) -> dict[str, str]:
    """Return how many numbers of the parameters ever had a gradient, and how many only in some steps."""
    phases = {"atFirst": trained.at_first, "later": trained.later, "atTimes": trained.at_times}
    words = {"atFirst": "at first only", "later": "later only", "atTimes": "now and then"}
    some = "".join(f", of them {number} {words[phase]}" for phase, number in phases.items() if number)
    facts = {
        "trainedEver": trained.ever,
        "trainedAtTimes": trained.at_times,
        "trainedSeldom": trained.seldom,
        "trainedWhen": f"{trained.ever}{some} ({trained.share:.0%} in a step)",
        "trainedPhaseShare": repr(trained.phase_share),
        "trainedPhases": f"{trained.at_first}, {trained.later}",
        "trainedShare": repr(trained.share),
        "trainedShareError": repr(trained.share_error),
    }
    return {"trained": f"{trained.ever}{some}"} | {name: str(fact) for name, fact in facts.items()}


def _inputs(seen: Sequence[Observation]) -> Part:
    inputs = [observation.work.inputs for observation in seen if observation.work.inputs]
    if len(inputs) < len(seen):
        why = next(observation.work.no_input for observation in seen if not observation.work.inputs)
        return {}, dict.fromkeys(("input", "autocast"), why)
    items = {"input": " + ".join(sorted({kind for each in inputs for kind in each.types}))}
    if seen[0].framework == "torch":
        items["inputNumbers"] = str(sum(each.numbers for each in inputs))
        items["autocast"] = " + ".join(sorted({kind for each in inputs for kind in each.autocast}))
        items |= {"inputVaries": "yes"} if any(each.varies for each in inputs) else {}
        items["inputLargest"] = str(sum(max(each.sizes, default=0) for each in inputs))
        items |= {"inputSizes": "several"} if all(len(each.sizes) > 1 for each in inputs) else {}
        items |= {"inputAtTimes": "yes"} if any(observation.work.steps_without_input for observation in seen) else {}
        of_steps = [rank.step_rows for rank in seen if rank.step_rows and rank.rows_of_all_steps]
        if len(of_steps) == len(seen) and (rows := sum(each[-1] - each[0] for each in of_steps)):
            items["inputOfRow"] = f"{sum(each.numbers for each in inputs) / rows:.9g}"
    else:
        items["input"] = f"{inputs[0].numbers} features"
    return items, {}


def _weights(seen: Sequence[Observation]) -> Part:
    equal, words = weights_equal(seen)
    return ({}, {"weights": words}) if equal is None else ({"weights": words or EQUAL}, {})


def _learning(seen: Sequence[Observation]) -> Part:
    """Return learning rates and other settings of the optimizers. The rates have six digits, so that rates which a
    schedule computes in another order are the same."""
    rates = [_rates(observation) for observation in seen]
    items = {"learningRate": _each_once(rates)} if all(rates) else {}
    items |= _rules(seen) if items else {}
    if seen[0].framework == "torch":
        items["hyperparameters"] = _each_once(
            _and_so_on(" | ", (", then ".join(each.settings) for each in _in_order(observation)))
            for observation in seen
        )
        items["firstSettings"] = _each_once(
            _and_so_on(" | ", ("".join(each.settings[:1]) for each in _in_order(observation))) for observation in seen
        )
    if seen[0].framework not in (*BOOSTERS, RLLIB):
        items["validation"] = str(max(observation.validations for observation in seen))
    return items, {}


def _rates(observation: Observation) -> str:
    groups = [rate for each in _in_order(observation) for rate in each.rates]
    return _and_so_on(", ", (_course(*of_group) for of_group in groups))


def _course(_: float, highest: float, mean: float, centre: float | None = None, square: float = 0.0) -> str:
    """Return the learning rates of a parameter group as text, which is equal for rates that took the same course."""
    if f"{highest:.6g}" == f"{mean:.6g}":
        return f"{highest:.6g}"
    course = "" if centre is None else f", centre at {centre:.6g} of the steps, root mean square {square:.6g}"
    return f"{highest:.6g} (mean {mean:.6g}{course})"


def _rules(seen: Sequence[Observation]) -> dict[str, str]:
    """Return each group's first, highest and mean learning rates, and, if known, what set them: a metric or steps."""
    of_ranks = [[rates for each in _in_order(observation) for rates in each.rates] for observation in seen]
    items = {
        name: _each_once(_and_so_on(", ", (f"{rates[place]:.6g}" for rates in groups)) for groups in of_ranks)
        for place, name in enumerate(("firstRates", "highestRates", "meanRates"))
    }
    schedules = [schedule for observation in seen for schedule in observation.work.schedules]
    if any(observation.work.rates_by_hand for observation in seen) or not all(
        schedule.follows and schedule.even for schedule in schedules
    ):
        return items
    if seen[0].framework != "torch":
        return items
    follows = {schedule.follows for schedule in schedules}
    items["ratesFollow"] = "metric" if "metric" in follows else "steps"
    items["rateRules"] = _each_once(
        _and_so_on(" + ", sorted(schedule.rule for schedule in observation.work.schedules)) for observation in seen
    )
    return items


def _training_arguments(seen: Sequence[Observation]) -> Part:
    """Return the arguments of a booster's `train`, or the number of epochs of Keras' `fit`."""
    items = {} if seen[0].work.rounds is None else {"rounds": str(seen[0].work.rounds)}
    if seen[0].framework not in BOOSTERS:
        return items, {}
    items["boosterParameters"] = _each_once(observation.work.booster_parameters or "" for observation in seen)
    unknown = {"rowsDisjoint": "a DMatrix or Dataset has no numbers of its rows"} if len(seen) > 1 else {}
    return items, unknown


def weights_equal(seen: Sequence[Observation]) -> tuple[bool | None, str]:
    """Return whether weights are equal on all ranks, after each step at which all ranks looked and at the end; None if
    unknown. The text says why."""
    why = lost("weights", seen)
    if len(seen) == 1 or why:
        return (True, "") if len(seen) == 1 else (None, why)
    alone, ends = first_alone(seen), [observation.work.ends for observation in seen]
    parts = alone is None and len({observation.work.parameters for observation in seen}) > 1
    alike = len({frozenset(each) for each in ends}) == 1
    apart = sorted([*_apart_at([each.work.digests for each in seen]), *(_apart_at(ends) if alike else ())])
    apart = [at for at in apart if alone is None or at < alone]
    if apart and not parts:
        joins, steps = apart[0]
        what = (
            f"gradients DIFFER between ranks after Join {joins} and"
            if joins and steps
            else "weights DIFFER between ranks after"
        )
        return False, f"{what} step {steps}: gradients are not synchronised"
    known = (None, PARTS if parts else ALONE) if alone or parts else _apart_in_joins(seen)
    if known:
        return known
    last = {observation.weights for observation in seen}
    if len(last) > 1 and None not in last:
        return False, "weights DIFFER between ranks: gradients are not synchronised"
    why = _not_looked_at(seen)
    return (None, why) if why else (True, EQUAL)


def _not_looked_at(seen: Sequence[Observation]) -> str:
    """Return why weights are not known to be equal although no digests differ; "" if all models' were seen."""
    if None in [observation.weights for observation in seen]:
        notes = (note for observation in seen for note in observation.notes if "weights" in note)
        return next(notes, "no digest of the weights")
    ends = [observation.work.ends for observation in seen]
    if len({frozenset(each) for each in ends}) > 1:
        return "ranks trained models one after another at steps of their own"
    if any(None in each.values() for each in ends):
        return "the weights of a model that was trained before another were gone when they were looked at"
    return ""


Digests = Mapping[tuple[int, int], str | None]
"""Digests of one rank's weights, by (Joins, steps); None where a digest is missing."""


def _apart_at(digests: Sequence[Digests]) -> list[tuple[int, int]]:
    """Return the places (Joins, steps) at which all ranks have a digest and the digests differ."""
    common = set.intersection(*(set(each) for each in digests))
    of_ranks = {at: {each[at] for each in digests} for at in common}
    return [at for at, each in of_ranks.items() if len(each) > 1 and None not in each]


def _apart_in_joins(seen: Sequence[Observation]) -> tuple[bool | None, str] | None:
    """Return (False, why) if weights differ within a Join, (None, why) if they only may differ, and None if they are
    equal. A rank that waited in an earlier Join has missed steps of its optimizer's momentum, so its weights may
    differ."""
    common = set.intersection(*(set(observation.work.in_joins) for observation in seen))
    apart = [at for at in sorted(common) if len({observation.work.in_joins[at] for observation in seen}) > 1]
    if not apart:
        return None
    joins, steps = apart[0]
    if len({observation.work.joins[:joins] for observation in seen}) > 1:
        return None, "a rank missed steps within a Join, and its weights differ in later ones, as by its momentum"
    return False, f"weights DIFFER between ranks after Join {joins} and step {steps}: gradients are not synchronised"


def _each_once(texts: Iterable[str]) -> str:
    """Join the different texts of ranks; a text that several ranks have is written once."""
    return " and ".join(dict.fromkeys(texts))


def _text(rows: float) -> str:
    return f"{statistics.fmean([rows]):g}" if rows < 1e6 else str(round(rows))
