"""The clock of steps that a GPU computes, with one that is simulated: synchronisations are counted, times are exact."""

import sys
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from tests import nvml
from tests.unit.script.test_facts import rank
from training.contract.gpu_use import UNKNOWN
from training.workloads.script.observe import device_clock, gpu_use, state, torch_steps
from training.workloads.script.observe.device_clock import FIRST_STEPS, DeviceClock
from training.workloads.script.step_clock import FIRST_WAITED, SeenPass, StepClock, step_clock


class Machine:
    """A program that hands steps to a device, and the device, which computes them one after another."""

    def __init__(self, host: float, device: float, hook: float = 0.0) -> None:
        self.now = self.free = 0.0
        self.host, self.device, self.hook = host, device, hook
        self.hook_seconds = 0.0
        """What the observer took, which is in no clock."""
        self.waits = 0
        self.computed: list[float] = []
        """When each step was computed."""
        self.handed_over: list[float] = []
        """When the program had handed over each step."""
        self.clock = DeviceClock(lambda: self.now - self.hook_seconds, self)
        self.clock.begin(self.synchronise)

    def synchronise(self) -> None:
        """Wait for the device."""
        self.waits += 1
        self.now = max(self.now, self.free)

    def step(self, last: int | None = None) -> None:
        """Hand over a step: at worst the device gets nothing before all of it."""
        self.now += self.host
        self.free = max(self.free, self.now) + self.device
        self.computed.append(self.free)
        self.handed_over.append(self.now)
        self.clock.end_step(len(self.computed), last)
        self.now += self.hook
        self.hook_seconds += self.hook

    def validate(self, seconds: float) -> None:
        """A pass over the training data has ended, and the program does something else."""
        self.clock.end_pass(len(self.computed))
        self.now += seconds
        self.clock.end_pass(len(self.computed))

    def clocked(self, passes: tuple[SeenPass, ...] = ()) -> StepClock:
        """The clock that a result has."""
        return step_clock(self.handed_over, passes, marks=self.clock.marks)


MOST_COST = 0.01
BUSY = [(0.002, 0.100), (0.020, 0.100), (0.100, 0.101), (0.0001, 0.010)]
"""Seconds in which the program hands over a step, and the device computes it: the device is the slower one."""


@pytest.mark.parametrize(("host", "device"), BUSY)
def test_waiting_costs_less_than_a_hundredth_of_a_step(host: float, device: float) -> None:
    """Beyond the first steps, which are not timed; against the same steps without a wait."""
    machine, steps = Machine(host, device), 2000
    for _ in range(steps):
        machine.step()
    first, waits = machine.computed[FIRST_STEPS - 1], machine.waits - FIRST_STEPS

    cost = (machine.computed[-1] - first) / ((steps - FIRST_STEPS) * device) - 1

    assert cost < MOST_COST
    assert 0 < waits <= (steps - FIRST_STEPS) / machine.clock.every + 12  # at the powers of two, weights are looked at
    assert machine.clock.every <= 256


@pytest.mark.parametrize(("host", "device"), BUSY)
def test_a_step_takes_what_the_device_takes(host: float, device: float) -> None:
    """And not what the program takes to hand it over, which its own clock says."""
    machine = Machine(host, device)
    for _ in range(600):
        machine.step()
    clock = machine.clocked()

    assert device <= sum(clock.timed) / len(clock.timed) <= (1 + MOST_COST) * device
    assert len(clock.timed) >= 600 - FIRST_STEPS - machine.clock.every
    assert clock.settled_after >= FIRST_STEPS - 1


def trained(host: float, device: float, hook: float = 0.0) -> Machine:
    """A machine that has made 600 steps."""
    machine = Machine(host, device, hook)
    for _ in range(600):
        machine.step(last=600)
    return machine


@pytest.mark.parametrize(
    ("host", "device"),
    [(0.002, 0.100), (0.0001, 0.010), (0.003, 0.005), (0.010, 0.001), (0.010, 0.0099), (0.010, 0.010)],
)
def test_what_the_observer_does_is_subtracted_unless_the_device_computes_meanwhile(host: float, device: float) -> None:
    """Then it delays nobody: without it the program would wait longer. Where the device waits for the program, as on
    CPUs, a run that is not observed would be so much shorter."""
    observed, alone = trained(host, device, hook=0.001), trained(host, device)
    steps, expected = observed.clocked().timed, alone.clocked().timed

    assert sum(expected) / len(expected) == pytest.approx(sum(steps) / len(steps), rel=0.002)
    if device > host:
        assert alone.now == pytest.approx(observed.now - observed.hook_seconds, rel=0.002)
    else:
        assert pytest.approx(0.6) == observed.hook_seconds


