"""Whether the quotas and limit ranges of the namespace admit the pods of a measurement. If the user may not read them,
nothing is refused here: the API server then refuses the pods, and the update says so.

What others use now is no obstacle: it ends. A quota that holds for some pods alone (`scopes`) is not looked at.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from infra.places.cluster.api import kube
from infra.places.cluster.api.kube import KubeError
from infra.places.cluster.fit import (
    OPERATOR,
    SUBMITTER,
    Measurement,
    Size,
    arms_to_leave_out,
    measurement_of,
    without_arms_line,
)
from infra.settings.problem import Problem, set_line
from infra.settings.sections import ON
from infra.settings.settings import Settings
from training.contract.arms import ARMS, WIDE, counted

Amounts = Mapping[str, float]


def problems(api: Any, settings: Settings) -> Iterator[Problem]:
    """Yield a problem for each quota that can never hold the measurement's pods, and for each size that a limit range
    refuses. Raise KubeError if the cluster does not answer."""
    namespace, cluster = settings.of_cluster.namespace, settings.of_cluster
    measurement = measurement_of(settings.recipe, settings.run.worker_memory, cluster, settings.arms)
    installs, describe = cluster.operator == "install", f"{_kubectl(settings)} describe --namespace {namespace}"
    for quota in _readable(api, namespace, "resourcequotas"):
        if not (quota["spec"].get("scopes") or quota["spec"].get("scopeSelector")):
            yield from _too_little(quota, measurement, cluster.gpu_resource, describe, installs=installs)
    for limit_range in _readable(api, namespace, "limitranges"):
        yield from _out_of_range(limit_range, _sizes(measurement), describe)


def _kubectl(settings: Settings) -> str:
    """Return the start of a kubectl command for the stack's cluster, by its own kubeconfig once that exists."""
    own = kube.own_text(settings.stack)
    return "kubectl" if own is None else f"kubectl --kubeconfig={kube.own_path(settings.stack)}"


def _readable(api: Any, namespace: str, kind: str) -> list[dict[str, Any]]:
    try:
        return kube.items(api, f"/api/v1/namespaces/{namespace}/{kind}")
    except KubeError as error:
        if error.status not in (403, 404):
            raise
        return []


def _too_little(
    quota: Mapping[str, Any], measurement: Measurement, gpu_resource: str, describe: str, *, installs: bool
) -> Iterator[Problem]:
    """Yield a problem if a quota can never hold the pods that exist at the same time."""
    hard = _parsed(quota["spec"].get("hard") or {})

    def above(smaller: Measurement) -> dict[str, dict[str, float]]:
        """Return the resources that exceed the quota, and the amounts needed, for each arm that exceeds it."""
        moments = {arm: pods if installs else _without(OPERATOR, pods) for arm, pods in smaller.moments().items()}
        needed = {arm: _amounts(pods, gpu_resource) for arm, pods in moments.items()}
        return {
            arm: over
            for arm, amounts in needed.items()
            if (over := {name: amounts[name] for name in hard if amounts.get(name, 0.0) > hard[name] + 1e-9})
        }

    arms = above(measurement)
    if not arms:
        return
    name, over = quota["metadata"]["name"], next(iter(arms.values()))
    listed = "; ".join(f"{resource} {_shown(amount)} of {_shown(hard[resource])}" for resource, amount in over.items())
    fewer = (n for n in range(measurement.workers - 1, 0, -1) if not above(replace(measurement, workers=n)))
    yield Problem(
        f"the quota {name} of the namespace never holds the pods of {' and '.join(arms)} beside a Ray cluster"
        f" of {counted(measurement.workers, 'worker')}: {listed}",
        fixes=(
            *without_arms_line(arms_to_leave_out(measurement, lambda smaller: not above(smaller))),
            *(set_line("workers", number) for number in list(fewer)[:1]),
            f"{describe} resourcequotas {name}",
            set_line("allowOversubscription", ON),
        ),
        liftable=True,
    )


def _without(size: Size, pods: Sequence[Size]) -> list[Size]:
    """Return the pods without one pod of this size: the operator's pod, which is in another namespace."""
    left = list(pods)
    left.remove(size)
    return left


def _amounts(pods: Sequence[Size], gpu_resource: str) -> Amounts:
    """Return the amounts that pods need, by the names that quotas use for them. Requests equal limits."""
    cpus, memory = sum(pod.cpus for pod in pods), float(sum(pod.memory_bytes for pod in pods))
    return {
        **dict.fromkeys(("pods", "count/pods"), float(len(pods))),
        **dict.fromkeys(("cpu", "requests.cpu", "limits.cpu"), cpus),
        **dict.fromkeys(("memory", "requests.memory", "limits.memory"), memory),
        f"requests.{gpu_resource}": float(sum(pod.gpus for pod in pods)),
    }


def _sizes(measurement: Measurement) -> dict[str, Size]:
    """Return the sizes of the measurement's pods, by a description of the pod."""
    starts = {ARMS[arm].start for arm in measurement.arms}
    return {
        "Ray's head": measurement.head,
        "a worker": measurement.worker,
        **({"the wide arm's pod": measurement.wide} if WIDE.name in measurement.arms else {}),
        **({"what submits Ray's run": SUBMITTER} if "ray" in starts else {}),
    }


def _out_of_range(limit_range: Mapping[str, Any], sizes: Mapping[str, Size], describe: str) -> Iterator[Problem]:
    """Yield a problem for each size that a limit range refuses. A limit of a container and a limit of a pod are treated
    alike, because each pod has one container."""
    name = limit_range["metadata"]["name"]
    for limits in limit_range["spec"].get("limits") or ():
        if limits.get("type") not in ("Container", "Pod"):
            continue
        least, most = (_parsed(limits.get(bound) or {}) for bound in ("min", "max"))
        for of, size in sizes.items():
            for resource, amount in {"cpu": size.cpus, "memory": float(size.memory_bytes)}.items():
                if least.get(resource, amount) <= amount <= most.get(resource, amount):
                    continue
                bound = "min" if amount < least.get(resource, amount) else "max"
                yield Problem(
                    f"the limit range {name} of the namespace refuses {of}: {resource} {_shown(amount)}, and"
                    f" its {bound} is {limits[bound][resource]}",
                    fixes=(f"{describe} limitranges {name}",),
                )


def _parsed(amounts: Mapping[str, str]) -> dict[str, float]:
    from kubernetes.utils import parse_quantity

    return {name: float(parse_quantity(text)) for name, text in amounts.items()}


def _shown(amount: float) -> str:
    """Return an amount as text, such as `4` or `0.5`. A large amount is taken as bytes, and returned as `6 GiB`."""
    return f"{amount / 2**30:g} GiB" if amount >= 2**20 else f"{amount:g}"
