"""What `pulumi up` makes, by target: the place to run, the runs of the measurement in it, and what they show."""

import pulumi

from infra import outputs, plan, settings

config = settings.load()
runs = plan.plan_runs(config)
for warning in config.warnings:
    pulumi.log.warn(warning)

if config.target == "local":
    from infra.local import LocalMeasurement

    measurement = LocalMeasurement("measurement", config, runs)
else:
    from infra.cluster_extra import require

    require(config.target)  # place → operator → RayCluster → dashboard → runs

for name, value in outputs.comparison(config, runs, measurement.results).items():
    pulumi.export(name, value)
