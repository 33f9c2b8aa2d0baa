"""The policy pack as Pulumi's engine runs it: `pulumi preview --policy-pack policy`. Decides nothing itself."""

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pulumi_policy import (
    EnforcementLevel,
    PolicyPack,
    PolicyResource,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)
from pulumi_policy.proxy import UnknownValueError

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the engine puts this folder there, not the project's

from policy.rules import RULES, Declared, Rule, exposed_services

UNKNOWN = "(not known before the update)"
"""The text that stands for an unknown value. Rules refuse it, because a rule needs to know at preview the values that
it reads."""


def declared(resource: ResourceValidationArgs | PolicyResource) -> Declared:
    """Return the resource in the form in which rules read it."""
    provider = resource.provider.name if resource.provider else None
    return Declared(resource.resource_type, resource.name, _plain(resource.props), provider, resource.urn)


def _plain(value: Any) -> Any:
    """Return a value with plain dicts and lists instead of the engine's proxies. A proxy raises an error for an unknown
    value, and so would end the rule."""
    if isinstance(value, Mapping):
        return {key: _known(value, key) for key in value}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_known(value, index) for index in range(len(value))]
    return int(value) if isinstance(value, float) and value.is_integer() else value  # the engine's numbers are floats


def _known(holder: Any, key: Any) -> Any:
    try:
        return _plain(holder[key])
    except UnknownValueError:
        return UNKNOWN


def _check(rule: Rule, args: ResourceValidationArgs, report: ReportViolation) -> None:
    for problem in rule(declared(args)):
        report(problem, args.urn)


def _check_stack(args: StackValidationArgs, report: ReportViolation) -> None:
    for resource, problem in exposed_services([declared(resource) for resource in args.resources]):
        report(problem, resource.urn)


def _description(rule: Any) -> str:
    return " ".join(rule.__doc__.split())


PolicyPack(
    name="ray-worth-it",
    enforcement_level=EnforcementLevel.MANDATORY,
    policies=[
        *(ResourceValidationPolicy(name, _description(rule), partial(_check, rule)) for name, rule in RULES.items()),
        StackValidationPolicy("exposed-services", _description(exposed_services), _check_stack),
    ],
)
