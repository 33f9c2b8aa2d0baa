"""What is refused in a cluster that exists, before anything is made in it."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra.places.cluster.api import kube
from infra.places.cluster.api.kube import KubeError
from infra.places.cluster.api.nodes import usable
from infra.places.cluster.crds import LABEL, OWNER
from infra.places.cluster.manifests.monitoring import POD_MONITOR_CRD
from infra.places.cluster.manifests.network import Servers
from infra.places.cluster.manifests.operator import OPERATOR_LABELS
from infra.places.cluster.manifests.pod_parts import PROJECT, PROJECT_LABEL
from infra.places.cluster.manifests.queue import QUEUE_LABEL
from infra.places.kubernetes import inspection
from infra.places.kubernetes.inspection import operator_versions
from infra.settings.problem import Problem
from infra.settings.rules import PodTemplate
from infra.settings.settings import Settings
from tests.golden import Wording
from tests.unit.kube_api import NAMESPACE, Api, job, node, serving, write_kubeconfig
from tests.unit.settings_machine import settings

CRDS = "/apis/apiextensions.k8s.io/v1"
TAINT = {"key": "dedicated", "value": "training", "effect": "NoSchedule"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[Api, Any]]:
    """A cluster of two nodes that hold the default measurement, and a client of it."""
    with serving(tmp_path) as (api, kubeconfig):
        for name in ("one", "two"):
            api.put("/api/v1", "nodes", node(name))
        yield api, kube.connect(kubeconfig)


def wanted(**values: str) -> Settings:
    """A stack of target kubernetes."""
    return settings(target="kubernetes", image="registry.example.com/a:1", kubeContext="test", **values)


def found(client: Any, **values: str) -> list[Problem]:
    """What stands in the way."""
    return inspection.problems(client, wanted(**values))


def operator(image: str, *args: str, namespace: str = "elsewhere") -> dict[str, Any]:
    """A deployment of KubeRay's operator."""
    container = {"image": image, "args": list(args)}
    labels = {"app.kubernetes.io/name": "kuberay-operator"}
    template = {"spec": {"containers": [container]}}
    return {
        "metadata": {"name": f"op-{namespace}", "namespace": namespace, "labels": labels},
        "spec": {"template": template},
    }


def test_an_empty_cluster_with_room_is_fine(cluster: tuple[Api, Any]) -> None:
    """Nothing is refused, and nothing was changed: it was only read."""
    api, client = cluster

    assert [] == found(client)
    assert {"GET"} == {line.split()[0] for line in api.asked}


def test_what_does_not_fit_the_real_nodes_is_refused(cluster: tuple[Api, Any], wording: Wording) -> None:
    """By node and not by sum; permission makes it a warning, and fewer workers fit."""
    _, client = cluster
    (finding,) = found(client, workers="6")

    assert finding.liftable
    assert {"pulumi config set workers 2", "pulumi config set allowOversubscription true"} <= set(finding.fixes)
    assert [] == found(client, workers="2")
    assert [] != found(client, workers="3")
    wording("cluster", str(finding))


@pytest.mark.parametrize(
    "change",
    [{"unschedulable": True}, {"taints": [TAINT]}],
)
def test_nodes_that_our_pods_may_not_use_do_not_count(cluster: tuple[Api, Any], change: dict[str, Any]) -> None:
    """One node alone is too small for the native arm."""
    api, client = cluster
    api.put("/api/v1", "nodes", node("two", **change))

    (refused,) = found(client)

    assert ["one"] == re.findall(r"[(;]\s*(\w+) \d+ CPUs", refused.what)


def template(folder: Path, **spec: Any) -> str:
    """The path of a pod's template with these fields."""
    (folder / "pods.yaml").write_text(json.dumps({"spec": spec}), encoding="utf-8")
    return str(folder / "pods.yaml")


