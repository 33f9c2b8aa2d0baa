"""What observations say of an arm, and arms of each other: true, false, or None where it can't be known. Pure."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from training.workloads.script.observations import RLLIB, Observation

T = TypeVar("T")
Known = tuple[bool | None, str]
"""A fact with its words."""


@dataclass(frozen=True, kw_only=True)
class ArmFacts:
    """One run, seen over all its ranks."""

    arm: str
    ranks: int
    """Processes that trained; of RLlib runners that sampled."""
    expected_ranks: int
    ray: bool
    """Whether Ray ran."""
    steps: int
    """Of the rank that made the fewest."""
    step_seconds: float | None
    report_seconds: float
    """Of one call of `ray.train.report`."""
    report_share: float
    """What reports were of the time between the first step's end and the last's."""
    rows_per_step: float | None
    """Over all ranks."""
    rows_known: str
    """`counted`, `reported`, or `unknown`."""
    rows_per_epoch: int | None
    steps_per_epoch: int | None
    weights_equal: Known
    rows_disjoint: Known
    weights: str | None
    """The digest that all ranks have."""
    threads: tuple[int, ...]
    """Compute threads of a process, each number once; empty where they are not known of every rank."""
    learning_rates: tuple[tuple[float, float], ...]
    """At the first step and at the last, each pair once; empty where they are not known of every rank."""
    problem: str
    """Why this is not the arm that was asked for; "" where it is."""


def of_arm(arm: str, expected_ranks: int, seen: Sequence[Observation]) -> ArmFacts:
    """The facts of one run; `seen` holds its ranks' observations, at least one."""
    counted = [one.rows_per_step for one in seen]
    reported = seen[0].reported_rows
    rows = sum(known for known in counted if known is not None) if None not in counted else None
    epochs = [one.epoch_rows for one in seen]
    times = [one.step_seconds for one in seen if one.step_seconds is not None]
    digests = {one.weights for one in seen}
    return ArmFacts(
        arm=arm,
        ranks=seen[0].world if seen[0].framework == RLLIB else len(seen),
        expected_ranks=expected_ranks,
        ray=any(one.ray for one in seen),
        steps=min(len(one.step_ends) for one in seen),
        step_seconds=max(times, default=None),
        report_seconds=max(one.report_seconds / max(1, one.reports) for one in seen),
        report_share=max(one.report_seconds / max(1e-9, one.step_ends[-1] - one.step_ends[0]) for one in seen),
        rows_per_step=rows if rows is not None else reported,
        rows_known="counted" if rows is not None else "reported" if reported else "unknown",
        rows_per_epoch=sum(known for known in epochs if known) if rows is not None and None not in epochs else None,
        steps_per_epoch=seen[0].steps_per_epoch,
        weights_equal=_weights_equal(seen),
        rows_disjoint=_rows_disjoint(seen, rows),
        weights=digests.pop() if len(digests) == 1 else None,
        threads=_each_once([one.threads for one in seen]),
        learning_rates=_each_once([_pair(one) for one in seen]),
        problem=_problem(expected_ranks, seen),
    )


def _each_once(values: Sequence[T | None]) -> tuple[T, ...]:
    return () if None in values else tuple(dict.fromkeys(value for value in values if value is not None))


def _pair(one: Observation) -> tuple[float, float] | None:
    """To nine digits: what a schedule computes in another order is the same."""
    first, last = one.learning_rates
    return None if first is None or last is None else (float(f"{first:.9g}"), float(f"{last:.9g}"))


def _problem(expected: int, seen: Sequence[Observation]) -> str:
    lengths = sorted({len(one.step_ends) for one in seen})
    if seen[0].framework == RLLIB and len(seen) == 1:
        return _wrong_runners(expected, seen[0].world)
    if len(seen) != expected:
        return (
            f"{len(seen)} process{'es' if len(seen) > 1 else ''} trained, {expected} should have: the script ignores "
            "the number of workers that it is given, or has one of its own"
        )
    if expected > 1 and all(one.world == 1 for one in seen):
        return f"{expected} processes trained, each alone: none of them joined the others"
    if len(lengths) > 1:
        return f"ranks made different numbers of steps: {', '.join(map(str, lengths))}"
    return ""


def _wrong_runners(expected: int, sampled: int) -> str:
    if sampled == expected:
        return ""
    return f"{sampled} of RLlib's runners sampled, {expected} should have: num_env_runners has to be that argument"


def _weights_equal(seen: Sequence[Observation]) -> Known:
    if len(seen) == 1:
        return True, ""
    digests = [one.weights for one in seen]
    if None in digests:
        return None, next((note for one in seen for note in one.notes if "weights" in note), "no digest of the weights")
    same = len(set(digests)) == 1
    return (
        same,
        "weights equal on all ranks" if same else "weights DIFFER between ranks: gradients are not synchronised",
    )


