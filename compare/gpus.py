"""Whether each worker had a GPU of its own, of one model, and whether some arm's GPUs were held back. Pure."""

from collections.abc import Iterator, Sequence

from compare.measurement import Measurement, Run
from compare.value import Check
from compare.words import enumerated
from training.contract.arms import counted
from training.contract.gpu_use import NOTICEABLE_SHARE, GpuUse


def as_asked(measurement: Measurement) -> dict[str, Check]:
    """Return the check that the runs had the GPUs that were asked for, by the check's name."""
    problem = next(_problems(measurement.runs), "")
    if problem:
        return {"gpusAsAsked": Check(False, problem)}
    unknown = next(_unknown(measurement.runs), "")
    return {"gpusAsAsked": Check(None, unknown) if unknown else Check(True, "")}


def _problems(runs: Sequence[Run]) -> Iterator[str]:
    """Yield in what the GPUs differ from those that were asked for, or between arms: in number, model or backend."""
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
    """Return which arms had their GPUs held back, if others had not or it is not known; "" if none or all had."""
    reasons = {arm: _held_back(measurement.by_arm[arm]) for arm in measurement.arms}
    slowed = [arm for arm, why in reasons.items() if why]
    unknown = [arm for arm, why in reasons.items() if not why and not _is_known(measurement.by_arm[arm])]
    free = [arm for arm in reasons if arm not in (*slowed, *unknown)]
    if not slowed or not (free or unknown):
        return ""
    why = ", ".join(sorted({reason for arm in slowed for reason in reasons[arm]}))
    least = f"{NOTICEABLE_SHARE:.0%}".replace("%", " %")
    in_less = f", and those of {enumerated(free)} in less" if free else ""
    not_known = f"; of {enumerated(unknown)} it is not known" if unknown else ""
    return f"GPUs of {enumerated(slowed)} were held back in {least} of the samples or more ({why}){in_less}{not_known}"


def _held_back(runs: Sequence[Run]) -> set[str]:
    return {why for run in runs for gpu in _gpus(run) for why in gpu.held_back}


def _is_known(runs: Sequence[Run]) -> bool:
    """Return whether it is known for every rank whether the rank's GPU was held back."""
    return all(worker.gpu and worker.gpu.throttled is not None for run in runs for worker in run.result.workers)


def _gpus(run: Run) -> list[GpuUse]:
    return [worker.gpu for worker in run.result.workers if worker.gpu is not None]
