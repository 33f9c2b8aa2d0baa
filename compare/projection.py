"""The scaling model: what more workers, or another network, would give. Fitted to this stack's runs; pure.

A step of N synchronous workers takes

    t(N) = compute(N) + exposed · allreduce(N) + straggler(N)

- compute: the largest worker's share of the batch at the baseline's seconds an image (strong scaling: Amdahl, "Validity
  of the single processor approach", AFIPS 1967; no serial part is assumed beside what follows).
- allreduce: the ring, 2(N-1)·α + 2(N-1)/N · bytes·β (Thakur, Rabenseifner, Gropp, "Optimization of collective
  communication operations in MPICH", IJHPCA 2005; bandwidth-optimal: Patarasuk and Yuan, JPDC 2009). α, seconds a
  message, and β, seconds a byte, are solved from the probe at two sizes; the reduction's own work is part of β.
- exposed: the part of it that a step waits for. Backward passes overlap the rest. Fitted to the native arm's step.
- straggler: synchronous workers wait for the slowest of N: the expected maximum of N normal step times, by Blom's
  approximation (Statistical Estimates and Transformed Beta-Variables, 1958). The spread is the baseline's p95 - p50.

What is assumed and not measured stands in the output beside the prediction. Standard library only.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from compare.measurement import NO_REPEAT, Context, Measurement, Repeat
from compare.run_numbers import step_seconds
from compare.schema import Link, Projection
from compare.value import Missing
from training.contract.arms import BASELINE, NATIVE
from training.contract.recipe import Recipe, batch_split

ETHERNET_LATENCY_SECONDS = 50e-6
"""Assumed α of Ethernet: a TCP message within one rack, through the kernel of both sides."""

ETHERNET_GIGABITS = (1, 10, 100)
LEAST_SHARE, MOST_WORKERS = 8, 1024
"""Images (or what else a step takes) a worker below which strong scaling is not projected, because a step is overhead
there; and what is projected at most."""

NEAR_BEST = 0.99
_P95 = statistics.NormalDist().inv_cdf(0.95)


@dataclass(frozen=True)
class Ring:
    """A network as the ring all-reduce sees it."""

    latency_seconds: float
    seconds_per_byte: float

    def seconds(self, workers: int, size_bytes: float) -> float:
        """A ring all-reduce of `size_bytes` over `workers`; 0 for one."""
        hops = 2 * (workers - 1)
        return hops * self.latency_seconds + hops / workers * size_bytes * self.seconds_per_byte


@dataclass(frozen=True)
class Model:
    """The fitted model: `step_seconds` predicts, for any number of workers and any network."""

    batch: int
    baseline_step_seconds: float
    spread_seconds: float
    gradient_bytes: int
    exposed_share: float

    def step_seconds(self, workers: int, ring: Ring, places: int | None = None) -> float:
        """Predicted seconds of one step of the whole batch.

        `places`: workers that can compute at once, in whose places the others take turns (rank r in place r modulo
        places): what one place computes and sends adds up. None: a place for each.
        """
        turns = math.ceil(workers / (places or workers))
        waiting = turns * self.exposed_share * ring.seconds(workers, self.gradient_bytes)
        return self.compute_seconds(workers, places) + waiting + self.straggler_seconds(workers)

    def compute_seconds(self, workers: int, places: int | None = None) -> float:
        """The largest share of the batch that one place has, at the baseline's pace."""
        images = sum(batch_split(self.batch, workers)[:: places or workers])
        return self.baseline_step_seconds * images / self.batch

    def straggler_seconds(self, workers: int) -> float:
        """Expected wait for the slowest of N, whose spread shrinks with their share."""
        quantile = (workers - 0.375) / (workers + 0.25)
        return self.spread_seconds / workers * statistics.NormalDist().inv_cdf(quantile)

    def speedup(self, workers: int, ring: Ring) -> float:
        """Return the speedup of `workers` over one process."""
        return self.baseline_step_seconds / self.step_seconds(workers, ring)


def project(measurement: Measurement) -> Projection | Missing:
    """The projection of complete repeats; missing without a native arm, workers or a probe."""
    repeats, recipe = measurement.repeats, measurement.recipe
    reason = _why_missing(measurement)
    if reason:
        return Missing(reason)
    ring = fit_ring(_median_probe(repeats), recipe.workers)
    model, native_step = fit(repeats, recipe, ring)
    return Projection(
        workers=recipe.workers,
        max_workers=_most_workers(model, recipe),
        baseline_step_seconds=model.baseline_step_seconds,
        native_step_seconds=native_step,
        gradient_bytes=model.gradient_bytes,
        all_reduce_seconds=ring.seconds(recipe.workers, model.gradient_bytes),
        exposed_share=model.exposed_share,
        straggler_seconds=model.straggler_seconds(recipe.workers),
        links=[_predict(model, *link, measurement.context) for link in _links(ring)],
        assumptions=_assumptions(ring, repeats[0][NATIVE.name].result.amount.unit),
    )


def fit_ring(probe: dict[str, float], workers: int) -> Ring:
    """α and β of the ring from seconds at two sizes (decimal strings of bytes), of which the larger takes longer."""
    (small, fast), *_, (large, slow) = sorted((int(size), seconds) for size, seconds in probe.items())
    hops = 2 * (workers - 1)
    seconds_per_byte = (slow - fast) / (large - small) * workers / hops
    latency = max(0.0, (fast - hops / workers * small * seconds_per_byte) / hops)
    return Ring(latency, seconds_per_byte)


