"""Several wrong values at once are as many problems: none hides behind another's traceback."""

from itertools import combinations, product
from random import Random

import pytest

from infra.settings.key import TARGETS, Target
from infra.settings.problem import InvalidSettingsError
from infra.settings.table import every_key, keys_of
from tests.stacks import STACKS, given
from tests.unit.settings_machine import machine, parse
from tests.unit.settings_values import OF_TARGET, OF_WORKLOADS
from training.contract.recipe import WORKLOADS

WRONG = "?? \x00 {"
"""No rule takes it; most of them are tried."""
BASES: dict[str, dict[str, str]] = {
    "as it is": {},
    "in a bucket": {"storage": "s3://bucket/prefix", "storageRole": "arn:aws:iam::123456789012:role/training"},
    "in a claim": {"storage": "pvc"},
    "with artifacts": {"artifacts": "*.pt", "metric": "accuracy", "secretEnvironment": "A=b", "environment": "A=b"},
}
FACTS = machine(secret=frozenset({"storageCredentials", "secretEnvironment", "rayToken"}))
MANY = {"cnn": (20, 12)}
"""Pairs of a target and a base, other ones for each, and pairs of a stack; of other workloads eight and three."""
DRAWN = pytest.mark.parametrize("times", [1, pytest.param(4, marks=pytest.mark.slow)])
"""As many, and the slow tests four times as many others."""
STORAGE_KEYS = ("storage", *(name for name, key in every_key().items() if key.needs.get("storage")))
BESIDE = (*STORAGE_KEYS, "minikubeNodes", "podTemplate", "createNamespace", "runTimeoutMinutes")


def wrong_keys(workload: str) -> list[str]:
    """Those whose rule refuses it."""
    refusing = []
    for name, key in keys_of(workload).items():
        try:
            key.rule.parse(WRONG)
        except ValueError:
            refusing.append(name)
    return refusing


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("target", TARGETS)
@DRAWN
def test_a_wrong_value_beside_any_other_is_said(times: int, target: Target, base: str, workload: str) -> None:
    """Beside a key's own example, and beside all other wrong values."""
    keys = keys_of(workload)
    given = {"target": target, "workload": workload, **OF_TARGET.get(target, {}), **OF_WORKLOADS.get(workload, {})}
    given |= {key: value for key, value in BASES[base].items() if key in keys}
    wrong = wrong_keys(workload)
    assert {"workers", "storageEndpoint", "egress", "storageSize"} <= set(wrong)

    pairs = list(product(wrong, keys))
    for first, second in Random(f"{target} {base} {times}").sample(pairs, times * MANY.get(workload, (8, 3))[0]):  # noqa: S311 (it chooses tests)
        refuses(given | {second: keys[second].value_that_works(target) or "a"} | {first: WRONG}, first)
    with pytest.raises(InvalidSettingsError) as refused:
        parse(given | dict.fromkeys(wrong, WRONG), FACTS)
    assert len(wrong) <= len(refused.value.problems)


@pytest.mark.parametrize("base", ["in a bucket", "in a claim"])
@pytest.mark.parametrize("target", TARGETS)
def test_a_wrong_value_beside_storage_is_said(target: Target, base: str) -> None:
    """Every pair of what its checks read."""
    keys = keys_of("cnn")
    given = {"target": target, **OF_TARGET.get(target, {}), **BASES[base]}
    for first, second in product(set(BESIDE) & set(wrong_keys("cnn")), BESIDE):
        refuses(given | {second: keys[second].value_that_works(target) or "a"} | {first: WRONG}, first)


@pytest.mark.parametrize("storage", ["", "s3://bucket/prefix", "pvc"])
@pytest.mark.parametrize("stack", STACKS)
@DRAWN
def test_two_wrong_values_of_a_stack_are_two_problems(times: int, stack: str, storage: str) -> None:
    """In every stack's file, with storage and without: neither hides the other, and there is no traceback."""
    values = given(stack) | ({"storage": storage} if storage else {})
    workload = values.get("workload", "cnn")
    pairs = list(combinations(wrong_keys(workload), 2))
    pairs = Random(f"{stack} {storage} {times}").sample(pairs, times * MANY.get(workload, (8, 3))[1])  # noqa: S311 (it chooses tests)
    beside_storage = [key for key in wrong_keys(workload) if key in BESIDE]

    for first, second in [*pairs, *(combinations(beside_storage, 2) if workload == "cnn" else ())]:
        refuses(values | {first: WRONG, second: WRONG}, first, second)


def refuses(values: dict[str, str], *keys: str) -> None:
    """The settings are refused, and each key is named with its value."""
    with pytest.raises(InvalidSettingsError) as refused:
        parse(values, FACTS)
    for key in keys:
        shown = "[secret]" if key in FACTS.secret_keys else "??"
        assert any(f"{key} = " in said.what and shown in said.what for said in refused.value.problems), values
