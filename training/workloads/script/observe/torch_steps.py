"""Steps of PyTorch's optimizers.

The clock is the first optimizer that steps: `register_optimizer_step_post_hook` (torch 2.1 and newer). One that steps
inside another's step (of what shards its state, or wraps it) is that other's own affair.
"""

from __future__ import annotations

import functools
import sys
import threading
from typing import Any

from . import state, torch_inputs, torch_probe, torch_weights
from .gpu_use import GpuUse
from .step_parts import OPTIMIZER
from .work import Optimizer, is_looked_at

NOT_COMPARED = ("params", "lr", "foreach", "fused", "capturable", "differentiable")
"""Keys of a group of parameters that are compared by themselves, or say how and not what is computed."""
_inside = threading.local()


def observe_optimizers(module: Any) -> None:
    """Have every step of every optimizer end here. `module`: torch.optim.optimizer."""
    after = getattr(module, "register_optimizer_step_post_hook", None)
    before = getattr(module, "register_optimizer_step_pre_hook", None)
    if after is None:
        state.note("steps are seen with PyTorch 2.1 and newer")
        return
    if before is not None:
        before(_before_step)
    after(_after_step)


def _before_step(optimizer: Any, *_: Any) -> None:
    state.current().parts.claim()
    steps, parts = _steps_in_progress(), state.current().parts_here()
    if id(optimizer) in steps:  # it failed before
        del steps[steps.index(id(optimizer)) :]
    elif not steps and parts is not None:
        parts.enter(OPTIMIZER)
    steps.append(id(optimizer))


def _is_inside(optimizer: Any) -> bool:
    """Return whether the finished step was made within another optimizer's."""
    steps = _steps_in_progress()
    if id(optimizer) in steps:
        del steps[steps.index(id(optimizer)) :]
    return bool(steps)


def _steps_in_progress() -> list[int]:
    if not hasattr(_inside, "steps"):
        _inside.steps = []
    steps: list[int] = _inside.steps
    return steps


def _after_step(optimizer: Any, *_: Any) -> None:
    if _is_inside(optimizer):
        return
    if (parts := state.current().parts_here()) is not None:
        parts.leave()
    now, counted = state.current(), False
    if not now.step_ends and not now.device.is_used:
        _begin_device(now, optimizer)
    if now.device.is_used and id(optimizer) == (now.clock_of or id(optimizer)):
        now.device.end_step(len(now.step_ends) + 1, now.all_steps)  # in the script's time, as its own wait would be
    with now.hook():
        try:
            counted = _count(now, optimizer)
        except Exception as error:  # noqa: BLE001 (the script's step is done, and goes on)
            state.note(f"a step could not be observed: {error!r}")
    if counted and now.is_enough():
        raise state.Enough(0)


def _begin_device(now: state.State, optimizer: Any) -> None:
    """Have CUDA waited for, if it computes the steps of this optimizer."""
    devices = {parameter.device for group in optimizer.param_groups for parameter in group["params"]}
    on_cuda = [device for device in devices if device.type == "cuda"]
    if on_cuda:
        cuda = sys.modules["torch"].cuda
        now.device.begin(functools.partial(_synchronise, cuda, on_cuda))
        try:
            uuid = f"GPU-{str(cuda.get_device_properties(on_cuda[0]).uuid).removeprefix('GPU-')}"
            peak = functools.partial(cuda.max_memory_reserved, on_cuda[0])
            now.device.gpu = GpuUse(uuid, _backend(), peak)
        except Exception as error:  # noqa: BLE001 (PyTorch before 2.4 has no uuid)
            now.device.no_gpu = f"PyTorch does not say which GPU it is; 2.4 and newer do: {error!r}"


def _backend() -> str | None:
    """Return the library by which ranks exchange a GPU's gradients; None for a rank alone.

    A group that was made without naming one, or with one for each kind of device, has no such name itself.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    of_devices = dict(each.split(":", 1) for each in str(distributed.get_backend_config()).split(",") if ":" in each)
    return of_devices.get("cuda", str(distributed.get_backend()))


def _synchronise(cuda: Any, devices: list[Any]) -> None:
    if not cuda.is_current_stream_capturing():  # while a graph is recorded nothing is computed
        for device in devices:
            cuda.synchronize(device)


def _count(now: state.State, optimizer: Any) -> bool:
    if not now.step_ends:
        _begin(now)
    if id(optimizer) not in now.work.optimizers:
        torch_weights.optimizers.append(optimizer)
        now.work.optimizers[id(optimizer)] = Optimizer()
    seen = now.work.optimizers[id(optimizer)]
    seen.step([float(group["lr"]) for group in optimizer.param_groups if "lr" in group])
    now.work.varies = now.work.varies or type(optimizer).__name__ == "LBFGS"
    if is_looked_at(seen.steps):
        seen.settings.note(_settings(optimizer))
    counted = now.step(id(optimizer))
    if counted:
        now.take_time(torch_inputs.look)
    return counted


def _begin(now: state.State) -> None:
    """Note what is known with the first step: by then a rank has joined the others."""
    torch = sys.modules["torch"]
    now.framework = "torch"
    now.threads = torch.get_num_threads()
    now.model.digest, now.model.quick_digest = torch_weights.digest, torch_weights.quick_digest
    now.model.note_trained, now.model.gradient_bytes = torch_weights.note_trained, torch_weights.gradient_bytes
    if any(parameter.device.type != "cpu" for parameter in torch_weights.parameters()):
        now.parts.no_parts = "an accelerator computes beside the program, whose clock does not see it"
    now.probe = functools.partial(torch_probe.probe, torch_weights.gradient_bytes)
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        now.rank, now.world = distributed.get_rank(), distributed.get_world_size()
    else:
        now.world = 1  # whatever the variables say: nobody joined


def _settings(optimizer: Any) -> str:
    """Numbers of each group, but learning rates: what else decides a step."""
    return "; ".join(
        " ".join(f"{key}={value}" for key, value in sorted(group.items()) if _is_setting(key, value))
        for group in optimizer.param_groups
    )


def _is_setting(key: str, value: Any) -> bool:
    return key not in NOT_COMPARED and "lr" not in key and isinstance(value, (int, float, tuple, list))
