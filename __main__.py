"""The program that `pulumi up` runs: settings → place → runs → comparison → exports."""

import pulumi

from infra import budget, outputs, plan, repeats
from infra.places import place as places
from infra.settings import settings

draft = settings.load()
place = places.choose(draft.usable_target)
config = settings.accepted(draft, place)
for warning in (*config.warnings, *budget.warnings(config)):
    pulumi.log.warn(warning)
if pulumi.runtime.is_dry_run() and config.commands:
    pulumi.log.info("\n".join(config.commands))

site = place.survey(config)
runs = repeats.chosen(config, plan.plan_runs(config, site))
ground = place.declare(config, site, runs)
for name, value in outputs.comparison(config, site, runs, ground).items():
    pulumi.export(name, value)
