"""What `pulumi up` makes, by target: the place to run, the runs of the measurement in it, and what they show."""

import pulumi

from infra import outputs, plan
from infra.image import base as image_base
from infra.settings import settings

config = settings.load()
for warning in config.warnings:
    pulumi.log.warn(warning)
config = image_base.pinned(config)
runs = plan.plan_runs(config)

if config.target == "local":
    from infra.places.local.measurement import LocalMeasurement as Measurement
else:
    from infra.places.cluster.extra import require_cluster_extra

    require_cluster_extra(config.target)
    from infra.places.cluster.measurement import ClusterMeasurement as Measurement  # type: ignore[assignment]

measurement = Measurement("measurement", config, runs)

for name, value in (outputs.comparison(config, runs, measurement.results) | measurement.outputs).items():
    pulumi.export(name, value)
