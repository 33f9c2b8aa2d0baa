"""Derives the facts about an arm from its observations. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from training.workloads.script import ranks_work
from training.workloads.script.observations import RLLIB, Observation
from training.workloads.script.same_work import disjoint
from training.workloads.script.work_items import ArmWork, Known

T = TypeVar("T")

OWN_THREADS = "compute threads: one in every arm, which the script itself sets"


@dataclass(frozen=True, kw_only=True)
class ArmFacts:
    """The facts about one run, over all its ranks."""

    arm: str
    ranks: int
    """Number of processes that trained; for RLlib, the number of runners that sampled."""
    expected_ranks: int
    ray: bool
    """True if a process of the run started or joined Ray."""
    steps: int
    """Number of steps of the rank that made the fewest steps."""
    step_seconds: float | None
    report_seconds: float
    """Seconds of one call of `ray.train.report`."""
    report_share: float
    """Share of the calls of `ray.train.report` in the time between the end of the first step and that of the last."""
    rows_per_step: float | None
    """Number of rows in a step, over all ranks."""
    rows_known: str
    """How the rows are known: `counted`, `reported`, or `unknown`."""
    rows_per_epoch: int | None
    steps_per_epoch: int | None
    work: ArmWork
    weights_equal: Known
    rows_disjoint: Known
    weights: str | None
    """The digest of the weights that all ranks have; None if they differ."""
    threads: tuple[int, ...]
    """Different numbers of compute threads that the processes have; empty if the number is unknown for any rank."""
    problem: str
    """Reason why the run is not the arm that was asked for; "" if it is."""


def of_arm(arm: str, expected_ranks: int, seen: Sequence[Observation]) -> ArmFacts:
    """Return the facts of one run; `seen` holds its ranks' observations, at least one."""
    work = ranks_work.together(seen)
    reported = seen[0].reported_rows
    rows, of_epoch = work.number("rowsPerStep"), work.number("rowsPerEpoch")
    times = [observation.step_seconds for observation in seen if observation.step_seconds is not None]
    digests = {observation.weights for observation in seen}
    return ArmFacts(
        arm=arm,
        ranks=work.ranks,
        expected_ranks=expected_ranks,
        ray=any(observation.ray for observation in seen),
        steps=min(len(observation.step_ends) for observation in seen),
        step_seconds=max(times, default=None),
        report_seconds=max(observation.report_seconds / max(1, observation.reports) for observation in seen),
        report_share=max(
            observation.report_seconds / max(1e-9, observation.step_ends[-1] - observation.step_ends[0])
            for observation in seen
        ),
        rows_per_step=rows if rows is not None else reported,
        rows_known="counted" if rows is not None else "reported" if reported else "unknown",
        rows_per_epoch=None if of_epoch is None else round(of_epoch),
        steps_per_epoch=seen[0].steps_per_epoch,
        work=work,
        weights_equal=ranks_work.weights_equal(seen),
        rows_disjoint=disjoint(work) if len(seen) > 1 else (True, ""),
        weights=digests.pop() if len(digests) == 1 else None,
        threads=_each_once([observation.threads for observation in seen]),
        problem=_problem(expected_ranks, seen, steps_known=not ranks_work.no_steps(seen)),
    )


def _each_once(values: Sequence[T | None]) -> tuple[T, ...]:
    return () if None in values else tuple(dict.fromkeys(value for value in values if value is not None))


def _problem(expected: int, seen: Sequence[Observation], *, steps_known: bool) -> str:
    lengths = sorted({len(observation.step_ends) for observation in seen})
    if seen[0].framework == RLLIB and len(seen) == 1:
        return _wrong_runners(expected, seen[0].world)
    if len(seen) != expected:
        return (
            f"{len(seen)} process{'es' if len(seen) > 1 else ''} trained, {expected} should have: the script ignores "
            "the number of workers that it is given, or has one of its own"
        )
    if expected > 1 and all(observation.world == 1 for observation in seen):
        return f"{expected} processes trained, each alone: none of them joined the others"
    if len(lengths) > 1 and steps_known and not ranks_work.are_uneven(seen):
        return f"ranks made different numbers of steps: {', '.join(map(str, lengths))}"
    return ""


def _wrong_runners(expected: int, sampled: int) -> str:
    if sampled == expected:
        return ""
    return f"{sampled} of RLlib's runners sampled, {expected} should have: give that argument to num_env_runners"


def same_threads(arms: Mapping[str, ArmFacts]) -> Known:
    """Return whether all arms have the same compute threads. They do if each process has the threads of one worker, and
    that of `wide` those of all, or if the script itself sets one in all of them."""
    threads = {name: facts.threads for name, facts in arms.items()}
    workers = max((facts.expected_ranks for facts in arms.values()), default=1)
    if not all(threads.values()) or workers == 1:
        return None, "compute threads are not known in every arm"
    of_a_worker = {count / (workers if name == "wide" else 1) for name, counts in threads.items() for count in counts}
    if len(of_a_worker) == 1:
        return True, "compute threads as every arm is given them"
    if {count for counts in threads.values() for count in counts} == {1}:
        return True, f"{OWN_THREADS}, so that wide leaves CPUs idle"
    counted = ", ".join(f"{name} {' and '.join(map(str, counts))}" for name, counts in threads.items())
    differ = f"compute threads of a process DIFFER: {counted}; those of {workers} workers are for wide alone"
    own = ": a script that sets them itself can take them from OMP_NUM_THREADS"
    return False, differ + (own if threads.get("wide") == threads.get("baseline") else "")


def ray_changed_nothing(arms: Mapping[str, ArmFacts]) -> bool:
    """Return whether native's and Ray's weights are equal, bit for bit."""
    native, ray = arms.get("native"), arms.get("ray")
    return bool(native and ray and native.weights and native.weights == ray.weights)
