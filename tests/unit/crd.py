"""KubeRay's CRDs as JSON schemas, for tests: from the chart that `KUBERAY_CHART` names, or one fetched by a preview."""

import os
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from infra.places.cluster.chart import CACHE, Chart

REASON = "no KubeRay chart on this machine: set KUBERAY_CHART to its .tgz, or preview a cluster stack once"


def chart() -> Chart:
    """The chart; skips the test where there is none."""
    given = os.environ.get("KUBERAY_CHART")
    found = [Path(given)] if given else sorted(CACHE.glob("kuberay-operator-*.tgz"))
    if not found:
        pytest.skip(REASON)
    return Chart(found[-1], "")


@cache
def schema(kind: str, version: str) -> dict[str, Any]:
    """What an object of this kind must look like; unknown fields are an error, where the API server would drop them."""
    crds = [crd for crd in chart().crds() if crd["spec"]["names"]["kind"] == kind]
    (served,) = [one for crd in crds for one in crd["spec"]["versions"] if one["name"] == version]
    return dict(_strict(served["schema"]["openAPIV3Schema"]))


def validate(manifest: dict[str, Any]) -> None:
    """Raises jsonschema.ValidationError for an object that its CRD does not allow."""
    version = manifest["apiVersion"].rpartition("/")[2]
    jsonschema.validate(manifest, schema(manifest["kind"], version))


def _strict(part: Any) -> Any:
    """Without fields beyond those described; metadata is described elsewhere."""
    if isinstance(part, list):
        return [_strict(one) for one in part]
    if not isinstance(part, dict):
        return part
    made = {key: _strict(value) for key, value in part.items()}
    open_ended = part.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in part
    if isinstance(part.get("properties"), dict) and part.get("type") == "object" and not open_ended:
        made["additionalProperties"] = False
    if part.get("type") == "object" and not part.get("properties") and "additionalProperties" not in part:
        made.pop("additionalProperties", None)
    return made
