"""The baseline arm: one process with the CPUs of one worker, and no strategy."""

from training import entry, environment, provenance
from training.result import TrainingResult
from training.session import Launch


def run(request: entry.Request) -> TrainingResult | None:
    """Train in this process."""
    host, cpus = provenance.host(), provenance.allowed_cpus() if request.bind_cpus else None
    environment.prepare(request.recipe, 0, cpus)
    with request.phases.measure("tensorflow"):
        from training.train import train
    launch = Launch(
        arm="baseline",
        rank=0,
        world=1,
        host=host,
        started=request.started,
        phases=request.phases,
        dataset_path=request.dataset_path,
        folder=request.result.parent,
    )
    return train(request.recipe, launch)


if __name__ == "__main__":
    asked = entry.parse("baseline", __doc__)
    entry.run(lambda: run(asked), asked.result)