def test_a_taint_is_borne_by_a_toleration(cluster: tuple[Api, Any], tmp_path: Path) -> None:
    """As the pod's template has it."""
    api, client = cluster
    api.put("/api/v1", "nodes", node("two", taints=[TAINT]))

    assert [] == found(client, podTemplate=template(tmp_path, tolerations=[TAINT]))
    assert [] != found(client, podTemplate=template(tmp_path, tolerations=[TAINT | {"value": "other"}]))


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "key": "dedicated"}, True),
        ({"operator": "Exists", "key": "other"}, False),
        ({"key": "dedicated", "value": "training", "effect": "NoExecute"}, False),
        ({"key": "dedicated"}, False),
    ],
)
def test_tolerations_are_the_scheduler_s(toleration: dict[str, str], expected: bool) -> None:
    """Exists needs no key, Equal needs the value, and a given effect must be the taint's."""
    assert expected == usable(node("a", taints=[TAINT]), PodTemplate(spec={"tolerations": [toleration]}))


def test_a_taint_that_only_prefers_keeps_nothing_out() -> None:
    """The scheduler places a pod there when it must."""
    assert usable(node("a", taints=[TAINT | {"effect": "PreferNoSchedule"}]), PodTemplate())


def test_a_node_s_labels_must_be_those_selected() -> None:
    """All of them."""
    assert usable(node("a"), PodTemplate(spec={"nodeSelector": {"kubernetes.io/hostname": "a"}}))
    assert not usable(node("a"), PodTemplate(spec={"nodeSelector": {"kubernetes.io/hostname": "b"}}))


HOST = "kubernetes.io/hostname"
"""A label that each node has; it is the node's name."""


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([{"matchExpressions": [{"key": HOST, "operator": "In", "values": ["a", "b"]}]}], True),
        ([{"matchExpressions": [{"key": HOST, "operator": "NotIn", "values": ["a"]}]}], False),
        ([{"matchExpressions": [{"key": "gpu", "operator": "NotIn", "values": ["a"]}]}], True),
        ([{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}], False),
        ([{"matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]}], True),
        ([{"matchExpressions": [{"key": "generation", "operator": "Gt", "values": ["3"]}]}], True),
        ([{"matchExpressions": [{"key": "generation", "operator": "Lt", "values": ["4"]}]}], False),
        ([{"matchExpressions": [{"key": HOST, "operator": "Gt", "values": ["3"]}]}], False),
        ([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}], True),
        ([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}], False),
        ([{"matchExpressions": [{"key": HOST, "operator": "Exists"}, {"key": "gpu", "operator": "Exists"}]}], False),
        ([{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}, {"matchExpressions": [
            {"key": HOST, "operator": "Exists"}]}], True),
        ([{}], False),
    ],
)  # fmt: skip
def test_a_required_node_affinity_is_the_scheduler_s(terms: list[dict[str, Any]], expected: bool) -> None:
    """One term is enough, all its requirements have to match, and an empty one matches no node."""
    machine = node("a")
    machine["metadata"]["labels"]["generation"] = "4"
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}

    assert expected == usable(machine, PodTemplate(spec={"affinity": {"nodeAffinity": required}}))


@pytest.mark.parametrize(("status", "count"), [(404, 1), (403, 0), (200, 0)])
def test_a_priority_class_must_be_there(cluster: tuple[Api, Any], tmp_path: Path, status: int, count: int) -> None:
    """No pod of one that is not would be created; who may not read it is let through."""
    api, client = cluster
    if status == 200:
        api.put("/apis/scheduling.k8s.io/v1", "priorityclasses", {"metadata": {"name": "low"}})
    if status == 403:
        api.forbidden.add("/apis/scheduling.k8s.io/v1/priorityclasses/low")

    assert count == len(found(client, podTemplate=template(tmp_path, priorityClassName="low")))


@pytest.mark.parametrize(("status", "count"), [(404, 1), (403, 0), (200, 0)])
def test_pod_monitors_must_be_there(cluster: tuple[Api, Any], status: int, count: int, wording: Wording) -> None:
    """Without a Prometheus Operator nothing would read one; who may not read its CRDs is let through."""
    api, client = cluster
    crds = "/apis/apiextensions.k8s.io/v1"
    api.put("/api/v1", "namespaces", {"metadata": {"name": "monitoring"}})
    if status == 200:
        api.put(crds, "customresourcedefinitions", {"metadata": {"name": POD_MONITOR_CRD}})
    if status == 403:
        api.forbidden.add(f"{crds}/customresourcedefinitions/{POD_MONITOR_CRD}")

    problems = found(client, monitoring="existing")

    assert count == len(problems)
    if problems:
        wording("cluster", str(problems[0]))


