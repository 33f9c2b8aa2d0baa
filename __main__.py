"""What `pulumi up` makes: settings → place → runs → comparison → exports."""

import pulumi

from infra import outputs, plan
from infra.places import place as places
from infra.settings import settings

config = settings.load(places.choose)
for warning in config.warnings:
    pulumi.log.warn(warning)

place = places.choose(config.target)
config = place.prepare(config)

runs = plan.plan_runs(config, place)
ground = place.build(config, runs)

comparison = outputs.comparison(config, place, runs, ground.results)
for name, value in {**comparison, **ground.outputs}.items():
    pulumi.export(name, value)
