"""The program that `pulumi up` runs: settings → place → runs → comparison → exports."""

import pulumi

from infra import outputs, plan
from infra.places import place as places
from infra.settings import settings

config = settings.load(places.choose)
for warning in config.warnings:
    pulumi.log.warn(warning)
if config.run.budget_minutes:
    from infra import budget

    for warning in budget.warnings(config):
        pulumi.log.warn(warning)

if pulumi.runtime.is_dry_run() and config.commands:
    pulumi.log.info("\n".join(config.commands))

place = places.choose(config.target)
config = place.prepare(config)

runs = plan.plan_runs(config, place)
ground = place.build(config, runs)

comparison = outputs.comparison(config, place, runs, ground.results)
for name, value in {**comparison, **ground.outputs}.items():
    pulumi.export(name, value)