def _rows_disjoint(seen: Sequence[Observation], rows_per_step: float | None) -> Known:
    """Ranks may share less than one global batch, with which samplers pad, and less than half of what either had."""
    if len(seen) == 1:
        return True, ""
    marks = [one.first_pass for one in seen]
    known = [one for one in marks if one is not None]
    if len(known) < len(marks) or len({len(one) for one in known}) != 1:
        return None, "rows have no numbers that all ranks share"
    shared, least = 0, min(sum(one) for one in known)
    for one, other in itertools.combinations(known, 2):
        shared += (int.from_bytes(one, "big") & int.from_bytes(other, "big")).to_bytes(len(one), "big").count(1)
    disjoint = shared == 0 or (2 * shared < least and shared < (rows_per_step or 0))
    words = "rows disjoint" if disjoint else f"ranks SHARE {shared} rows: each trains on data of the others"
    return disjoint, words


class Work(Protocol):
    """What is asked of an arm that is held against others."""

    @property
    def ranks(self) -> int:
        """Processes that trained."""

    @property
    def rows_per_step(self) -> float | None:
        """Over all ranks."""

    @property
    def rows_per_epoch(self) -> int | None:
        """Likewise."""

    @property
    def weights(self) -> str | None:
        """The digest that all ranks have."""

    @property
    def expected_ranks(self) -> int:
        """Processes that should have trained."""

    @property
    def threads(self) -> tuple[int, ...]:
        """Compute threads of a process, each number once; empty where not all are known."""

    @property
    def learning_rates(self) -> tuple[tuple[float, float], ...]:
        """At the first step and at the last, each pair once; empty where not all are known."""


@dataclass(frozen=True, kw_only=True)
class Together:
    """What the arms say of each other."""

    same_rows_per_step: Known
    same_rows_per_epoch: Known
    same_threads: Known
    same_learning_rate: Known
    weak_scaling: bool
    ray_changed_nothing: bool
    """Native's and Ray's weights are equal, bit for bit."""


def together(arms: Mapping[str, Work]) -> Together:
    """Compare arms by name; one that is missing says nothing."""
    rows = {name: facts.rows_per_step for name, facts in arms.items()}
    epochs = {name: facts.rows_per_epoch for name, facts in arms.items()}
    batch = max((known for known in rows.values() if known), default=0)
    baseline, ray = arms.get("baseline"), arms.get("ray")
    native = arms.get("native")
    return Together(
        same_rows_per_step=_alike("rows a step", rows, 0),
        same_rows_per_epoch=_alike("rows an epoch", epochs, batch),
        same_threads=_same_threads(arms),
        same_learning_rate=_same_learning_rate(arms),
        weak_scaling=_is_weak(baseline, ray or native),
        ray_changed_nothing=bool(native and ray and native.weights and native.weights == ray.weights),
    )


def _alike(what: str, values: Mapping[str, float | int | None], allowed: float) -> Known:
    known = [value for value in values.values() if value is not None]
    if len(known) < len(values) or not known:
        return None, f"{what} are not known in {', '.join(name for name, value in values.items() if value is None)}"
    if max(known) - min(known) <= (allowed - 1 if allowed else 0):
        return True, f"{what} equal in all arms"
    return False, f"{what} DIFFER: " + ", ".join(
        f"{name} {value:g}" for name, value in values.items() if value is not None
    )


def _same_threads(arms: Mapping[str, Work]) -> Known:
    """Those of one worker in every process, and in that of `wide` those of all."""
    threads = {name: one.threads for name, one in arms.items()}
    workers = max((one.expected_ranks for one in arms.values()), default=1)
    if not all(threads.values()) or workers == 1:
        return None, "compute threads are not known in every arm"
    of_a_worker = {count / (workers if name == "wide" else 1) for name, counts in threads.items() for count in counts}
    if len(of_a_worker) == 1:
        return True, "compute threads as every arm is given them"
    said = ", ".join(f"{name} {' and '.join(map(str, counts))}" for name, counts in threads.items())
    return False, f"compute threads of a process DIFFER: {said}; those of {workers} workers are for wide alone"


def _same_learning_rate(arms: Mapping[str, Work]) -> Known:
    rates = {name: one.learning_rates for name, one in arms.items()}
    if not all(rates.values()) or not rates:
        return None, "learning rates are not known in every arm"
    if len({pair for pairs in rates.values() for pair in pairs}) == 1:
        return True, "learning rate equal in all arms"
    said = ", ".join(f"{name} {' and '.join(map(_rates, pairs))}" for name, pairs in rates.items())
    return False, f"learning rates DIFFER: {said}"


def _rates(pair: tuple[float, float]) -> str:
    first, last = pair
    return f"{first:g}" if first == last else f"{first:g} to {last:g}"


def _is_weak(baseline: Work | None, distributed: Work | None) -> bool:
    """Whether a step has N times the rows with N ranks: the batch is each worker's own."""
    if not baseline or not distributed or not baseline.rows_per_step or not distributed.rows_per_step:
        return False
    return distributed.ranks > 1 and distributed.rows_per_step == distributed.ranks * baseline.rows_per_step
