"""Iterations of RLlib's algorithms (`Algorithm.step`): runners sample, and many optimizer steps are made of that.

An iteration is a step here, and its rows are the environment's steps, as RLlib counts them. Runners make no step of
their own: the process of the algorithm, which has them as actors or samples by itself, speaks for all.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from typing import Any

from . import guard, state
from .loaders import Loader
from .reports import number

CLOCK = -1
"""Id of an algorithm as the step clock; no object has this id."""
ENV_STEPS = "num_env_steps_sampled_lifetime"


@guard.guarded("RLlib's algorithms can't be observed")
def observe_algorithms(module: Any) -> None:
    """Count an algorithm's iterations as steps, so that no optimizer of this process is the step clock. `module`:
    ray.rllib.algorithms.algorithm."""
    state.current().take_clock(CLOCK)
    module.Algorithm.step = _step(module.Algorithm.step)


@guard.around("an iteration could not be observed", *guard.STEPS, *guard.ROWS, guard.METRICS)
def _step(self: Any) -> Generator[None, Any, guard.Instead | None]:
    results = yield
    now = state.current()
    with now.hook():
        _count(now, self, results)
    return guard.Instead(_ended(results)) if now.is_enough() else None


def _count(now: state.State, algorithm: Any, results: dict[str, Any]) -> None:
    if not now.step_ends:
        now.framework, now.rank = "rllib", 0
        now.model.gradient_bytes = lambda: None  # what the runners exchange is no gradients
    runners = algorithm.env_runner_group
    now.world = max(1, runners.num_healthy_remote_workers() if runners else 0)
    loader = now.loaders.setdefault(CLOCK, Loader(None, None, None))
    loader.deliver(int(results[ENV_STEPS]) - loader.rows)
    now.deliver(loader)
    for name, value in _numbers(results):
        now.reports.measured(name, value, "rllib")
    now.step(CLOCK)


def _numbers(results: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the names and numbers that describe the runners' episodes, and the episodes of an evaluation."""
    yield from _of_episodes("", results)
    yield from _of_episodes("evaluation/", results.get("evaluation") or {})


def _of_episodes(prefix: str, results: dict[str, Any]) -> Iterator[tuple[str, float]]:
    for name, value in (results.get("env_runners") or {}).items():
        if name.startswith("episode_") and (plain := number(value)) is not None:
            yield prefix + name, plain


def _ended(results: dict[str, Any]) -> dict[str, Any]:
    """Return the results marked as the last ones in a worker of Tune, which then ends the trial; raise state.Enough in
    a script that has the algorithm in its own process."""
    worker = sys.modules["ray._private.worker"]
    if worker.global_worker.mode == worker.WORKER_MODE:
        return {**results, "done": True}
    raise state.Enough(0)