@pytest.mark.parametrize(("status", "count"), [(404, 1), (403, 0), (200, 0)])
def test_the_namespace_of_the_prometheus_must_be_there(
    cluster: tuple[Api, Any], status: int, count: int, wording: Wording
) -> None:
    """It would read nothing, and nobody would say why; one that may not be read is let through."""
    api, client = cluster
    crds = "/apis/apiextensions.k8s.io/v1"
    api.put(crds, "customresourcedefinitions", {"metadata": {"name": POD_MONITOR_CRD}})
    if status == 200:
        api.put("/api/v1", "namespaces", {"metadata": {"name": "observing"}})
    if status == 403:
        api.forbidden.add("/api/v1/namespaces/observing")

    problems = found(client, monitoring="existing", monitoringNamespace="observing")

    assert count == len(problems)
    assert "observing" not in str(found(client, monitoring="prometheus", monitoringNamespace="observing"))
    if problems:
        wording("cluster", str(problems[0]))


def test_a_namespace_of_somebody_else_is_not_taken_over(cluster: tuple[Api, Any], wording: Wording) -> None:
    """Ours is known by its label; a given one is the user's own choice."""
    api, client = cluster
    api.put("/api/v1", "namespaces", {"metadata": {"name": NAMESPACE}})

    (refused,) = found(client)
    assert "pulumi config set createNamespace false" in refused.fixes
    wording("cluster", str(refused))
    assert [] == found(client, createNamespace="false")

    api.put("/api/v1", "namespaces", {"metadata": {"name": NAMESPACE, "labels": {PROJECT_LABEL: PROJECT}}})
    assert [] == found(client)


def test_a_namespace_that_this_project_made_is_not_given_up(cluster: tuple[Api, Any], wording: Wording) -> None:
    """`createNamespace` set from true to false: Pulumi would delete the namespace, and everything in it."""
    api, client = cluster
    api.put("/api/v1", "namespaces", {"metadata": {"name": NAMESPACE, "labels": {PROJECT_LABEL: PROJECT}}})

    (refused,) = found(client, createNamespace="false")
    assert ("pulumi config set createNamespace true",) == refused.fixes
    wording("cluster", str(refused))


def test_a_given_namespace_must_exist(cluster: tuple[Api, Any]) -> None:
    """Its pull secrets and rights are the user's to make."""
    (refused,) = found(cluster[1], createNamespace="false")

    assert f"kubectl create namespace {NAMESPACE}" in refused.fixes


def test_a_run_that_goes_on_is_refused(cluster: tuple[Api, Any], wording: Wording) -> None:
    """Nothing is deleted here: the line that does is given. Runs that have ended, and Jobs of others, are fine."""
    api, client = cluster
    for one in (job("ray-1-a", "ray-1", "Complete"), job("ray-1-b", "ray-1", "Failed"), job("backup", "", active=1)):
        api.put("/apis/batch/v1", "jobs", one, NAMESPACE)
    assert [] == found(client)

    api.put("/apis/batch/v1", "jobs", job("ray-1-c", "ray-1", stack=wanted().stack, active=1), NAMESPACE)
    (refused,) = found(client)
    (line,) = refused.fixes
    assert line.startswith(f"kubectl patch job ray-1-c --namespace {NAMESPACE} --type=merge ")
    wording("cluster", str(refused))


def test_a_run_that_waits_in_a_queue_is_ended_otherwise(cluster: tuple[Api, Any]) -> None:
    """Its deadline does not run: it leaves the queue, and then it starts. tests/platform does it in a real one."""
    api, client = cluster
    waits = job("ray-1-c", "ray-1", stack=wanted().stack)
    waits["metadata"]["labels"] = {QUEUE_LABEL: "training"}
    waits["spec"]["suspend"] = True
    api.put("/apis/batch/v1", "jobs", waits, NAMESPACE)

    ((line,),) = [problem.fixes for problem in found(client)]
    leaves, starts = line.split(" && ")
    assert leaves.endswith(f"{QUEUE_LABEL}-")
    assert '"suspend": false' in starts