def test_a_device_that_waits_for_the_program_is_seldom_waited_for() -> None:
    """Then the program's clock is right, and a wait costs what the device takes, at most."""
    machine = Machine(0.010, 0.001)
    for _ in range(1000):
        machine.step()
    timed = machine.clocked().timed

    assert machine.clock.every >= 128
    assert 0.010 <= sum(timed) / len(timed) <= 0.0101


def test_windows_end_with_a_pass() -> None:
    """What lies between two passes is in no step, though the device still computes when the program is through."""
    machine, passes = Machine(0.002, 0.100), []
    for _ in range(3):
        passes.append(SeenPass(start=len(machine.computed), finished=True))
        for _ in range(50):
            machine.step()
        machine.validate(5.0)
    clock = machine.clocked(tuple(passes))

    assert (3, 50, True, 2) == (clock.epochs, clock.per_epoch, clock.whole_epochs, clock.gaps)
    assert 0.100 <= min(clock.timed)
    assert max(clock.timed) < 0.103
    assert 2 * 5.0 == pytest.approx(clock.between_seconds, abs=0.01)


def test_the_last_wanted_step_is_waited_for() -> None:
    """It ends the window of a run that is ended after so many steps."""
    machine = Machine(0.002, 0.100)
    for _ in range(99):
        machine.step(last=99)

    assert (99, machine.free) == machine.clock.marks[-1]
    assert 99 == len(machine.clocked().timed) + FIRST_STEPS


def test_ranks_that_choose_differently_wait_at_steps_of_each_other() -> None:
    """Else the waits of all of them would add up: the others are held back by each."""
    slow, fast = Machine(0.030, 0.100), Machine(0.004, 0.100)
    for _ in range(300):
        slow.step()
        fast.step()
    often, seldom = sorted((slow, fast), key=lambda machine: machine.clock.every)

    assert often.clock.every < seldom.clock.every
    assert {steps for steps, _ in seldom.clock.marks} <= {steps for steps, _ in often.clock.marks}


def test_without_a_device_nothing_is_waited_for() -> None:
    """A training on CPUs has the clock that it had."""
    clock = DeviceClock(lambda: 0.0, SimpleNamespace(hook_seconds=0.0))
    clock.end_step(1)
    clock.end_pass(1)

    assert clock.to_dict() is None


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module with as much of PyTorch as steps need, which counts synchronisations, and a process that is observed."""
    counted: list[Any] = []
    cuda = SimpleNamespace(synchronize=counted.append, is_current_stream_capturing=lambda: False, counted=counted)
    cuda.is_initialized = lambda: False
    module = SimpleNamespace(cuda=cuda, get_num_threads=lambda: 1, device=Device)
    monkeypatch.setitem(sys.modules, "torch", module)
    monkeypatch.setattr(state, "_states", [state.State()])
    monkeypatch.setattr(state, "_write_at_end", lambda: None)
    return cuda


class Device(NamedTuple):
    """As `torch.device` is: equal ones are the same key."""

    type: str
    index: int = 0  # type: ignore[assignment]  # a tuple has a method of that name


class Thing(SimpleNamespace):
    """One that weak references may be made of."""


def optimizer_on(kind: str) -> Any:
    """One whose only parameter is on a device of this kind."""
    parameter = Thing(device=Device(kind), requires_grad=True, grad=None)
    return Thing(param_groups=[{"params": [parameter], "lr": 0.1}])


@pytest.mark.parametrize(("kind", "synchronised"), [("cuda", FIRST_STEPS), ("cpu", 0)])
def test_optimizers_on_a_gpu_are_waited_for(torch: Any, kind: str, synchronised: int) -> None:
    """Each of the first steps, before its end is noted; of CPUs none."""
    optimizer = optimizer_on(kind)
    for _ in range(FIRST_STEPS):
        torch_steps._before_step(optimizer)
        torch_steps._after_step(optimizer)

    assert synchronised == len(torch.counted)
    assert FIRST_STEPS == len(state.current().step_ends)
    device = state.current().device.to_dict()
    assert (device is None) == (kind == "cpu")
    assert bool(state.current().parts.no_parts) == (kind == "cuda")  # no clock of the program sees what it computes


@pytest.mark.parametrize(("reserved", "synchronised"), [({0: 2**20}, [0]), ({0: 0}, []), ({0: 1, 1: 2**30}, [1, 0])])
def test_a_gpu_that_computes_with_copies_of_parameters_is_waited_for(
    torch: Any, reserved: dict[int, int], synchronised: list[int]
) -> None:
    """Parameters of an offloaded model are in the host's memory, and it need not be on the process' current GPU; a GPU
    that holds nothing computes nothing."""
    torch.is_initialized, torch.current_device = lambda: True, lambda: 0
    torch.device_count, torch.max_memory_reserved = lambda: len(reserved), lambda number=0: reserved[number]
    torch_steps._after_step(optimizer_on("cpu"))

    assert synchronised == [each.index for each in torch.counted]
    assert (state.current().device.to_dict() is not None) == bool(synchronised)
    assert bool(state.current().parts.no_parts) == bool(synchronised)


def test_the_gpu_of_a_rank_is_told_by_its_uuid(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As PyTorch has it, and asked of NVIDIA's library; a rank alone has no backend."""
    monkeypatch.setattr(gpu_use, "LIBRARY", str(nvml.library()))
    torch.get_device_properties = lambda _: SimpleNamespace(uuid=nvml.uuid(2).removeprefix("GPU-"))
    torch.max_memory_reserved = lambda _: 3 * 2**30
    torch_steps._after_step(optimizer_on("cuda"))
    device = state.current().device.to_dict()

    assert device is not None
    assert (nvml.uuid(2), nvml.NAME, None, 3 * 2**30) == tuple(
        device["gpu"][key] for key in ("uuid", "name", "backend", "peakMemoryBytes")
    )
    assert 1 == len(device["gpu"]["samples"])


