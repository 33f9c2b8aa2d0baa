"""Reads this machine's NVIDIA GPUs from the driver's own library, NVML, in the order of their PCI slots.

PyTorch's count is no evidence: with a library that names two GPUs `torch.cuda.device_count` is 2 while `is_available`
is false. NVML comes with the driver, so nothing has to be installed. Standard library only; functions and codes as in
NVIDIA's reference, https://docs.nvidia.com/deploy/nvml-api.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

LIBRARY = "libnvidia-ml.so.1"
_NAME_BYTES = 96


class NoGpusError(ValueError):
    """NVML does not answer, or reports too few GPUs; the message says why."""


@dataclass(frozen=True)
class Gpu:
    """One GPU of this machine."""

    uuid: str
    name: str


def list_all() -> list[Gpu]:
    """Return the GPUs of this machine. Raises NoGpusError if NVML cannot be asked."""
    with _library() as nvml:
        number = ctypes.c_uint()
        _ask(nvml, "nvmlDeviceGetCount_v2", ctypes.byref(number))
        return [_gpu(nvml, index) for index in range(number.value)]


def first(number: int) -> tuple[str, ...]:
    """Return the UUIDs of the first `number` GPUs. Raises NoGpusError if there are fewer."""
    uuids = tuple(gpu.uuid for gpu in list_all()) if number else ()
    if len(uuids) < number:
        raise NoGpusError(f"{number} GPUs are needed, and NVIDIA's driver names {len(uuids)}")
    return uuids[:number]


def why_too_few(needed: int) -> tuple[int, str]:
    """Return the number of GPUs of this machine, and why there are fewer than `needed`; "" if there are enough."""
    try:
        here = [gpu.name for gpu in list_all()]
    except NoGpusError as error:
        return 0, str(error)
    return len(here), "" if len(here) >= needed else f"NVML names {', '.join(here) or 'none'}"


def _gpu(nvml: ctypes.CDLL, index: int) -> Gpu:
    handle = ctypes.c_void_p()
    _ask(nvml, "nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))
    return Gpu(_text(nvml, "nvmlDeviceGetUUID", handle), _text(nvml, "nvmlDeviceGetName", handle))


def _text(nvml: ctypes.CDLL, function: str, handle: ctypes.c_void_p) -> str:
    text = ctypes.create_string_buffer(_NAME_BYTES)
    _ask(nvml, function, handle, text, ctypes.c_uint(_NAME_BYTES))
    return text.value.decode()


@contextmanager
def _library() -> Iterator[ctypes.CDLL]:
    try:
        nvml = ctypes.CDLL(LIBRARY)
    except OSError:
        raise NoGpusError(f"there is no {LIBRARY}, which comes with NVIDIA's driver") from None
    _ask(nvml, "nvmlInit_v2")
    try:
        yield nvml
    finally:
        nvml.nvmlShutdown()


def _ask(nvml: ctypes.CDLL, function: str, *arguments: object) -> None:
    code = getattr(nvml, function)(*arguments)
    if code:
        raise NoGpusError(f"{function} of NVIDIA's driver gave error {code}")