def test_a_run_of_another_stack_is_to_end_by_itself(cluster: tuple[Api, Any], wording: Wording) -> None:
    """Whose it is is said, and no line ends what is somebody else's, also where one of our own was left beside it."""
    api, client = cluster
    api.put("/apis/batch/v1", "jobs", job("theirs", "ray-1", stack="of-a-colleague", active=1), NAMESPACE)
    api.put("/apis/batch/v1", "jobs", job("unsaid", "ray-1", active=1), NAMESPACE)
    (refused,) = found(client)
    assert (f"kubectl get jobs --namespace {NAMESPACE} --watch",) == refused.fixes
    assert all(name in refused.what for name in ("theirs", "of-a-colleague", "unsaid"))
    wording("cluster", str(refused))

    api.put("/apis/batch/v1", "jobs", job("ours", "ray-1", stack=wanted().stack, active=1), NAMESPACE)
    others, own = found(client)
    assert others == refused
    assert [["kubectl", "patch", "job", "ours"]] == [line.split()[:4] for line in own.fixes]
    assert not [name for name in ("theirs", "unsaid") if name in str(own)]


def test_crds_of_somebody_else_are_refused(cluster: tuple[Api, Any]) -> None:
    """With the line that uses their operator; our own of an earlier stack are fine."""
    api, client = cluster
    api.put(CRDS, "customresourcedefinitions", {"metadata": {"name": "rayclusters.ray.io"}})

    (refused,) = found(client)
    assert "(rayclusters.ray.io)" in str(refused)
    assert "pulumi config set operator existing" in str(refused)

    own = {"metadata": {"name": "rayclusters.ray.io", "labels": {LABEL: OWNER}}}
    api.put(CRDS, "customresourcedefinitions", own)
    assert [] == found(client)


def test_an_operator_that_exists_has_the_version_that_is_set(cluster: tuple[Api, Any], wording: Wording) -> None:
    """Both versions are named, and the line that makes them equal."""
    api, client = cluster
    (missing,) = found(client, operator="existing")
    assert ("pulumi config set operator install",) == missing.fixes
    wording("cluster", str(missing), "no operator that exists")

    api.put("/apis/apps/v1", "deployments", operator("quay.io/kuberay/operator:v1.5.1"), "elsewhere")
    (refused,) = found(client, operator="existing")
    assert ("pulumi config set kuberayVersion 1.5.1",) == refused.fixes
    wording("cluster", str(refused), "an operator of another version")
    assert [] == found(client, operator="existing", kuberayVersion="1.5.1")


def test_an_operator_that_this_project_installed_is_kept(cluster: tuple[Api, Any], wording: Wording) -> None:
    """`operator` set from install to existing: Pulumi would delete it. One of the same release name elsewhere is not
    this stack's."""
    api, client = cluster
    image = "quay.io/kuberay/operator:v1.6.2"
    theirs, own = operator(image), operator(image, namespace=NAMESPACE)
    for deployment in (theirs, own):
        deployment["metadata"]["labels"] |= OPERATOR_LABELS

    api.put("/apis/apps/v1", "deployments", theirs, "elsewhere")
    assert [] == found(client, operator="existing")
    api.put("/apis/apps/v1", "deployments", own, NAMESPACE)
    (refused,) = found(client, operator="existing")
    assert ("pulumi config set operator install",) == refused.fixes
    assert [] == found(client, operator="install")
    wording("cluster", str(refused))


@pytest.mark.parametrize(
    ("image", "args", "expected"),
    [
        ("quay.io/kuberay/operator:v1.6.2", (), ["1.6.2"]),
        ("mirror:5000/operator:1.6.2@sha256:" + "0" * 64, (), ["1.6.2"]),
        ("quay.io/kuberay/operator:nightly", (), [""]),
        ("quay.io/kuberay/operator:v1.6.2", ("--watch-namespace=a,ray-system",), ["1.6.2"]),
        ("quay.io/kuberay/operator:v1.6.2", ("--watch-namespace=a,b",), []),
    ],
)
def test_only_operators_of_the_namespace_count(image: str, args: tuple[str, ...], expected: list[str]) -> None:
    """One that watches other namespaces never sees our RayCluster."""
    assert expected == operator_versions([operator(image, *args)], NAMESPACE)


