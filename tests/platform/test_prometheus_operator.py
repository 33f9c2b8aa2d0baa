"""`monitoring existing` with a real Prometheus Operator: what it makes of the PodMonitor, and what Prometheus reads."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import urlopen

import pytest
import yaml

from infra.places.cluster.api import kube
from infra.places.cluster.manifests import jobs, monitoring, ray_cluster
from infra.places.cluster.manifests.pods import pods_of
from tests.limits import LONGEST_SECONDS, wait_for
from tests.metrics import prometheus
from tests.platform import prometheus_operator as operator
from tests.platform.cluster import VALUES, Cluster
from tests.platform.programs import Kueue
from tests.unit.settings_machine import machine, parse, plan_runs

pytestmark = pytest.mark.skipif(bool(operator.missing()), reason=operator.missing())
WORKERS = 2
NOWHERE = "http://127.0.0.1:1"
"""Where nothing listens: the addresses of pods are none of this machine's, and nobody is to be asked there."""
HEAD_PORTS = {"8080", "44217", "44227"}
"""Of Ray's agent, autoscaler and dashboard, as Ray's documentation has them."""


class Observed(NamedTuple):
    """A stack whose PodMonitor a Prometheus chooses, beside one with other labels."""

    stack: Cluster
    config: dict[str, Any]
    """What the operator wrote for the Prometheus."""


def make_stack(cluster: Cluster, labels: dict[str, str]) -> None:
    """The namespace of a stack with `monitoring existing`: Ray's cluster, the PodMonitor, and the baseline's Job."""
    text = ",".join(f"{name}={value}" for name, value in labels.items())
    own = {"namespace": cluster.namespace, "workers": str(WORKERS), "monitoring": "existing", "podMonitorLabels": text}
    of_stack = parse({**VALUES, **own}, machine(cores=64, gib=256))
    pods = pods_of(of_stack)
    assert pods.monitoring
    cluster.make_namespace()
    operator.make(cluster, monitoring.pod_monitor(pods.monitoring), "podmonitors")
    cluster.make_ray_cluster(ray_cluster.spec(pods.ray_cluster))
    baseline = next(plan for plan in plan_runs(of_stack) if plan.arm == "baseline")
    job = {"metadata": {"name": "baseline"}, "spec": jobs.job(baseline, pods.jobs)}
    kube.create(cluster.api, cluster.path("batch/v1/jobs"), job)


def await_addresses(cluster: Cluster) -> None:
    """Wait for the addresses of Ray's head and workers, and of the baseline."""
    wait_for(lambda: 2 + WORKERS == len([pod for pod in cluster.pods() if pod["status"].get("podIP")]))


@pytest.fixture(scope="module")
def observed(platform: tuple[Path, Kueue]) -> Iterator[Observed]:
    """All pods have an address, and the operator has written what follows from the PodMonitors."""
    kubeconfig = platform[0]
    api = kube.connect(str(kubeconfig))
    here, stack, other = (Cluster(str(kubeconfig), name, api) for name in ("monitoring", "observed", "unlabelled"))
    with operator.running(kubeconfig):
        make_stack(other, {"release": "another"})
        make_stack(stack, operator.CHOSEN_BY)
        here.make_namespace()
        operator.make_prometheus(here)
        wait_for(lambda: operator.configuration(here).get("scrape_configs"))
        for cluster in (stack, other):
            await_addresses(cluster)
        yield Observed(stack, operator.configuration(here))
        for cluster in (stack, other):
            kube.delete(api, cluster.path(f"{operator.API}/podmonitors", monitoring.RAY_SERVICE))
            cluster.remove()


def test_the_operator_takes_the_pod_monitor_that_is_labelled(observed: Observed) -> None:
    """A job for each of its three endpoints, which looks for pods in the stack's namespace alone."""
    found = observed.config["scrape_configs"]
    names = [f"podMonitor/{observed.stack.namespace}/{monitoring.RAY_SERVICE}/{number}" for number in range(3)]

    assert names == [job["job_name"] for job in found]
    for job in found:
        (discovery,) = job["kubernetes_sd_configs"]
        assert "pod" == discovery["role"]
        assert [observed.stack.namespace] == discovery["namespaces"]["names"]
        assert not discovery["namespaces"].get("own_namespace")
        assert f"{monitoring.EVERY_SECONDS}s" == job["scrape_interval"]


@pytest.fixture
def readable(observed: Observed, tmp_path: Path) -> dict[str, Any]:
    """What the operator wrote, for the Prometheus that is here."""
    if operator.promtool() is None:
        pytest.skip(f"no Prometheus with its promtool here: {prometheus.VARIABLE} names it, as Debian's package has it")
    return operator.readable(observed.config, observed.stack.api, tmp_path)


def test_prometheus_accepts_what_the_operator_wrote(readable: dict[str, Any], tmp_path: Path) -> None:
    """By its own tool, which refuses what it does not know."""
    assert "" == operator.refusal(readable, tmp_path)
    assert "" != operator.refusal({**readable, "unknown": 1}, tmp_path)


def test_a_head_is_read_at_three_ports_and_a_worker_at_one(
    observed: Observed, readable: dict[str, Any], tmp_path: Path
) -> None:
    """Under the name by which Ray's dashboards choose a cluster; no arm's pod is read, and none of the other stack."""
    every_job = [{**job, "proxy_url": NOWHERE} for job in readable["scrape_configs"]]
    pods = {pod["metadata"]["name"]: pod for pod in observed.stack.pods()}
    with prometheus.running_with(tmp_path, yaml.safe_dump({**readable, "scrape_configs": every_job})) as reads:
        targets = wait_for(lambda: all_targets(reads.url, set(pods), len(every_job)))

    ports: dict[str, set[str]] = {}
    for target in targets:
        address, port = re.fullmatch(r"http://([\d.]+):(\d+)/metrics", target["scrapeUrl"]).groups()  # type: ignore[union-attr]
        name = target["labels"]["pod"]
        assert pods[name]["status"]["podIP"] == address
        assert f"{address}:{port}" == target["labels"]["instance"]
        assert ray_cluster.NAME == target["labels"]["ray_io_cluster"]
        assert observed.stack.namespace == target["labels"]["namespace"]
        ports.setdefault(name, set()).add(port)
    (head,) = observed.stack.pods(**ray_cluster.HEAD_LABELS)
    workers = {pod["metadata"]["name"] for pod in observed.stack.workers()}
    assert {head["metadata"]["name"]: HEAD_PORTS, **{name: {"8080"} for name in workers}} == ports
    assert WORKERS == len(workers)
    assert len(HEAD_PORTS) + WORKERS == len(targets)


def all_targets(url: str, pods: set[str], in_jobs: int) -> list[dict[str, Any]]:
    """What Prometheus reads, when it has looked at every pod in every job; empty before."""
    with urlopen(f"{url}/api/v1/targets", timeout=LONGEST_SECONDS) as answer:  # noqa: S310 (our own)
        found = json.load(answer)["data"]
    every = [each["discoveredLabels"] for each in [*found["activeTargets"], *found["droppedTargets"]]]
    of_container = ("pod_name", "pod_container_name")
    seen = Counter(
        (each["__address__"], *(each[f"__meta_kubernetes_{name}"] for name in of_container)) for each in every
    )
    complete = {name for _, name, _ in seen} == pods and {in_jobs} == set(seen.values())
    return list(found["activeTargets"]) if complete else []
