"""The GPU of a rank, and what it did while the rank trained. Standard library only."""

from dataclasses import dataclass, field, replace

NOTICEABLE_SHARE = 0.05
"""Share of the samples in which a GPU's clocks were held back, from which on it is said."""


@dataclass(frozen=True, kw_only=True)
class GpuUse:
    """One GPU; what NVIDIA's driver did not say is null."""

    uuid: str | None = None
    name: str | None = None
    """Model."""
    driver: str | None = None
    """Version."""
    backend: str | None = None
    """Library by which ranks exchange gradients, as PyTorch calls it: `nccl`, `gloo`; null for a rank alone."""
    peak_memory_bytes: int | None = None
    """Most memory that PyTorch held at a time, for this rank alone."""
    max_sm_mhz: int | None = None
    """Highest clock of its processors."""
    samples: list[list[float | None]] = field(default_factory=list)
    """[seconds since the first, percent of the time busy, watts, clock of its processors in MHz, bytes in use by all
    processes], about once a second while steps are made: each when a step was just handed to it."""
    throttled: dict[str, float] | None = None
    """Share of the samples in which its clocks were held back, by reason; empty if they never were."""

    @property
    def held_back(self) -> dict[str, float]:
        """Return the reasons that held it back for a noticeable part of the samples, with that share."""
        return {why: share for why, share in (self.throttled or {}).items() if share >= NOTICEABLE_SHARE}


UNKNOWN = GpuUse()
"""A GPU that computed, and of which nothing could be observed."""


def without_samples(gpu: GpuUse | None) -> GpuUse | None:
    """Return the same without what grows with the length of a run."""
    return replace(gpu, samples=[]) if gpu else None
