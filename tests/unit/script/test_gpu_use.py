"""What NVIDIA's library says of a rank's GPU, with a stand-in that is built here."""

from typing import Any

import pytest

from tests import nvml
from training.workloads.script.observe import gpu_use
from training.workloads.script.observe.gpu_use import GpuUse


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with two GPUs."""
    monkeypatch.setattr(gpu_use, "LIBRARY", str(nvml.library()))


def used(samples: int = 1, number: int = 1, **more: Any) -> dict[str, Any]:
    """The use of one of them, with so many samples a second apart."""
    use = GpuUse(nvml.uuid(number), "nccl", more.get("peak", lambda: 5 * 2**30))
    for second in range(samples):
        use.sample(100.0 + second)
    return use.to_dict()


def test_a_gpu_is_told_with_what_it_does() -> None:
    """Which, by UUID; how busy, its power, its clock against the highest, memory, and the library between ranks."""
    found = used(samples=3, number=2)

    assert (nvml.uuid(2), nvml.NAME, "580.00", "nccl") == (
        found["uuid"], found["name"], found["driver"], found["backend"]
    )  # fmt: skip
    assert [[42.0, 350.0, 1980.0, 10.0 * 2**30]] * 3 == [sample[1:] for sample in found["samples"]]
    assert (5 * 2**30, 1980, {}, {}) == (
        found["peakMemoryBytes"], found["maxSmMhz"], found["throttled"], found["reasons"]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("bits", "throttled"),
    [
        ([0x1] * 4, {}),
        ([0x2] * 4, {}),
        ([0x4] * 4, {"power cap": 1.0}),
        ([0x44] * 4, {"power cap": 1.0, "heat, by the hardware": 1.0}),
        ([0, 0, 0x4, 0], {"power cap": 0.25}),
    ],
)
def test_only_what_holds_a_busy_gpu_back_is_throttling(
    monkeypatch: pytest.MonkeyPatch, bits: list[int], throttled: dict[str, float]
) -> None:
    """As a share of the samples. An idle one has lower clocks, too, and clocks may have been set."""
    use = GpuUse(nvml.uuid(1), None, lambda: 0)
    for second, of_sample in enumerate(bits):
        monkeypatch.setenv("STAND_IN_THROTTLED", str(of_sample))
        use.sample(100.0 + second)

    assert throttled == use.to_dict()["throttled"]


def test_samples_are_a_second_apart() -> None:
    """A step may take a millisecond."""
    use = GpuUse(nvml.uuid(1), None, lambda: 0)
    for tick in range(50):
        use.sample(100.0 + tick / 10)

    assert 5 == len(use.samples)


def test_what_the_driver_does_not_support_is_null_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some cards have no power sensor."""
    monkeypatch.setenv("STAND_IN_NO_POWER", "3")
    found = used()

    assert [42.0, None, 1980.0] == found["samples"][0][1:4]
    assert {"gpu.power"} == set(found["reasons"])
    assert "error 3" in found["reasons"]["gpu.power"]


@pytest.mark.parametrize(("path", "number"), [("/no/such.so", 1), ("", 9)], ids=["no library", "not known"])
def test_of_a_gpu_that_nobody_tells_of_all_but_pytorch_s_own_is_null(
    path: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in an image whose runtime was not asked for NVIDIA's library, and of a part of a GPU (MIG), which has another
    kind of UUID."""
    monkeypatch.setattr(gpu_use, "LIBRARY", path or gpu_use.LIBRARY)
    found = used(number=number)

    assert (None, [], None) == (found["name"], found["samples"], found["throttled"])
    assert nvml.uuid(number) == found["uuid"]
    assert {"gpu"} == set(found["reasons"])
    assert (number == 9) is (nvml.uuid(number) in found["reasons"]["gpu"])


def test_pytorch_s_memory_may_fail() -> None:
    """The rest is known."""

    def fails() -> int:
        raise RuntimeError("no")

    found = used(peak=fails)

    assert found["peakMemoryBytes"] is None
    assert nvml.NAME == found["name"]
    assert {"gpu.peakMemoryBytes"} == set(found["reasons"])