def fit(repeats: Sequence[Repeat], recipe: Recipe, ring: Ring) -> tuple[Model, float]:
    """The model whose step of `workers` is the native arm's, and that step's seconds."""
    native = repeats[0][NATIVE.name].result
    workers, batch, size = recipe.workers, native.amount.per_step or 0, native.steps.exchanged_bytes or 0
    baseline_step, native_step = (_median_step(repeats, arm.name) for arm in (BASELINE, NATIVE))
    without = Model(batch, baseline_step, _spread_seconds(repeats), size, exposed_share=0.0)
    waiting = native_step - without.step_seconds(workers, ring)
    exposed = max(0.0, waiting / ring.seconds(workers, size))
    return Model(batch, baseline_step, without.spread_seconds, size, exposed), native_step


def _why_missing(measurement: Measurement) -> str:  # noqa: PLR0911 (one return a reason)
    repeats = measurement.repeats
    if not repeats:
        return NO_REPEAT
    if measurement.workload.searches:
        return "trials exchange nothing, and the model is of workers that do"
    if NATIVE.name not in repeats[0]:
        return f"{measurement.absent[NATIVE.name]}, and the model needs the runs of native"
    if measurement.recipe.workers < 2:
        return "one worker exchanges nothing that a model could be fitted to"
    baseline, native = (repeats[0][arm.name].result for arm in (BASELINE, NATIVE))
    probe = _median_probe(repeats)
    if len(probe) < 2:
        why = native.reasons.get("allReduce")
        return "the native runs have no all-reduce probe at two sizes" + (f": {why}" if why else "")
    if not native.amount.per_step or not native.steps.exchanged_bytes:
        return "what a step does and what its workers exchange is not known"
    if baseline.amount.per_step != native.amount.per_step:
        return "a step of one process has not the work of one of all workers, and the model is of strong scaling"
    if not probe[min(probe, key=int)] < probe[max(probe, key=int)]:
        return "the probe's larger all-reduce took no longer than its smaller one, so it has no bandwidth"
    steps = [step_seconds(repeat[arm.name].result) for repeat in repeats for arm in (BASELINE, NATIVE)]
    spreads = [repeat[BASELINE.name].result.steps.seconds for repeat in repeats]
    return "" if all(steps) and any(spreads) else "a run has no timed step"


def _median_probe(repeats: Sequence[Repeat]) -> dict[str, float]:
    probes = [repeat[NATIVE.name].result.all_reduce or {} for repeat in repeats]
    sizes = set.intersection(*(set(probe) for probe in probes))
    return {size: statistics.median(probe[size] for probe in probes) for size in sorted(sizes, key=int)}


def _median_step(repeats: Sequence[Repeat], arm: str) -> float:
    return statistics.median(seconds for repeat in repeats if (seconds := step_seconds(repeat[arm].result)) is not None)


def _spread_seconds(repeats: Sequence[Repeat]) -> float:
    """Standard deviation of a step from two percentiles, which one slow outlier does not move."""
    steps = [repeat[BASELINE.name].result.steps.seconds for repeat in repeats]
    return max(0.0, statistics.median((step.p95 - step.p50) / _P95 for step in steps if step))


def _most_workers(model: Model, recipe: Recipe) -> int:
    return max(recipe.workers, min(MOST_WORKERS, model.batch // LEAST_SHARE))


def _links(measured: Ring) -> list[tuple[str, bool, Ring]]:
    """Return this link, and Ethernet, never faster: a better wire does not remove the cost of this link's software."""
    links = [("this link", True, measured)]
    for gigabits in ETHERNET_GIGABITS:
        wire = Ring(
            max(ETHERNET_LATENCY_SECONDS, measured.latency_seconds),
            max(8 / (gigabits * 1e9), measured.seconds_per_byte),
        )
        links.append((f"{gigabits} Gbit/s Ethernet", False, wire))
    return links


def _predict(model: Model, name: str, measured: bool, ring: Ring, context: Context) -> Link:
    recipe = context.recipe
    most = _most_workers(model, recipe)
    speedups = {workers: model.speedup(workers, ring) for workers in range(1, most + 1)}
    enough = max(speedups.values()) * NEAR_BEST
    best = next(workers for workers, speedup in speedups.items() if speedup >= enough)
    shown = sorted(
        {1, 2, 3, 4, *context.curve, recipe.workers, best, most} | {2**power for power in range(most.bit_length())}
    )
    return Link(
        name=name,
        measured=measured,
        latency_seconds=ring.latency_seconds,
        bytes_per_second=1 / ring.seconds_per_byte,
        speedup={str(workers): speedups[workers] for workers in shown if workers <= most},
        best_workers=best,
        best_speedup=speedups[best],
    )


def _assumptions(measured: Ring, unit: str) -> list[str]:
    return [
        f"compute is proportional to the largest worker's {unit}: no fixed cost a step, one worker a core or more",
        "the part of the all-reduce that a step waits for is the same at every number of workers and on every link",
        "the spread of a worker's step shrinks with its share of the batch",
        f"Ethernet: nominal bandwidth, {ETHERNET_LATENCY_SECONDS * 1e6:.0f} µs a message (assumed, not measured), and "
        f"nothing faster than what this link reached: {1e6 * measured.latency_seconds:.0f} µs, "
        f"{1e9 * measured.seconds_per_byte:.2f} ns a byte",
        "native steps are projected: Ray adds rayOverhead",
    ]
