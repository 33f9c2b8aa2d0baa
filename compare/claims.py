"""Derives how much a comparison may claim from what was observed of the arms. Pure.

A, *same work*: every item of a finite list is known to be alike; everything may be said. B, *same result*: a named
score reached its target in every run; the time to it is compared. C, *same script*: steps are known, but not that they
are the same work; throughput is compared, and nothing is decided. D, *it finished*: start and end alone are known. Arms
that are known to have done other work have no claim.
"""

from collections.abc import Mapping

from compare import measures
from compare.fairness import Check, reached_target
from compare.measurement import Measurement
from compare.schema import Claim, Estimate


def claim_of(measurement: Measurement, checks: Mapping[str, Check]) -> tuple[Claim | None, str]:
    """The claim, and what it lacks of *same work* ("" if nothing); no claim where a check failed. One worker shares
    nothing that has to be checked."""
    failed = [name for name, (passed, _) in checks.items() if passed is False]
    if failed:
        return None, f"not comparable: {', '.join(failed)} failed"
    if not all(run.result.steps.per_epoch and run.result.epochs_completed for run in measurement.runs):
        return "it finished", "some run counted no step"
    needed = ("sameWork", *(measurement.workload.work_checks if measurement.recipe.workers > 1 else ()))
    unknown = [name for name in needed if checks.get(name, (None, ""))[0] is None]
    claim = strongest(steps=True, same_work=None if unknown else True, same_result=reached_target(measurement))
    why = checks.get("sameWork", (None, ""))[1]
    lacks = f"not verified: {', '.join(unknown)}" + (f" ({why})" if why and "sameWork" in unknown else "")
    return claim, lacks if unknown else ""


def strongest(*, steps: bool, same_work: bool | None, same_result: bool | None = None) -> Claim | None:
    """The most that may be said: `steps` were counted in every run; the others are None where that is not known."""
    if same_work is False and not same_result:
        return None
    if not steps:
        return "it finished"
    return "same work" if same_work else "same result" if same_result else "same script"


def as_claimed(
    ratios: Mapping[str, Estimate | None], claim: Claim | None, reasons: dict[str, str]
) -> dict[str, Estimate | None]:
    """Return the ratios that the claim allows, None for others; `reasons` gets why."""
    allowed_ratios = dict(ratios)
    for name, value in ratios.items():
        if claim not in measures.ratio(name).claims and value is not None:
            allowed_ratios[name] = None
            reasons[name] = NOT_SAID.get(claim, "the claim does not allow it")
    return allowed_ratios


NOT_SAID: dict[Claim | None, str] = {
    "same work": "the arms did the same work, so the speedup says it",
    "same result": "the claim is `same result`: the time to that is compared",
    "same script": "it is not known whether the arms did the same work: the claim is `same script`",
    "it finished": "it is not known whether the arms did the same work: the claim is `it finished`",
}
"""Why a ratio is not said under a claim."""

WORDS: dict[Claim, str] = {
    "same result": "It is only known that every arm reached the same result",
    "same script": "The runs do not show all of it",
    "it finished": "Only start and end of the runs are known",
}
"""How the verdict qualifies what it says under each claim but the strongest."""
