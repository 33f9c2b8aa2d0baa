"""Reads the observer's files: one observation a rank."""

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from training.contract.cpu_use import CpuWait
from training.contract.gpu_use import UNKNOWN, GpuUse
from training.contract.recipe import camel
from training.workloads.script.observations import (
    BOOSTERS,
    Inputs,
    MarkedPass,
    Observation,
    Optimizer,
    Parts,
    RankPod,
    RankWork,
    Schedule,
    Trained,
)
from training.workloads.script.step_clock import SeenPass

MOST_WORK = 0.9
"""Share of a process's CPU seconds that the threads which do the work account for."""


def read(folder: Path) -> list[Observation]:
    """Return the observations in `folder`, ordered by rank; an empty list if the observer saw no step."""
    files = sorted(folder.glob("rank-*.json"))
    observations = [parse(json.loads(path.read_text(encoding="utf-8"))) for path in files]
    return sorted(observations, key=lambda observation: observation.rank)


def parse(data: dict[str, Any]) -> Observation:
    """Return the observation that one file of the observer holds."""
    thread_cpus, pod, device = data["threadCpus"], data.get("pod"), data.get("device") or {}
    data, lost = _without_lost(data), data.get("unknown") or {}
    return Observation(
        rank=data["rank"],
        world=data["world"],
        framework=data["framework"] or "unknown",
        threads=data["threads"],
        ray=data["ray"],
        step_ends=tuple(end + data["clockOffset"] for end in data["stepEnds"]),
        step_rows=tuple(data["rowsAtStep"]) if data["rowsAtStep"] else None,
        rows_of_all_steps=data["rowsOfAllSteps"],
        reported_rows=data["rowsPerStepReported"],
        announced_rows=data["epochRows"],
        epoch_steps=data["epochBatches"],
        passes=_passes(data),
        validations=data["validations"],
        dataset_rows=data["datasetRows"],
        dataset_identity=data["datasetIdentity"],
        dataset_content=data["datasetContent"],
        marked=_marked(data),
        pass_sums=tuple(map(tuple, data.get("passSums") or ())),
        rows_ahead=data["rowsAhead"],
        work=_work(data["work"]),
        weights=data["weights"],
        metrics=data["metrics"],
        metric_points=tuple((at + data["clockOffset"], name, value) for at, name, value in data["metricPoints"]),
        reports=data["reports"],
        report_seconds=data["reportSeconds"],
        hook_seconds=data["hookSeconds"],
        own_seconds=data["ownSeconds"],
        cpu_at_step=tuple(data["cpuAtStep"]),
        samples=tuple((at, cpus, resident) for at, cpus, resident in data["samples"]),
        affinity=_cpus_at_work(thread_cpus) if thread_cpus else None,
        peak_memory_bytes=data["peakMemoryBytes"],
        gradient_bytes=data["gradientBytes"],
        ended_early=data["endedEarly"],
        waited_seconds=data["waitedSeconds"],
        notes=tuple(data["notes"]),
        lost=lost,
        no_numbers=data.get("noNumbers") or {},
        executed_together=data.get("executedTogether") or 1,
        data_wait_seconds=data.get("dataWaitSeconds"),
        first_batch_at=None if data.get("firstBatchAt") is None else data["firstBatchAt"] + data["clockOffset"],
        device_marks=_marks(data),
        device_every=device.get("every"),
        gpu=_gpu(device),
        gpu_reasons=_gpu_reasons(device),
        parts=_parts(data),
        cpu_waits={name: CpuWait.of(read) for name, read in (data.get("cpuWaits") or {}).items()} or None,
        pod=_alike(RankPod, pod) if pod else None,
    )


LOST: Mapping[str, Mapping[str, Any]] = {
    "rows": {"rowsAtStep": None, "epochRows": None, "rowsOfAllSteps": False},
    "rowsPerStep": {"rowsAtStep": None, "rowsPerStepReported": None},
    "rowsDisjoint": {"markedPasses": None},
    "weights": {"weights": None},
    "metrics": {"metrics": {}, "metricPoints": []},
    "dataWaitSeconds": {"dataWaitSeconds": None, "firstBatchAt": None},
    "meanCpus": {"cpuAtStep": [], "samples": []},
    "peakMemoryBytes": {"peakMemoryBytes": None},
}
"""Values that replace numbers of a file that the observer lost, because some may be there, and wrong."""


def _without_lost(data: dict[str, Any]) -> dict[str, Any]:
    lost = data.get("unknown") or {}
    data = {**data, "parts": {**data["parts"], "noParts": lost.get("stepParts") or data["parts"]["noParts"]}}
    for item in LOST.keys() & lost.keys():
        data |= LOST[item]
    return data


