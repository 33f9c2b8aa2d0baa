"""The GPU of a rank, and what it did while the rank trained. Standard library only."""

from dataclasses import dataclass, field, replace

NOTICEABLE_SHARE = 0.05
"""Share of the samples in which a GPU's clocks have to be held back before this is reported."""


@dataclass(frozen=True, kw_only=True)
class GpuUse:
    """One GPU and its use by a rank. A field is null if it is not known."""

    uuid: str | None = None
    name: str | None = None
    """Model of the GPU."""
    driver: str | None = None
    """Version of the driver."""
    backend: str | None = None
    """Library by which ranks exchange gradients, by PyTorch's name: `nccl` or `gloo`; null for a single rank."""
    peak_memory_bytes: int | None = None
    """Peak of the memory that PyTorch had reserved for this rank."""
    max_sm_mhz: int | None = None
    """Highest clock of the GPU's processors, in MHz."""
    samples: list[list[float | None]] = field(default_factory=list)
    """Samples, each [seconds since the first step, percent of the time busy, watts, clock of its processors in MHz,
    bytes in use by all processes]. While the rank trains, one is taken about every second, just after a step was handed
    to the GPU."""
    throttled: dict[str, float] | None = None
    """Share of the samples in which the GPU's clocks were held back, by reason; empty if they never were."""

    @property
    def held_back(self) -> dict[str, float]:
        """Return the reasons why the GPU's clocks were held back in a noticeable share of samples, with that share."""
        return {why: share for why, share in (self.throttled or {}).items() if share >= NOTICEABLE_SHARE}


UNKNOWN = GpuUse()
"""The value for a GPU that computed, but of which nothing could be observed."""


def without_samples(gpu: GpuUse | None) -> GpuUse | None:
    """Return the GPU's data without the samples, whose number grows with the length of a run."""
    return replace(gpu, samples=[]) if gpu else None
