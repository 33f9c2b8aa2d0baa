"""How much a comparison may claim, from what was observed of the arms. Pure.

A, *same work*: rows, steps and weights are known to be alike. B, *same result*: a named score reached its target in
every run. C, *same script*: steps are known, but not that they are the same work. D, *it
finished*: start and end alone are known.
"""

from collections.abc import Mapping
from dataclasses import replace

from compare.clock import seconds_to_target
from compare.fairness import Check
from compare.measurement import Measurement
from compare.schema import Claim, Estimate


def claim_of(measurement: Measurement, checks: Mapping[str, Check]) -> tuple[Claim, str]:
    """The claim, and what it lacks of *same work* ("" if nothing). One worker shares nothing that has to be checked."""
    if not all(run.result.steps.per_epoch and run.result.epochs_completed for run in measurement.runs):
        return "it finished", "some run counted no step"
    needed = ("sameWork", *(measurement.workload.work_checks if measurement.recipe.workers > 1 else ()))
    unknown = [name for name in needed if checks.get(name, (None, ""))[0] is None]
    reached = all(seconds_to_target(run.result, measurement.target) is not None for run in measurement.runs)
    claim = strongest(steps=True, same_work=None if unknown else True, same_result=reached)
    why = checks.get("sameWork", (None, ""))[1]
    lacks = f"not verified: {', '.join(unknown)}" + (f" ({why})" if why and "sameWork" in unknown else "")
    return claim, lacks if unknown else ""


def strongest(*, steps: bool, same_work: bool | None, same_result: bool | None = None) -> Claim:
    """The most that may be said: `steps` were counted in every run; the others are None where that is not known."""
    if not steps:
        return "it finished"
    return "same work" if same_work else "same result" if same_result else "same script"


def as_claimed(
    ratios: Mapping[str, Estimate | None], claim: Claim, reasons: dict[str, str]
) -> dict[str, Estimate | None]:
    """The ratios, without what the claim does not allow to be said of them; why goes into `reasons`."""
    said = dict(ratios)
    if claim != "same work" and said.get("efficiency"):
        said["efficiency"] = None
        reasons["efficiency"] = f"that the arms did the same work is not known: the claim is `{claim}`"
    if claim != "it finished":
        return said
    return {
        name: replace(value, decision="", repeats_to_decide=None) if value else None for name, value in said.items()
    }


WORDS: dict[Claim, str] = {
    "same result": "Only that every arm reached the same result is known",
    "same script": "As far as the runs say",
    "it finished": "Only start and end of the runs are known",
}
"""How the verdict qualifies what it says under each claim but the strongest."""