@pytest.mark.parametrize(
    ("backend", "of_devices"),
    [("nccl", "cuda:nccl"), ("undefined", "cpu:gloo,cuda:nccl"), ("cpu:gloo,cuda:nccl", "cpu:gloo,cuda:nccl")],
)
def test_the_backend_is_that_of_gpus(
    torch: Any, monkeypatch: pytest.MonkeyPatch, backend: str, of_devices: str
) -> None:
    """As PyTorch 2.15 says them: of a group made without naming a backend its own is `undefined`."""
    group = SimpleNamespace(get_backend=lambda: backend, get_backend_config=lambda: of_devices)
    group.is_available = lambda: True
    group.distributed_c10d = SimpleNamespace(is_initialized=lambda: True)
    group.get_rank, group.get_world_size = lambda: 0, lambda: 2
    monkeypatch.setitem(sys.modules, "torch.distributed", group)
    monkeypatch.setattr(gpu_use, "LIBRARY", "/no/such.so")
    torch.get_device_properties = lambda _: SimpleNamespace(uuid="1")
    torch.max_memory_reserved = lambda _: 0
    torch_steps._after_step(optimizer_on("cuda"))
    device = state.current().device.to_dict()

    assert device is not None
    assert "nccl" == device["gpu"]["backend"]


def test_a_pytorch_that_does_not_say_which_gpu_it_is_is_the_reason(torch: Any) -> None:
    """Before 2.4: that a GPU computes is known, and nothing else of it."""
    torch.get_device_properties = lambda _: SimpleNamespace(name="Some 80GB")
    torch_steps._after_step(optimizer_on("cuda"))
    seen = rank(0, 1, device=state.current().device.to_dict())

    assert UNKNOWN == seen.gpu
    assert {"gpu"} == set(seen.gpu_reasons)
    assert "uuid" in seen.gpu_reasons["gpu"]


def test_a_graph_that_is_recorded_is_not_waited_for(torch: Any) -> None:
    """CUDA refuses to synchronise meanwhile."""
    torch.is_current_stream_capturing = lambda: True
    torch_steps._after_step(optimizer_on("cuda"))

    assert [] == torch.counted


def test_a_second_optimizer_has_no_clock(torch: Any) -> None:
    """One step of the first is waited for once."""
    first, second = optimizer_on("cuda"), optimizer_on("cuda")
    for optimizer in (first, second, first, second):
        torch_steps._after_step(optimizer)

    assert 2 == len(torch.counted)


def test_first_steps_are_as_many_for_the_clock_as_for_the_device() -> None:
    """Two modules say it, because one of them runs in the script's Python."""
    assert device_clock.FIRST_STEPS == FIRST_WAITED + 1