def test_a_cluster_that_does_not_answer_is_said_at_once(tmp_path: Path) -> None:
    """With its address, and without a second try."""
    path = write_kubeconfig(tmp_path / "config", "http://127.0.0.1:9")

    client = kube.connect(str(path))
    with pytest.raises(KubeError, match=r"http://127\.0\.0\.1:9 .*refused") as caught:
        kube.get(client, "/version")

    assert (0, 0) == (caught.value.status, client.configuration.retries.connect)


def answer_at(api: Api, port: int) -> None:
    """Have the cluster's API server answer at this port."""
    labels = {"kubernetes.io/service-name": "kubernetes"}
    endpoints = {
        "metadata": {"name": "kubernetes", "labels": labels},
        "endpoints": [{"addresses": ["192.0.2.7"]}],
        "ports": [{"name": "https", "port": port}],
    }
    api.put("/apis/discovery.k8s.io/v1", "endpointslices", endpoints, "default")


def test_the_cluster_s_own_servers_are_found_as_far_as_they_may_be_read(cluster: tuple[Api, Any]) -> None:
    """The API server behind its Service and the Service itself; of IPv6 no DNS, of Cilium no API server."""
    api, client = cluster
    assert Servers() == inspection.servers(client)
    answer_at(api, 6443)
    service = {"clusterIPs": ["10.96.0.1"], "ports": [{"port": 443}]}
    api.put("/api/v1", "services", {"metadata": {"name": "kubernetes"}, "spec": service}, "default")
    dns = {
        "metadata": {"name": "dns", "labels": {"k8s-app": "kube-dns"}},
        "spec": {"clusterIPs": ["10.96.0.10", "fd::a"]},
    }
    api.put("/api/v1", "services", dns, "kube-system")
    known = Servers((("10.96.0.1", 443), ("192.0.2.7", 6443)), ("10.96.0.10",))

    assert known == inspection.servers(client)
    api.objects["/apis/cilium.io"] = {"kind": "APIGroup"}
    assert replace(known, api=()) == inspection.servers(client)
    api.forbidden |= {"/api/v1/namespaces/kube-system/services", inspection.ENDPOINTS}
    del api.objects["/apis/cilium.io"]
    assert Servers() == inspection.servers(client)


@pytest.mark.parametrize("port", [6443, 16443])
def test_an_api_server_at_a_usual_port_is_fine(cluster: tuple[Api, Any], port: int) -> None:
    """Network policies open it, to whatever calls it."""
    api, client = cluster
    answer_at(api, port)

    assert [] == found(client, rayWorkers="autoscaled")


@pytest.mark.parametrize(
    ("values", "fixes"),
    [
        ({}, ["pulumi config set operator existing"]),
        (
            {"rayWorkers": "autoscaled"},
            ["pulumi config set operator existing && pulumi config set rayWorkers per-run"],
        ),
        ({"operator": "existing", "rayWorkers": "autoscaled"}, ["pulumi config set rayWorkers per-run"]),
        ({"operator": "existing"}, []),
    ],
    ids=["operator", "both", "autoscaler", "neither"],
)
def test_an_api_server_at_a_port_that_no_policy_opens_is_refused(
    cluster: tuple[Api, Any], values: dict[str, str], fixes: list[str], wording: Wording
) -> None:
    """The operator would wait for it until Helm gives up, and the autoscaler for ever; an operator that is installed
    elsewhere is not ours to hold back."""
    api, client = cluster
    api.put("/apis/apps/v1", "deployments", operator("quay.io/kuberay/operator:v1.6.2"), "elsewhere")
    answer_at(api, 7443)

    refusals = found(client, **values)

    assert fixes == [fix for refusal in refusals for fix in refusal.fixes]
    for refusal in refusals:
        wording("cluster", str(refusal))


def test_endpoints_that_nobody_may_read_stand_in_nobody_s_way(cluster: tuple[Api, Any]) -> None:
    """Rights in one namespace are enough."""
    api, client = cluster
    api.forbidden.add(inspection.ENDPOINTS)

    assert [] == found(client)
