"""Prometheus beside Ray: what it finds, what it may reach, what its pod may do, and what changes nothing."""

import json
import re
from typing import Any

import yaml

from infra.places.cluster import fit
from infra.places.cluster.manifests import jobs, monitoring, runs_dashboard
from infra.places.cluster.manifests.monitoring import Monitoring
from infra.places.cluster.manifests.pods import pods_of
from infra.places.cluster.manifests.ray_cluster import HEAD_LABELS, WORKER_LABELS
from infra.settings.settings import Settings
from policy.pod_security import violations
from policy.rules import RULES, Declared
from tests.unit.settings_machine import existing, machine, plan_runs


def settings_with(**values: str) -> Settings:
    """A stack's settings on a machine that everything fits on."""
    return existing(machine(64, 256), **values)


def monitored(way: str = "prometheus", **values: str) -> Monitoring:
    """What reads the pods of such a stack."""
    wanted = pods_of(settings_with(monitoring=way, **values)).monitoring
    assert wanted
    return wanted


def test_each_arm_s_pods_are_found_by_the_labels_that_they_have() -> None:
    """By a Service of its own; and Ray's by those that KubeRay sets."""
    settings = settings_with(monitoring="prometheus")
    pods = pods_of(settings)
    assert pods.monitoring
    services = monitoring.services(pods.monitoring)
    labels = {plan.arm: jobs.job(plan, pods.jobs)["template"]["metadata"]["labels"] for plan in plan_runs(settings)}
    for arm, of_arm in labels.items():
        chosen = {name for name, service in services.items() if service["selector"].items() <= of_arm.items()}
        assert {f"arm-{arm}"} == chosen
    of_head = {name for name, service in services.items() if service["selector"].items() <= HEAD_LABELS.items()}
    of_worker = {name for name, service in services.items() if service["selector"].items() <= WORKER_LABELS.items()}

    assert {monitoring.RAY_SERVICE, monitoring.HEAD_SERVICE} == of_head
    assert {monitoring.RAY_SERVICE} == of_worker
    assert {"None"} == {service["clusterIP"] for service in services.values()}


def test_prometheus_asks_for_the_names_and_ports_of_the_services() -> None:
    """And reads no pod of an arm: they have no metrics."""
    wanted = monitored()
    jobs_by_name = {job["job_name"]: job for job in yaml.safe_load(monitoring.config(wanted.arms))["scrape_configs"]}
    asked = {
        (name, dns["port"])
        for job in jobs_by_name.values()
        for dns in job.get("dns_sd_configs", [])
        for name in dns["names"]
    }
    offered = {
        (name, port["port"]) for name, service in monitoring.services(wanted).items() for port in service["ports"]
    }

    assert offered == asked
    assert {"baseline", "native", "ray"} == set(wanted.arms)
    for arm in wanted.arms:
        assert {"action": "drop"} in jobs_by_name[f"arm-{arm}"]["relabel_configs"]


def test_its_pod_passes_every_policy() -> None:
    """Pod Security `restricted`, no token, requests as limits, an image by its digest."""
    spec: dict[str, Any] = monitoring.deployment(monitored())
    declared = Declared("kubernetes:apps/v1:Deployment", "prometheus", {"spec": spec}, provider="cluster")

    assert [] == violations(spec["template"]["spec"])
    assert {} == {name: said for name, rule in RULES.items() if (said := list(rule(declared)))}


def test_a_changed_configuration_is_another_object() -> None:
    """So the pod is replaced, and no pod sees another configuration than its own."""
    more, fewer = monitored(), monitored(nativeArm="false")

    assert monitoring.config_map(more)[0] != monitoring.config_map(fewer)[0]
    for wanted in (more, fewer):
        assert monitoring.config_map(wanted)[0] in str(monitoring.deployment(wanted))


def test_its_pod_needs_room() -> None:
    """Beside the idle Ray cluster, in every arm."""
    without, with_it = (
        fit.measurement_of(settings.recipe, settings.run.worker_memory, settings.of_cluster, settings.arms).moments()
        for settings in (settings_with(), settings_with(monitoring="prometheus"))
    )

    assert {arm: sorted([*pods, fit.PROMETHEUS], key=str) for arm, pods in without.items()} == {
        arm: sorted(pods, key=str) for arm, pods in with_it.items()
    }


def test_only_ray_s_runs_are_repeated_for_it() -> None:
    """Their pods are read, and no others are; where nothing reads them nothing is said of it."""
    before, after = (pods_of(settings_with(monitoring=way)) for way in ("none", "prometheus"))
    plans = plan_runs(settings_with())
    changed = {plan.arm for plan in plans if before.of_run(plan) != after.of_run(plan)}

    assert {"ray"} == changed
    assert not any("monitoring" in before.of_run(plan) for plan in plans)


def test_a_pod_monitor_reads_three_ports_of_the_head_and_one_of_a_worker() -> None:
    """By relabelling: the other two are in no pod's spec."""
    spec = monitoring.pod_monitor(monitored("existing"))["spec"]
    ports = [
        relabelling["replacement"]
        for endpoint in spec["podMetricsEndpoints"]
        for relabelling in endpoint["relabelings"]
        if relabelling.get("targetLabel") == "__address__"
    ]

    assert {"metrics"} == {endpoint["port"] for endpoint in spec["podMetricsEndpoints"]}
    assert [f"$1:{port}" for port in monitoring.HEAD_PORTS] == ports


def test_the_arms_panel_is_there_where_their_pods_are_counted() -> None:
    """By the jobs of the stack's own Prometheus; another has none of these names."""
    own, other = (json.loads(runs_dashboard.dashboard(arms=arms)) for arms in (True, False))
    expressions = [target["expr"] for panel in own["panels"] for target in panel["targets"]]
    asked = next(expression for expression in expressions if "discovered" in expression)
    (pattern,) = re.findall(r'config=~"(.+?)"', asked)
    jobs_of_arms = {job["job_name"] for job in yaml.safe_load(monitoring.config(["ray"]))["scrape_configs"]}

    assert {"arm-ray"} == {name for name in jobs_of_arms if re.fullmatch(pattern, name)}
    assert len(own["panels"]) == len(other["panels"]) + 1
    assert "discovered" not in json.dumps(other)
