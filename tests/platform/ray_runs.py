"""A stack's RayCluster and its Ray runs, and nothing else of it: run by the real engine in place of `__main__.py`."""

from typing import Any

import pulumi

from infra import plan
from infra.places import place as places
from infra.places.cluster import gone, run_watch
from infra.places.cluster.api import kube
from infra.places.cluster.components.foundation import RayTrainingCluster
from infra.places.cluster.components.runs import ClusterRuns, WantedRuns
from infra.places.cluster.manifests.pods import pods_of
from infra.places.cluster.place import take_away_workers
from infra.settings import settings


class RayRuns(pulumi.ComponentResource):
    """The part of a measurement that has Ray's pods."""

    def __init__(self, config: settings.Settings, place: places.Place[Any]) -> None:
        super().__init__("ray-worth-it:test:RayRuns", "measurement")
        here = places.cluster_of(config.target).reach(config, self)
        pods, child = pods_of(config), pulumi.ResourceOptions(parent=self)
        ray = RayTrainingCluster("ray", pods.ray_cluster, here, [], child)
        plans = [run for run in plan.plan_runs(config, place.site(config)) if run.arm == "ray"]
        of_ray = pods.ray_cluster
        wanted = WantedRuns(
            config.stack, plans, pods.jobs, False, None, per_run=of_ray.per_run, idle_seconds=of_ray.idle_seconds
        )
        runs = ClusterRuns("runs", wanted, here, [ray.ready], child)
        self.register_outputs({"runs": list(runs.runs)})
        for name, run in runs.runs.items():
            pulumi.export(name, run.result)


if __name__ == "__main__":
    draft = settings.load()
    chosen = places.choose(draft.usable_target)
    accepted = settings.accepted(draft, chosen)
    if kube.own_text(accepted.stack) and not pulumi.runtime.is_dry_run():
        take_away_workers(kube.connect(kube.own_path(accepted.stack)), accepted)
    gone.refuse(accepted)
    if not pulumi.runtime.is_dry_run():
        run_watch.start(accepted)
    RayRuns(accepted, chosen)
