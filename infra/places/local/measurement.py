"""A measurement whose runs are processes of this machine, on target local, or follow jobs elsewhere, on target ray."""

from collections.abc import Mapping
from typing import Any

import pulumi

from infra.places.local.run import TrainingRun
from infra.plan import RunPlan
from infra.settings.settings import Settings
from training.contract.arms import ARMS
from training.contract.recipe import texts


class ProcessMeasurement(pulumi.ComponentResource):
    """The planned runs as resources, in their order. Runs never overlap: they would disturb each other."""

    runs: dict[str, TrainingRun]
    """The runs as resources, by the run's name."""
    outputs: Mapping[str, pulumi.Input[str]] = {}
    """The stack's outputs other than the comparison: none, as the address of a Ray cluster is a setting."""

    def __init__(self, kind: str, run: type[TrainingRun], properties: Mapping[str, Mapping[str, Any]]) -> None:
        super().__init__(kind, "measurement")
        self.runs = {}
        for name, values in properties.items():
            options = pulumi.ResourceOptions(
                parent=self,
                depends_on=list(self.runs.values())[-1:],
                retain_on_delete=True,  # its files stay, and a moved module cannot break `destroy`
            )
            self.runs[name] = run(name, dict(values), options)
        self.register_outputs({"runs": list(self.runs)})

    @property
    def results(self) -> dict[str, pulumi.Output[str]]:
        """Return the summary of each run's result, canonical JSON, by the run's name."""
        return {name: run.result for name, run in self.runs.items()}


def common(settings: Settings, plan: RunPlan) -> dict[str, Any]:
    """Return the properties that a run has on target local and on target ray."""
    return {
        "stack": settings.stack,
        "name": plan.name,
        "arm": plan.arm,
        "recipe": texts(plan.recipe.to_dict()),
        "timeoutMinutes": settings.run.run_timeout_minutes,
        "keep": settings.run.keep_baseline and ARMS[plan.arm].role(plan.recipe.workload) == "reference",
        "ownKey": plan.own_key,
        "measurement": plan.measurement,
    }
