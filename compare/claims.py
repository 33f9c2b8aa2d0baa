"""How much a comparison may claim, from what was observed of the arms. Pure.

A, *same work*: rows, steps and weights are known to be alike. B, *same result*: a named score reached its target in
every run; no workload here has one. C, *same script*: steps are known, but not that they are the same work. D, *it
finished*: start and end alone are known.
"""

from collections.abc import Mapping

from compare.fairness import Check
from compare.measurement import Measurement
from compare.schema import Claim

OF_WORK = ("sameWork", "shardsCoverDataSet", "weightsEqual")
"""The checks by which arms are known to have done the same work."""


def claim_of(measurement: Measurement, checks: Mapping[str, Check]) -> tuple[Claim, str]:
    """The claim, and what it lacks of *same work* ("" if nothing). One worker shares nothing that has to be checked."""
    if not all(run.result.steps.per_epoch and run.result.epochs_completed for run in measurement.runs):
        return "it finished", "some run counted no step"
    needed = OF_WORK if measurement.recipe.workers > 1 else OF_WORK[:1]
    unknown = [name for name in needed if checks.get(name, (None, ""))[0] is None]
    claim = strongest(steps=True, same_work=None if unknown else True)
    return claim, f"not verified: {', '.join(unknown)}" if unknown else ""


def strongest(*, steps: bool, same_work: bool | None, same_result: bool | None = None) -> Claim:
    """The most that may be said: `steps` were counted in every run; the others are None where that is not known."""
    if not steps:
        return "it finished"
    return "same work" if same_work else "same result" if same_result else "same script"


WORDS: dict[Claim, str] = {
    "same result": "Only that every arm reached the same result is known",
    "same script": "As far as the runs say",
    "it finished": "Only start and end of the runs are known",
}
"""How the verdict qualifies what it says under each claim but the strongest."""
