"""Trains a network of three wide layers with PyTorch on random rows, and writes what its own clocks and CUDA say.

It knows nothing of this project. With `--offload` its parameters stay in the host's memory, as those of a model that is
too large for its GPU, and only the computing is the GPU's.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FEATURES, CLASSES = 64, 10
PROFILED_STEPS = 20


def clock_of(device: torch.device) -> tuple[Callable[[], Any], Callable[[Any, Any], float]]:
    """Return two functions: one marks a moment on the device, the other returns the seconds between two such marks."""
    if device.type != "cuda":
        return time.monotonic, lambda began, ended: ended - began

    def mark() -> Any:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    return mark, lambda began, ended: began.elapsed_time(ended) / 1000


def profiled_seconds(profile: Any) -> float | None:
    """Return the mean seconds of a profiled step: from the start of the first kernel to the end of the last, divided by
    the steps.

    Return None if the profiler recorded no kernel, for example because the user may not use CUPTI.
    """
    kernels = [each for each in profile.events() if each.device_type == torch.autograd.DeviceType.CUDA]
    if not kernels:
        return None
    began, ended = min(each.time_range.start for each in kernels), max(each.time_range.end for each in kernels)
    return float(ended - began) / 1e6 / PROFILED_STEPS


def network_of(width: int) -> nn.Module:
    """Return a network of three linear layers. The middle layer has width × width weights."""
    layers = [nn.Linear(FEATURES, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, CLASSES))


def predictions_of(model: nn.Module, device: torch.device, *, offload: bool) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return the function that computes predictions on the device. With `offload` the parameters stay in the host's
    memory and are copied to the device for each call."""
    if offload:
        return lambda values: torch.func.functional_call(
            model, {name: each.to(device) for name, each in model.named_parameters()}, (values,)
        )
    network: Callable[[torch.Tensor], torch.Tensor] = model.to(device)
    return nn.parallel.DistributedDataParallel(model) if torch.distributed.is_initialized() else network


def train(options: argparse.Namespace, device: torch.device) -> tuple[list[float], dict[str, float | None] | None]:
    """Train, and return the end of each step, in seconds since the end of the first, and the seconds of a profiled step
    by each method (None without a profile)."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world > 1:
        torch.distributed.init_process_group("gloo")  # NCCL itself refuses two ranks on one GPU
    rows = options.steps * options.batch // world
    data = TensorDataset(torch.randn(rows, FEATURES), torch.randint(CLASSES, (rows,)))
    loader = DataLoader(data, batch_size=options.batch // world, shuffle=True, pin_memory=device.type == "cuda")
    model = network_of(options.width)
    predictions = predictions_of(model, device, offload=options.offload)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    mark, seconds = clock_of(device)
    marks: list[Any] = []
    profile = started = None
    for epoch in range(options.epochs):
        for number, (values, labels) in enumerate(loader):
            if options.profile and epoch == options.epochs - 1 and number == len(loader) - PROFILED_STEPS:
                torch.cuda.synchronize()
                profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])
                profile.start()
                started = mark()  # after what the profiler's start takes
            optimizer.zero_grad()
            expected = labels.to(device, non_blocking=True)
            nn.functional.cross_entropy(predictions(values.to(device, non_blocking=True)), expected).backward()
            optimizer.step()
            marks.append(mark())
    if device.type == "cuda":
        torch.cuda.synchronize()
    times = None
    if profile is not None:
        profile.stop()
        events = seconds(started, marks[-1]) / PROFILED_STEPS
        times = {"profiler": profiled_seconds(profile), "events": events}
    return [seconds(marks[0], each) for each in marks], times


def main() -> None:
    """Train, and write the times of the steps to the file that the environment variable TICKS names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--steps", type=int, default=200, help="of an epoch")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--offload", action="store_true")
    parser.add_argument("--profile", action="store_true", help="the last steps, on a GPU")
    options = parser.parse_args()
    device = torch.device(options.device)
    torch.manual_seed(0)
    ticks, profiled = train(options, device)
    if os.environ.get("RANK", "0") == "0" and (path := os.environ.get("TICKS")):
        peak = torch.cuda.max_memory_reserved() if device.type == "cuda" else None
        Path(path).write_text(json.dumps(ticks), encoding="utf-8")
        Path(f"{path}.more").write_text(json.dumps({"peakMemoryBytes": peak, "profiled": profiled}), encoding="utf-8")
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
