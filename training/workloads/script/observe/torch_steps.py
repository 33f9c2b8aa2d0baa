"""Steps of PyTorch's optimizers.

They are seen by `register_optimizer_step_post_hook` (torch 2.1 and newer). One that steps inside another's step (of
what shards its state, or wraps it) is that other's own affair.

The first optimizer that steps has the clock: its steps are those that count. An epoch, a fold or a phase may have one
of its own, which takes the clock with its first step. Of optimizers that step in turns, as a generator's and a
discriminator's, one has it: the others step with batches of which a step was counted already. All ranks decide alike:
nothing here depends on when an object is freed.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from numbers import Real
from typing import Any

from . import guard, own_rank, state, torch_inputs, torch_schedules, torch_weights
from .gpu_use import GpuUse
from .step_parts import OPTIMIZER
from .work import Groups, Optimizer, is_looked_at

RATES = ("lr", "initial_lr", "max_lr", "min_lr", "swa_lr")
"""Keys of a group of parameters with its learning rate, or a value from which a schedule computes that."""
NUMBERS = {bool, int, float}
NOTHING: Mapping[str, Any] = {}
NOT_COMPARED = {*RATES, "params", "param_names", "foreach", "fused", "capturable", "differentiable"}
"""Keys of a group of parameters that are not compared as settings: they are compared by other means, or say how a step
is computed and not what. A wrapped model gives the parameters' names a prefix."""
LATE = 32
"""Steps of another optimizer without a counted step between them, after which it takes over the step clock in any case:
the script has stopped using the counted optimizer. Nothing is known of these steps."""
_inside = threading.local()
_before: dict[int, tuple[Groups, bool]] = {}
"""Settings of an optimizer before the step in progress, and whether only the optimizer itself may change them during
the step, by the optimizer's id."""


@guard.guarded("PyTorch's optimizers can't be observed")
def observe_optimizers(module: Any) -> None:
    """Have the observer called after each step of each optimizer. `module`: torch.optim.optimizer."""
    after = getattr(module, "register_optimizer_step_post_hook", None)
    before = getattr(module, "register_optimizer_step_pre_hook", None)
    if after is None:
        state.note("steps are seen with PyTorch 2.1 and newer")
        return
    if before is not None:
        before(_before_step)
    after(_after_step)


@guard.guarded("PyTorch's gradient scalers can't be observed")
def observe_scalers(module: Any) -> None:
    """Count a step that a GradScaler leaves out because gradients overflowed: the batch was computed all the same, and
    which steps overflow depends on the rows. `module`: torch.amp.grad_scaler, or before PyTorch 2.3
    torch.cuda.amp.grad_scaler."""
    make = vars(module.GradScaler).get("_maybe_opt_step")
    if make is not None:
        module.GradScaler._maybe_opt_step = _make(make)


@guard.around("a step that is left out could not be observed", *guard.STEPS)
def _make(_: Any, optimizer: Any, *__: Any, **___: Any) -> Iterator[None]:
    before = state.current().work.steps_of(optimizer)
    yield
    if state.current().work.steps_of(optimizer) == before and not _steps_in_progress():
        _before_step(optimizer)
        state.current().work.of(optimizer).left_out += 1
        _after_step(optimizer)


@guard.guarded("the start of a step could not be observed", guard.PARTS)
def _before_step(optimizer: Any, args: Sequence[Any] = (), more: Mapping[str, Any] = NOTHING) -> None:
    state.current().parts.claim()
    steps, parts = _steps_in_progress(), state.current().parts_here()
    if not steps:
        with state.current().hook():
            _look_before(optimizer, [*args, *more.values()])
    if id(optimizer) in steps:  # it failed before
        del steps[steps.index(id(optimizer)) :]
    elif not steps and parts is not None:
        parts.enter(OPTIMIZER)
    steps.append(id(optimizer))


@guard.guarded("an optimizer's settings could not be observed", "hyperparameters")
def _look_before(optimizer: Any, arguments: Sequence[Any]) -> None:
    """Record the optimizer's settings before a step with these arguments, because the optimizer itself may change
    settings in its step."""
    _before[id(optimizer)] = _settings(optimizer), _steps_alone(optimizer, arguments)