def _alike(kind: Any, data: Mapping[str, Any]) -> Any:
    """Return an object of the class `kind` with the values that the file has under its fields' names, in camelCase."""
    return kind(**{each.name: data[camel(each.name)] for each in fields(kind)})


def _gpu(device: dict[str, Any]) -> GpuUse | None:
    if not device:
        return None
    gpu: GpuUse = _alike(GpuUse, device["gpu"]) if device["gpu"] else UNKNOWN
    return gpu


def _gpu_reasons(device: dict[str, Any]) -> dict[str, str]:
    if gpu := device.get("gpu"):
        return dict(gpu["reasons"])
    return {"gpu": device["noGpu"]} if device.get("noGpu") else {}


def _marks(data: dict[str, Any]) -> tuple[tuple[int, float], ...] | None:
    device = data.get("device")
    return tuple((steps, at + data["clockOffset"]) for steps, at in device["marks"]) if device else None


def _parts(data: dict[str, Any]) -> Parts | None:
    if data["framework"] != "torch":
        return None
    return Parts(
        seconds={part: [each / 1e6 for each in steps] for part, steps in data["parts"]["microseconds"].items()},
        no_parts=data["parts"]["noParts"],
        no_input=data["parts"]["noInput"],
        no_exchange=data["parts"]["noExchange"],
    )


def _marked(data: dict[str, Any]) -> tuple[MarkedPass, ...] | None:
    if not data["markedPasses"]:
        return None
    return tuple(
        MarkedPass(start=start, drawn=drawn, rows=zlib.decompress(base64.b64decode(rows)))
        for start, drawn, rows in data["markedPasses"]
    )


def _passes(data: dict[str, Any]) -> tuple[SeenPass, ...]:
    if data["framework"] in BOOSTERS:
        return tuple(SeenPass(start=step, finished=True) for step in range(len(data["stepEnds"])))
    return tuple(SeenPass(start=start, finished=finished) for start, finished in data["passes"] or ())


def _work(data: dict[str, Any]) -> RankWork:
    return RankWork(
        optimizers=tuple(
            Optimizer(
                steps=optimizer["steps"],
                left_out=optimizer["leftOut"],
                most_between=optimizer["mostBetween"],
                first=optimizer["first"],
                rounds=optimizer["rounds"],
                even=optimizer["even"],
                rates=tuple(map(tuple, optimizer["rates"])),
                settings=tuple(optimizer["settings"]),
            )
            for optimizer in data["optimizers"]
        ),
        more_optimizers=data.get("moreOptimizers", 0),
        schedules=tuple(Schedule(rule=rule, follows=follows, even=even) for rule, follows, even in data["schedules"]),
        rates_by_hand=data["ratesByHand"],
        digests={_place(at): digest for at, digest in data["digests"].items()},
        ends={_place(at): digest for at, digest in data.get("ends", {}).items()},
        in_joins={_place(at): digest for at, digest in data["inJoins"].items()},
        joins=tuple(data["joins"]),
        parameters=data["parameters"],
        trained=_alike(Trained, data["trained"]) if data["trained"] else None,
        inputs=_inputs(data) if data["inputs"] else None,
        no_input=data["noInput"],
        steps_without_input=data["stepsWithoutInput"],
        booster_parameters=data["boosterParameters"],
        rounds=data["rounds"],
    )


def _place(at: str) -> tuple[int, int]:
    joins, _, steps = at.rpartition(":")
    return int(joins or 0), int(steps)


def _inputs(data: dict[str, Any]) -> Inputs:
    mode, seen = " in evaluation" if data["evaluates"] else "", data["inputs"]
    return Inputs(
        types=tuple(f"{kind}{mode}" for kind in seen["types"]),
        numbers=seen["numbers"],
        sizes=tuple(seen["sizes"]),
        varies=data["varies"],
        autocast=tuple(seen["autocast"]),
    )


def _cpus_at_work(thread_cpus: Sequence[tuple[Sequence[int], float]]) -> tuple[int, ...]:
    """Return the CPUs of the busiest threads, which together used MOST_WORK of all CPU seconds. OpenMP may have bound
    such a thread to one CPU, and then it computes there. Other threads, which hardly work, may be allowed more CPUs,
    which says nothing."""
    total, done, cpus = sum(seconds for _, seconds in thread_cpus), 0.0, set[int]()
    for allowed, seconds in sorted(thread_cpus, key=lambda cpus_and_seconds: -cpus_and_seconds[1]):
        if cpus and done >= MOST_WORK * total:
            break
        cpus.update(allowed)
        done += seconds
    return tuple(sorted(cpus))
