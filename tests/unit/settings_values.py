"""Values of any key, made from its declaration: another one, texts that its rule refuses, and what it needs beside it.

A new key is in the tests of all keys by these alone. A test has values of its own where these do not do.
"""

import re
from collections.abc import Iterator

from infra.settings.key import Key
from infra.settings.table import every_key, keys_of
from training.contract.recipe import WORKLOADS

OF_WORKLOADS: dict[str, dict[str, str]] = {
    "script": {"script": "examples/keras_tf_config.py", "scriptArguments": "--epochs {epochs}"},
    "search": {
        "script": "examples/keras_spirals.py",
        "scriptArguments": "--epochs {epochs} --lr {lr}",
        "searchSpace": '{"lr": {"log": [0.0001, 0.1]}}',
        "metric": "val_accuracy",
    },
}
"""What must be set for a workload that has keys without a default."""
OF_TARGET: dict[str, dict[str, str]] = {
    "kubernetes": {"image": "registry.example.com/a:1", "kubeContext": "staging"},
    "ray": {"rayAddress": "http://ray-head.example.com:8265"},
}
"""What must be set for a target that has keys without a default."""
EXISTING = {"target": "kubernetes", **OF_TARGET["kubernetes"]}
"""The settings of a cluster that exists."""
NUMBER = re.compile(
    r"a (?P<kind>whole )?number (?P<how>from|above) (?P<low>\S+)(?:(?:(?: and)? up)? to (?P<high>[^\s,]+)| up)"
)
QUANTITY = re.compile(r"from (?P<low>\d+)(?P<unit>\w+) to 64Ti")
CHOICE = re.compile(r"one of (?P<names>.+)")
SWITCH = "true or false"


def with_workload(key: str) -> dict[str, str]:
    """The settings of the first workload that has the key; empty for the default one."""
    workload = next(name for name in WORKLOADS if key in keys_of(name))
    return {} if workload == WORKLOADS[0] else {"workload": workload, **OF_WORKLOADS.get(workload, {})}


def needed(key: str) -> dict[str, str]:
    """What must be set for a key to have an effect; a kind of storage excepted, which has several ways in."""
    needs = every_key()[key].needs.items()
    return {name: values[0] if values else every_key()[name].example for name, values in needs if name != "storage"}


def another(key: Key, present: str = "") -> str:
    """A value that is allowed and not the present one, which is the default where none is set."""
    usual = {present} if present else {key.default, *key.defaults.values()}
    return next(text for text in (key.example, *_candidates(key)) if text and text not in usual and _allows(key, text))


def _candidates(key: Key) -> Iterator[str]:
    allowed = key.rule.allowed
    if allowed == SWITCH:
        yield from ("true", "false")
    if names := CHOICE.fullmatch(allowed):
        yield from names["names"].split(", ")
    if number := NUMBER.match(allowed):
        first = float(key.default) if key.default.isdecimal() else float(number["low"])
        yield from (f"{first + more:g}" for more in range(1, 100))
        yield "0.5"
    if quantity := QUANTITY.match(allowed):
        yield from (f"{int(quantity['low']) * times}{quantity['unit']}" for times in (3, 5))
    yield from ("another", "registry.example.com/another:1", "another=one", "1.6.0")


def _allows(key: Key, text: str) -> bool:
    try:
        key.rule.parse(text)
    except ValueError:
        return False
    return True


def refused(key: Key) -> list[str]:
    """Texts just outside of what a user is told that the key allows, and of another type; empty where its words give no
    bounds."""
    allowed = key.rule.allowed
    if allowed == SWITCH:
        return ["yes", "1", "on"]
    if names := CHOICE.fullmatch(allowed):
        return ["none of them", names["names"].split(", ")[0].upper()]
    if number := NUMBER.match(allowed):
        return _outside(number)
    if quantity := QUANTITY.match(allowed):
        return [f"{int(quantity['low']) - 1}{quantity['unit']}", "65Ti", "2GB", "2g", "-2Gi", "2 Gi", "much"]
    return []


def _outside(number: re.Match[str]) -> list[str]:
    low, high = float(number["low"]), number["high"]
    if number["kind"]:
        return [f"{low - 1:.0f}", *([f"{float(high) + 1:.0f}"] if high else []), "2.5", "1e3", "nan", "many"]
    below = low if number["how"] == "above" else low - max(0.1, abs(low) / 1000)
    return [f"{below:.17g}", f"{float(high) * 1.001:.17g}", "nan", "inf", "-inf", "fast"]