def _steps_alone(optimizer: Any, arguments: Sequence[Any]) -> bool:
    """Return whether only the optimizer itself can change settings within its step: no closure and no other hook runs
    in the step, and it is not one of PyTorch's own optimizers, which change no settings."""
    if type(optimizer).__module__.startswith("torch.optim") or any(map(callable, arguments)):
        return False
    of_all = vars(sys.modules.get("torch.optim.optimizer", state))
    return not any(
        len(of_all.get(f"_global_optimizer_{when}_hooks", ())) > 1
        or getattr(optimizer, f"_optimizer_step_{when}_hooks", ())
        for when in ("pre", "post")
    )


def _is_inside(optimizer: Any) -> bool:
    """Return whether the finished step was made within a step of another optimizer."""
    steps = _steps_in_progress()
    if id(optimizer) in steps:
        del steps[steps.index(id(optimizer)) :]
    return bool(steps)


def _steps_in_progress() -> list[int]:
    if not hasattr(_inside, "steps"):
        _inside.steps = []
    steps: list[int] = _inside.steps
    return steps


@guard.guarded("a step could not be observed", *guard.STEPS)
def _after_step(optimizer: Any, *_: Any) -> None:
    if _is_inside(optimizer):
        return
    if (parts := state.current().parts_here()) is not None:
        parts.leave()
    now = state.current()
    with now.hook():
        seen = _see(now, optimizer)
        counts = _takes(now, seen)
    if not now.step_ends and not now.device.is_used:
        _begin_device(now, optimizer)
    if counts and now.device.is_used:
        now.device.end_step(len(now.step_ends) + 1, now.all_steps)  # in the script's time, as its own wait would be
    with now.hook():
        counted = _count(now, seen, counts=counts)
    if counted and now.is_enough():
        raise state.Enough(0)


def _begin_device(now: state.State, optimizer: Any) -> None:
    """Have the device clock wait for CUDA after steps, if CUDA devices compute the steps of this optimizer."""
    if on_cuda := _on_cuda(optimizer):
        cuda = sys.modules["torch"].cuda
        now.device.begin(functools.partial(_synchronise, cuda, on_cuda))
        try:
            uuid = f"GPU-{str(cuda.get_device_properties(on_cuda[0]).uuid).removeprefix('GPU-')}"
            peak = functools.partial(cuda.max_memory_reserved, on_cuda[0])
            now.device.gpu = GpuUse(uuid, _backend(), peak)
        except Exception as error:  # noqa: BLE001 (PyTorch before 2.4 has no uuid)
            now.device.no_gpu = f"PyTorch does not say which GPU it is; 2.4 and newer do: {error!r}"


def _on_cuda(optimizer: Any) -> list[Any]:
    """Return the GPUs that compute the optimizer's steps: the GPUs of its parameters; else the GPUs on which this
    process has reserved memory, the GPU with the most memory first. With offloading, parameters stay in the host's
    memory while a GPU computes with copies of them; that GPU need not be the current device."""
    devices = {parameter.device for group in optimizer.param_groups for parameter in group["params"]}
    on_cuda = [device for device in devices if device.type == "cuda"]
    torch = sys.modules["torch"]
    if not on_cuda and hasattr(torch, "cuda") and torch.cuda.is_initialized():
        reserved = {number: torch.cuda.max_memory_reserved(number) for number in range(torch.cuda.device_count())}
        numbers = sorted(filter(reserved.get, reserved), key=reserved.__getitem__, reverse=True)
        return [torch.device("cuda", number) for number in numbers]
    return on_cuda


