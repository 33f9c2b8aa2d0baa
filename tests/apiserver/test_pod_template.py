"""What a preview says of `podTemplate` is what an API server says: it accepts and refuses the same values."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.settings.problem import InvalidSettingsError
from tests.apiserver.test_objects import objects, pods, refusal
from tests.limits import wait_for
from tests.unit.settings_machine import ROOT, settings

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def _affinity(**requirement: Any) -> dict[str, Any]:
    """A node affinity with one requirement of labels."""
    terms = [{"matchExpressions": [requirement]}]
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}


SPECS: dict[str, dict[str, Any]] = {
    "selector": {"nodeSelector": {"kubernetes.io/arch": "amd64", "pool": ""}},
    "selector's value": {"nodeSelector": {"pool": "a b"}},
    "selector's name": {"nodeSelector": {"-": "a"}},
    "long value": {"nodeSelector": {"pool": "a" * 64}},
    "any": {"tolerations": [{"operator": "Exists"}]},
    "equal": {"tolerations": [{"key": "a", "value": "b", "effect": "NoSchedule"}]},
    "for a while": {"tolerations": [{"key": "a", "effect": "NoExecute", "tolerationSeconds": -1}]},
    "for a while, of another effect": {"tolerations": [{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 5}]},
    "no key": {"tolerations": [{"value": "a"}]},
    "value of any": {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
    "toleration's value": {"tolerations": [{"key": "a", "value": "b c"}]},
    "toleration's key": {"tolerations": [{"key": "a b", "operator": "Exists"}]},
    "effect": {"tolerations": [{"key": "a", "effect": "Never"}]},
    "operator": {"tolerations": [{"key": "a", "operator": "Sometimes"}]},
    "in": _affinity(key="a", operator="In", values=["b", "c"]),
    "in none": _affinity(key="a", operator="In", values=[]),
    "in a wrong one": _affinity(key="a", operator="In", values=["b c"]),
    "exists": _affinity(key="example.com/a", operator="DoesNotExist"),
    "exists with values": _affinity(key="a", operator="Exists", values=["b"]),
    "greater": _affinity(key="a", operator="Gt", values=["3"]),
    "greater than a negative number": _affinity(key="a", operator="Gt", values=["-3"]),
    "greater than two": _affinity(key="a", operator="Gt", values=["3", "4"]),
    "unknown operator": _affinity(key="a", operator="Is", values=["b"]),
    "no terms": {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}},
    "scheduler": {"schedulerName": "Volcano_2"},
}


def _pod(template: dict[str, Any]) -> dict[str, Any]:
    """The ci stack's baseline with a template."""
    ((_, pod),) = pods("", objects("ci")["Job baseline-1"])
    changed = copy.deepcopy(pod)
    changed["spec"] |= template.get("spec", {})
    for part, names in template.get("metadata", {}).items():
        changed["metadata"][part] = changed["metadata"].get(part, {}) | names
    return changed


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_a_value_is_refused_if_the_server_refuses_it(spec: dict[str, Any], api: Any, tmp_path: Path) -> None:
    """And accepted if it accepts it."""
    file = tmp_path / "pods.yaml"
    file.write_text(json.dumps({"spec": spec}), encoding="utf-8")
    said = refusal(api, _pod({"spec": spec}))
    try:
        settings(target="minikube", podTemplate=str(file))
    except InvalidSettingsError:
        assert said, "the server accepts it"
    else:
        assert said == ""


def test_a_term_that_matches_no_node_is_refused_though_the_server_accepts_it(api: Any, tmp_path: Path) -> None:
    """Its pods would wait for ever."""
    spec: dict[str, Any] = {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}]}}}}
    file = tmp_path / "pods.yaml"
    file.write_text(json.dumps({"spec": spec}), encoding="utf-8")

    assert refusal(api, _pod({"spec": spec})) == ""
    with pytest.raises(InvalidSettingsError):
        settings(target="minikube", podTemplate=str(file))


def test_the_sample_is_accepted(api: Any) -> None:
    """With the priority class that it names, once the server has heard of that."""
    sample = yaml.safe_load((ROOT / "docs/samples/pods.yaml").read_text(encoding="utf-8"))
    name = sample["spec"]["priorityClassName"]
    kind = api.resources.get(api_version="scheduling.k8s.io/v1", kind="PriorityClass")
    api.create(kind, {"metadata": {"name": name}, "value": 1000})

    wait_for(lambda: not refusal(api, _pod(sample)), "the sample is accepted")
