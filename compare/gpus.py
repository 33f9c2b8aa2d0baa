"""GPUs in the comparison: whether every worker had its own, of one model, and whether some arm's were held back.

Pure.
"""

from collections.abc import Iterator, Sequence

from compare.measurement import Measurement, Run
from compare.value import Check
from compare.words import enumerated
from training.contract.arms import counted
from training.contract.gpu_use import GpuUse


def as_asked(measurement: Measurement) -> dict[str, Check]:
    """Return the check of the GPUs that were asked for, by its name."""
    problem = next(_problems(measurement.runs), "")
    if problem:
        return {"gpusAsAsked": Check(False, problem)}
    unknown = next(_unknown(measurement.runs), "")
    return {"gpusAsAsked": Check(None, unknown) if unknown else Check(True, "")}


def _problems(runs: Sequence[Run]) -> Iterator[str]:
    """Yield what is known to differ from what was asked for, or between arms: number, model, backend."""
    for run in runs:
        without = [worker.rank for worker in run.result.workers if worker.gpu is None]
        if without and run.result.world_size is not None:
            yield f"rank {without[0]} of {run.name} computed on no GPU"
        uuids = [gpu.uuid for gpu in _gpus(run) if gpu.uuid]
        if len(set(uuids)) < len(uuids):
            yield f"{len(uuids)} ranks of {run.name} computed on {counted(len(set(uuids)), 'GPU')}"
    yield from _different("model", [(run, gpu.name) for run in runs for gpu in _gpus(run)])
    yield from _different("backend", [(run, gpu.backend) for run in runs for gpu in _gpus(run)])


def _different(what: str, values: Sequence[tuple[Run, str | None]]) -> Iterator[str]:
    known = [(run.name, value) for run, value in values if value]
    for name, value in known[1:]:
        if value != known[0][1]:
            yield f"{known[0][0]} and {name} differ in {what}: {known[0][1]} and {value}"


def _unknown(runs: Sequence[Run]) -> Iterator[str]:
    for run in runs:
        if len(_gpus(run)) < len(run.result.workers) or any(gpu.name is None for gpu in _gpus(run)):
            why = run.result.reasons.get("workers.gpu", "")
            yield f"of which model the GPUs of {run.name} are is not known{f': {why}' if why else ''}"


def throttled_in_some(measurement: Measurement) -> str:
    """Return that GPUs were held back in some arms and not in others; "" if in none or in all of them."""
    reasons = {arm: _held_back(measurement.by_arm[arm]) for arm in measurement.arms}
    slowed, free = [arm for arm, why in reasons.items() if why], [arm for arm, why in reasons.items() if not why]
    if not slowed or not free:
        return ""
    why = ", ".join(sorted({reason for arm in slowed for reason in reasons[arm]}))
    return f"GPUs of {enumerated(slowed)} were held back ({why}), and those of {enumerated(free)} were not"


def _held_back(runs: Sequence[Run]) -> set[str]:
    return {why for run in runs for gpu in _gpus(run) for why in gpu.held_back}


def _gpus(run: Run) -> list[GpuUse]:
    return [worker.gpu for worker in run.result.workers if worker.gpu is not None]
