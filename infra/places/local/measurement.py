"""The target `local`: the runs of a measurement as processes of this machine, one after another."""

from collections.abc import Iterable
from typing import Any

import pulumi

from infra.places.local.run import TrainingRun
from infra.plan import RunPlan
from infra.settings.settings import Settings
from training.contract.recipe import canonical


class LocalMeasurement(pulumi.ComponentResource):
    """Makes the planned runs in their order. They never overlap: they share this machine's cores."""

    runs: dict[str, TrainingRun]
    """By name."""

    def __init__(
        self, name: str, settings: Settings, plans: Iterable[RunPlan], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("ray-worth-it:local:Measurement", name, {}, opts)
        self.runs = {}
        for plan in plans:
            self.runs[plan.name] = TrainingRun(
                plan.name,
                _properties(settings, plan),
                pulumi.ResourceOptions(
                    parent=self,
                    depends_on=list(self.runs.values())[-1:],  # two at once would measure each other
                    retain_on_delete=True,  # its files stay, and a moved module cannot break `destroy`
                ),
            )
        self.register_outputs({"runs": list(self.runs)})

    @property
    def outputs(self) -> dict[str, pulumi.Input[Any]]:
        """The stack's outputs beside the comparison: this machine has no address to tell."""
        return {}

    @property
    def results(self) -> dict[str, pulumi.Output[str]]:
        """The summary of each run's result, canonical JSON, by the run's name."""
        return {name: run.result for name, run in self.runs.items()}


def _properties(settings: Settings, plan: RunPlan) -> dict[str, str | int | bool]:
    """What `TrainingRunProvider` reads. The recipe is one string, because Pulumi makes floats of numbers."""
    return {
        "stack": settings.stack,
        "name": plan.name,
        "arm": plan.arm,
        "recipe": canonical(plan.recipe.to_dict()),
        "datasetPath": settings.dataset_path or "",
        "rayDashboard": settings.ray_dashboard,
        "timeoutMinutes": settings.run_timeout_minutes,
        "keep": settings.keep_baseline and plan.arm == "baseline",
        "ownKey": plan.own_key,
        "measurement": plan.measurement,
    }