def _backend() -> str | None:
    """Return the library by which ranks exchange gradients on GPUs, such as nccl; None for a process that has joined no
    group. It is read for the device type cuda, because a process group may have a backend for each type of device."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not own_rank.has_joined(distributed):
        return None
    of_devices = dict(each.split(":", 1) for each in str(distributed.get_backend_config()).split(",") if ":" in each)
    return of_devices.get("cuda", str(distributed.get_backend()))


def _synchronise(cuda: Any, devices: list[Any]) -> None:
    if not cuda.is_current_stream_capturing():  # while a graph is recorded nothing is computed
        for device in devices:
            cuda.synchronize(device)


def _see(now: state.State, optimizer: Any) -> Optimizer:
    """Record a step of the optimizer, and return the optimizer's record."""
    seen = now.work.of(optimizer)
    if torch_weights.trains_others(seen, optimizer):
        seen.is_over, seen = True, now.work.add(optimizer)
    torch_weights.see(seen, optimizer)
    rates = torch_schedules.rates_of(optimizer)
    seen.step(rates, len(now.step_ends))
    torch_schedules.see(seen, rates)
    now.work.varies = now.work.varies or type(optimizer).__name__ == "LBFGS"
    after = _settings(optimizer)
    before, own = _before.pop(id(optimizer), (after, False))
    seen.settings.step(seen.steps, before, after, own=own)
    return seen


def _count(now: state.State, seen: Optimizer, *, counts: bool) -> bool:
    """Count the step of an optimizer if `counts` says so, and return whether the step was counted."""
    if counts and now.clock_of is not seen:
        _take_clock(now, seen)
    now.work.present[seen] = None
    if not now.step_ends:
        _begin(now)
    counted = counts and now.step(seen, look=is_looked_at(seen.steps))
    if counted:
        torch_weights.note_gradients()
        now.take_time(torch_inputs.look)
    return counted


def _take_clock(now: state.State, seen: Optimizer) -> None:
    """Let the optimizer `seen` take over the step clock. If it trains another model than the optimizer before, record
    the weights of that earlier model for the last time."""
    before, seen.had_clock = now.clock_of, True
    if before is None:
        return
    if not _shares(seen, before):
        now.end_model()
        torch_inputs.begin_again()
    now.work.succeed(seen)
    now.clock_of = seen


def _begin(now: state.State) -> None:
    """Record rank, threads, device and the like at the first step: by then a rank has joined the others."""
    torch = sys.modules["torch"]
    now.framework = "torch"
    now.threads = torch.get_num_threads()
    now.model.digest, now.model.quick_digest = torch_weights.digest, torch_weights.quick_digest
    now.model.gradient_digest = torch_weights.gradient_digest
    now.model.note_parameters, now.model.gradient_bytes = torch_weights.note_parameters, torch_weights.gradient_bytes
    if now.device.is_used or any(parameter.device.type != "cpu" for parameter in torch_weights.parameters()):
        now.parts.no_parts = "an accelerator computes beside the program, whose clock does not see it"
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and own_rank.has_joined(distributed):
        now.rank, now.world = distributed.get_rank(), distributed.get_world_size()
    else:
        now.world = 1  # whatever the variables say: nobody joined


def _settings(optimizer: Any) -> Groups:
    """Return all that decides a step in each group of parameters, as numbers, but for the learning rates."""
    return [
        {key: tuple(value) if type(value) is list else value for key, value in group.items() if _is_setting(key, value)}
        for group in optimizer.param_groups
    ]


def _is_setting(key: str, value: Any) -> bool:
    if key in NOT_COMPARED:
        return False
    several = value if type(value) in (tuple, list) else (value,)
    return NUMBERS.issuperset(map(type, several)) or all(isinstance(each, Real) for each in several)


def _takes(now: state.State, optimizer: Optimizer) -> bool:
    """Return whether the optimizer's last step counts, and with it the steps that this optimizer makes later."""
    clock = now.clock_of
    if clock is None or clock is optimizer:
        return True
    if not isinstance(clock, Optimizer):  # of another framework
        return False
    if clock.is_over:
        return True
    if optimizer.steps > 1 and not optimizer.had_clock:
        return optimizer.between >= LATE
    has_batch = not (now.loaders and now.read_for_next)
    return (has_batch and (_shares(optimizer, clock) or now.begins_pass())) or optimizer.between >= LATE


def _shares(optimizer: Optimizer, other: Optimizer) -> bool:
    """Return whether the two optimizers train a parameter in common."""
    theirs = {id(weight) for weight in (reference() for reference in other.weights) if weight is not None}
    return any(id(reference()) in theirs for reference in optimizer.weights)
