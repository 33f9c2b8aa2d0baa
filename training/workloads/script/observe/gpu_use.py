"""What the GPU of this process does, as NVIDIA's library (NVML) says: which it is, how busy, and what holds it back.

NVML comes with the driver; nothing is installed into the script's environment for it. What it does not say is null,
with a reason. Functions and bits as in NVIDIA's reference, https://docs.nvidia.com/deploy/nvml-api.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any

LIBRARY = "libnvidia-ml.so.1"
SAMPLE_SECONDS = 1.0
MOST_SAMPLES = 2000
"""Most samples. When there are more, every second sample is dropped, and samples are taken half as often."""
SM_CLOCK = 1
THROTTLING = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "heat, by the driver",
    0x40: "heat, by the hardware",
    0x80: "power brake",
}
"""Bits of NVML's reasons for lower clocks that mean that a busy GPU is slowed down; the bits for an idle GPU and for
clocks that a user has set are left out."""
_NAME_BYTES = 96


class _Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class _Utilization(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class GpuUse:
    """The use of one GPU, from its first sample on."""

    def __init__(self, uuid: str, backend: str | None, peak_memory_bytes: Callable[[], int]) -> None:
        self.uuid, self.backend = uuid, backend
        self.samples: list[list[float | None]] = []
        """[seconds since the first step, percent busy, watts, SM clock in MHz, bytes in use by all processes] of
        each."""
        self.throttled: dict[str, int] = {}
        """Number of samples in which the GPU's clocks were held back, by reason."""
        self.read = 0
        """Number of samples in which NVML told whether the clocks were held back."""
        self.reasons: dict[str, str] = {}
        self._peak_memory_bytes = peak_memory_bytes
        self._every, self._began, self._last = SAMPLE_SECONDS, time.monotonic(), 0.0
        self._nvml: Any = None
        self._handle = ctypes.c_void_p()
        self.name = self.driver = self.max_sm_mhz = None
        self._open()

    def _open(self) -> None:
        try:
            self._nvml = ctypes.CDLL(LIBRARY)
        except OSError:
            self.reasons["gpu"] = f"there is no {LIBRARY} beside the script, which comes with NVIDIA's driver"
            return
        if self._nvml.nvmlInit_v2() or self._ask(
            "nvmlDeviceGetHandleByUUID", self.uuid.encode(), ctypes.byref(self._handle)
        ):
            self.reasons["gpu"] = f"NVIDIA's driver knows no {self.uuid}"
            self._nvml = None
            return
        self.name = self._text("name", "nvmlDeviceGetName", self._handle)
        self.driver = self._text("driver", "nvmlSystemGetDriverVersion")
        self.max_sm_mhz = self._number("maxSmMhz", "nvmlDeviceGetMaxClockInfo", SM_CLOCK)

    def sample(self, now: float) -> None:
        """Record what the GPU does, about once a second. `now`: seconds of the monotonic clock."""
        if self._nvml is None or (self.samples and now - self._last < self._every):
            return
        self._last = now
        busy, memory = _Utilization(), _Memory()
        has_busy = not self._failed("utilization", "nvmlDeviceGetUtilizationRates", ctypes.byref(busy))
        has_memory = not self._failed("memory", "nvmlDeviceGetMemoryInfo", ctypes.byref(memory))
        milliwatts = self._number("power", "nvmlDeviceGetPowerUsage")
        mhz = self._number("smClock", "nvmlDeviceGetClockInfo", SM_CLOCK)
        self.samples.append(
            [
                round(now - self._began, 2),
                float(busy.gpu) if has_busy else None,
                None if milliwatts is None else milliwatts / 1000,
                None if mhz is None else float(mhz),
                float(memory.used) if has_memory else None,
            ]
        )
        self._see_throttling()
        if len(self.samples) > MOST_SAMPLES:
            del self.samples[::2]
            self._every *= 2

    def _see_throttling(self) -> None:
        bits = ctypes.c_ulonglong()
        if self._failed("throttled", "nvmlDeviceGetCurrentClocksThrottleReasons", ctypes.byref(bits)):
            return
        self.read += 1
        for bit, words in THROTTLING.items():
            if bits.value & bit:
                self.throttled[words] = self.throttled.get(words, 0) + 1

    def _ask(self, function: str, *arguments: Any) -> int:
        """Call a function of NVML, and return its code: 0 for success, -1 if this driver does not have the function."""
        call = getattr(self._nvml, function, None)
        return -1 if call is None else int(call(*arguments))

    def _failed(self, what: str, function: str, *arguments: Any) -> bool:
        code = self._ask(function, self._handle, *arguments)
        if code:
            self.reasons.setdefault(f"gpu.{what}", f"{function} of NVIDIA's driver gave error {code}")
        return bool(code)

    def _number(self, what: str, function: str, *arguments: int) -> Any:
        value = ctypes.c_uint()
        return None if self._failed(what, function, *arguments, ctypes.byref(value)) else value.value

    def _text(self, what: str, function: str, *arguments: Any) -> Any:
        text = ctypes.create_string_buffer(_NAME_BYTES)
        code = self._ask(function, *arguments, text, _NAME_BYTES)
        if code:
            self.reasons[f"gpu.{what}"] = f"{function} of NVIDIA's driver gave error {code}"
        return None if code else text.value.decode(errors="replace")

    def to_dict(self) -> dict[str, Any]:
        """Return the GPU's use as plain data; what is not known is null, with a reason."""
        try:
            peak = int(self._peak_memory_bytes())
        except Exception as error:  # noqa: BLE001 (whatever it is, the rest is known)
            peak = None
            self.reasons["gpu.peakMemoryBytes"] = f"PyTorch does not say it: {error!r}"
        return {
            "uuid": self.uuid,
            "name": self.name,
            "driver": self.driver,
            "backend": self.backend,
            "peakMemoryBytes": peak,
            "maxSmMhz": self.max_sm_mhz,
            "samples": self.samples,
            "throttled": {words: number / self.read for words, number in self.throttled.items()} if self.read else None,
            "reasons": self.reasons,
        }
