"""What is refused in a cluster that exists, before anything is made in it."""

import json
import re
from collections.abc import Sequence
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
from tests.golden import Wording
from tests.unit.kube_api import NAMESPACE, Api, job, node, write_kubeconfig
from tests.unit.settings_machine import existing

CRDS = "/apis/apiextensions.k8s.io/v1"
PRIORITIES = "/apis/scheduling.k8s.io/v1"
TAINT = {"key": "dedicated", "value": "training", "effect": "NoSchedule"}
HOST = "kubernetes.io/hostname"
"""A label that each node has; it is the node's name."""
STACK = existing().stack


@pytest.fixture(autouse=True)
def _two_nodes(api: Api) -> None:
    """They hold the default measurement."""
    for name in ("one", "two"):
        api.put("/api/v1", "nodes", node(name))


def found(client: Any, **values: str) -> list[Problem]:
    """What stands in the way."""
    return inspection.problems(client, existing(**values))


def operator(image: str, *args: str, namespace: str = "elsewhere") -> dict[str, Any]:
    """A deployment of KubeRay's operator."""
    container = {"image": image, "args": list(args)}
    labels = {"app.kubernetes.io/name": "kuberay-operator"}
    template = {"spec": {"containers": [container]}}
    return {
        "metadata": {"name": f"op-{namespace}", "namespace": namespace, "labels": labels},
        "spec": {"template": template},
    }


def test_an_empty_cluster_with_room_is_fine(api: Api, client: Any) -> None:
    """Nothing is refused, and nothing was changed: it was only read."""

    assert [] == found(client)
    assert {"GET"} == {line.split()[0] for line in api.asked}


def test_what_does_not_fit_the_real_nodes_is_refused(client: Any, wording: Wording) -> None:
    """By node and not by sum; permission makes it a warning, and fewer workers fit."""
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
def test_nodes_that_our_pods_may_not_use_do_not_count(api: Api, client: Any, change: dict[str, Any]) -> None:
    """One node alone is too small for the native arm."""
    api.put("/api/v1", "nodes", node("two", **change))

    (refused,) = found(client)

    assert ["one"] == re.findall(r"[(;]\s*(\w+) \d+ CPUs", refused.what)


def template(folder: Path, **spec: Any) -> str:
    """The path of a pod's template with these fields."""
    (folder / "pods.yaml").write_text(json.dumps({"spec": spec}), encoding="utf-8")
    return str(folder / "pods.yaml")


def test_a_taint_is_borne_by_a_toleration(api: Api, client: Any, tmp_path: Path) -> None:
    """As the pod's template has it."""
    api.put("/api/v1", "nodes", node("two", taints=[TAINT]))

    assert [] == found(client, podTemplate=template(tmp_path, tolerations=[TAINT]))
    assert [] != found(client, podTemplate=template(tmp_path, tolerations=[TAINT | {"value": "other"}]))


def needs(key: str, operator: str, *values: str) -> dict[str, Any]:
    """A requirement of an affinity."""
    return {"key": key, "operator": operator, "values": list(values)}


def either(*terms: Sequence[dict[str, Any]], kind: str = "matchExpressions") -> dict[str, Any]:
    """The affinity to nodes that have all that one of the terms requires."""
    required = [{kind: list(term)} if term else {} for term in terms]
    chosen = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": required}}
    return {"affinity": {"nodeAffinity": chosen}}


GPU = needs("gpu", "Exists")


@pytest.mark.parametrize(
    ("effect", "spec", "expected"),
    [
        # A taint that only prefers keeps nothing out
        ("PreferNoSchedule", {}, True),
        # Exists needs no key, Equal needs the value, and a given effect must be the taint's
        ("NoSchedule", {}, False),
        ("NoSchedule", {"tolerations": [{"operator": "Exists"}]}, True),
        ("NoSchedule", {"tolerations": [{"operator": "Exists", "key": "dedicated"}]}, True),
        ("NoSchedule", {"tolerations": [{"operator": "Exists", "key": "other"}]}, False),
        ("NoSchedule", {"tolerations": [TAINT | {"effect": "NoExecute"}]}, False),
        ("NoSchedule", {"tolerations": [{"key": "dedicated"}]}, False),
        # All labels that are selected
        ("", {"nodeSelector": {HOST: "a"}}, True),
        ("", {"nodeSelector": {HOST: "a", "gpu": "yes"}}, False),
        ("", {"nodeSelector": {HOST: "b"}}, False),
        # One term is enough, all its requirements have to match, and an empty one matches no node
        ("", either([needs(HOST, "In", "a", "b")]), True),
        ("", either([needs(HOST, "NotIn", "a")]), False),
        ("", either([needs("gpu", "NotIn", "a")]), True),
        ("", either([GPU]), False),
        ("", either([needs("gpu", "DoesNotExist")]), True),
        ("", either([needs("generation", "Gt", "3")]), True),
        ("", either([needs("generation", "Lt", "4")]), False),
        ("", either([needs("generation", "Lt", "5")]), True),
        ("", either([needs(HOST, "Gt", "3")]), False),
        ("", either([needs("metadata.name", "In", "a")], kind="matchFields"), True),
        ("", either([needs("metadata.name", "In", "b")], kind="matchFields"), False),
        ("", either([needs(HOST, "Exists"), GPU]), False),
        ("", either([GPU], [needs(HOST, "Exists")]), True),
        ("", either([]), False),
    ],
)
def test_a_pod_may_be_where_the_scheduler_lets_it_be(effect: str, spec: dict[str, Any], expected: bool) -> None:
    """By taints and tolerations, by labels, and by a required affinity."""
    there = node("a", taints=[TAINT | {"effect": effect}] if effect else [])
    there["metadata"]["labels"]["generation"] = "4"

    assert expected == usable(there, PodTemplate(spec=spec))


@pytest.mark.parametrize(
    ("path", "values"),
    [
        (f"{PRIORITIES}/priorityclasses/low", {}),
        (f"{CRDS}/customresourcedefinitions/{POD_MONITOR_CRD}", {"monitoring": "existing"}),
        ("/api/v1/namespaces/observing", {"monitoring": "existing", "monitoringNamespace": "observing"}),
    ],
    ids=["priority class", "pod monitors", "namespace of the Prometheus"],
)
def test_what_pods_or_a_prometheus_need_must_be_there(
    path: str, values: dict[str, str], tmp_path: Path, *, api: Api, client: Any, wording: Wording
) -> None:
    """No pod would be created, nothing would read it, and nobody would say why; who may not look is let through."""
    api.put(PRIORITIES, "priorityclasses", {"metadata": {"name": "low"}})
    api.put(CRDS, "customresourcedefinitions", {"metadata": {"name": POD_MONITOR_CRD}})
    for name in ("monitoring", "observing"):
        api.put("/api/v1", "namespaces", {"metadata": {"name": name}})
    values = {**values, "podTemplate": template(tmp_path, priorityClassName="low")}
    assert [] == found(client, **values)
    del api.objects[path]
    (missing,) = found(client, **values)
    wording("cluster", str(missing))
    api.forbidden.add(path)
    assert [] == found(client, **values)


def test_a_prometheus_of_the_stack_s_own_needs_no_namespace_of_another(client: Any) -> None:
    """The key is of one that exists."""
    assert "observing" not in str(found(client, monitoring="prometheus", monitoringNamespace="observing"))


def test_a_namespace_of_somebody_else_is_not_taken_over(api: Api, client: Any, wording: Wording) -> None:
    """Ours is known by its label; a given one is the user's own choice."""
    api.put("/api/v1", "namespaces", {"metadata": {"name": NAMESPACE}})

    (refused,) = found(client)
    assert "pulumi config set createNamespace false" in refused.fixes
    wording("cluster", str(refused))
    assert [] == found(client, createNamespace="false")

    api.put("/api/v1", "namespaces", {"metadata": {"name": NAMESPACE, "labels": {PROJECT_LABEL: PROJECT}}})
    assert [] == found(client)


def test_a_namespace_that_this_project_made_is_not_given_up(api: Api, client: Any, wording: Wording) -> None:
    """`createNamespace` set from true to false: Pulumi would delete the namespace, and everything in it."""
    api.put("/api/v1", "namespaces", {"metadata": {"name": NAMESPACE, "labels": {PROJECT_LABEL: PROJECT}}})

    (refused,) = found(client, createNamespace="false")
    assert ("pulumi config set createNamespace true",) == refused.fixes
    wording("cluster", str(refused))


def test_a_given_namespace_must_exist(client: Any) -> None:
    """Its pull secrets and rights are the user's to make."""
    (refused,) = found(client, createNamespace="false")

    assert f"kubectl create namespace {NAMESPACE}" in refused.fixes


def test_a_run_that_goes_on_is_refused(api: Api, client: Any, wording: Wording) -> None:
    """Nothing is deleted here: the line that does is given. Runs that have ended, and Jobs of others, are fine."""
    for one in (job("ray-1-a", "ray-1", "Complete"), job("ray-1-b", "ray-1", "Failed"), job("backup", "", active=1)):
        api.put("/apis/batch/v1", "jobs", one, NAMESPACE)
    assert [] == found(client)

    api.put("/apis/batch/v1", "jobs", job("ray-1-c", "ray-1", stack=STACK, active=1), NAMESPACE)
    (refused,) = found(client)
    (line,) = refused.fixes
    assert line.startswith(f"kubectl patch job ray-1-c --namespace {NAMESPACE} --type=merge ")
    wording("cluster", str(refused))


def test_a_run_that_waits_in_a_queue_is_ended_otherwise(api: Api, client: Any) -> None:
    """Its deadline does not run: it leaves the queue, and then it starts. tests/platform does it in a real one."""
    waits = job("ray-1-c", "ray-1", stack=STACK)
    waits["metadata"]["labels"] = {QUEUE_LABEL: "training"}
    waits["spec"]["suspend"] = True
    api.put("/apis/batch/v1", "jobs", waits, NAMESPACE)

    ((line,),) = [problem.fixes for problem in found(client)]
    leaves, starts = line.split(" && ")
    assert leaves.endswith(f"{QUEUE_LABEL}-")
    assert '"suspend": false' in starts


def test_a_run_of_another_stack_is_to_end_by_itself(api: Api, client: Any, wording: Wording) -> None:
    """Whose it is is said, and no line ends what is somebody else's, also where one of our own was left beside it."""
    api.put("/apis/batch/v1", "jobs", job("theirs", "ray-1", stack="of-a-colleague", active=1), NAMESPACE)
    api.put("/apis/batch/v1", "jobs", job("unsaid", "ray-1", active=1), NAMESPACE)
    (refused,) = found(client)
    assert (f"kubectl get jobs --namespace {NAMESPACE} --watch",) == refused.fixes
    assert all(name in refused.what for name in ("theirs", "of-a-colleague", "unsaid"))
    wording("cluster", str(refused))

    api.put("/apis/batch/v1", "jobs", job("ours", "ray-1", stack=STACK, active=1), NAMESPACE)
    others, own = found(client)
    assert others == refused
    assert [["kubectl", "patch", "job", "ours"]] == [line.split()[:4] for line in own.fixes]
    assert not [name for name in ("theirs", "unsaid") if name in str(own)]


def test_crds_of_somebody_else_are_refused(api: Api, client: Any) -> None:
    """With the line that uses their operator; our own of an earlier stack are fine."""
    api.put(CRDS, "customresourcedefinitions", {"metadata": {"name": "rayclusters.ray.io"}})

    (refused,) = found(client)
    assert "(rayclusters.ray.io)" in str(refused)
    assert "pulumi config set operator existing" in str(refused)

    own = {"metadata": {"name": "rayclusters.ray.io", "labels": {LABEL: OWNER}}}
    api.put(CRDS, "customresourcedefinitions", own)
    assert [] == found(client)


def test_an_operator_that_exists_has_the_version_that_is_set(api: Api, client: Any, wording: Wording) -> None:
    """Both versions are named, and the line that makes them equal."""
    (missing,) = found(client, operator="existing")
    assert ("pulumi config set operator install",) == missing.fixes
    wording("cluster", str(missing), "no operator that exists")

    api.put("/apis/apps/v1", "deployments", operator("quay.io/kuberay/operator:v1.5.1"), "elsewhere")
    (refused,) = found(client, operator="existing")
    assert ("pulumi config set kuberayVersion 1.5.1",) == refused.fixes
    wording("cluster", str(refused), "an operator of another version")
    assert [] == found(client, operator="existing", kuberayVersion="1.5.1")


def test_an_operator_that_this_project_installed_is_kept(api: Api, client: Any, wording: Wording) -> None:
    """`operator` set from install to existing: Pulumi would delete it. One of the same release name elsewhere is not
    this stack's."""
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


def test_the_cluster_s_own_servers_are_found_as_far_as_they_may_be_read(api: Api, client: Any) -> None:
    """The API server behind its Service and the Service itself; of IPv6 no DNS, of Cilium no API server."""
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


EXISTING_OPERATOR = {"operator": "existing"}
AUTOSCALED = {"rayWorkers": "autoscaled"}


@pytest.mark.parametrize(
    ("port", "values", "fixes"),
    [
        (6443, AUTOSCALED, []),
        (16443, AUTOSCALED, []),
        (7443, {}, ["pulumi config set operator existing"]),
        (7443, AUTOSCALED, ["pulumi config set operator existing && pulumi config set rayWorkers per-run"]),
        (7443, EXISTING_OPERATOR | AUTOSCALED, ["pulumi config set rayWorkers per-run"]),
        (7443, EXISTING_OPERATOR, []),
    ],
    ids=["usual", "usual, too", "operator", "both", "autoscaler", "neither"],
)
def test_an_api_server_at_a_port_that_no_policy_opens_is_refused(
    port: int, values: dict[str, str], fixes: list[str], *, api: Api, client: Any, wording: Wording
) -> None:
    """The operator would wait for it until Helm gives up, and the autoscaler for ever; an operator that is installed
    elsewhere is not ours to hold back. At a usual port network policies open it, to whatever calls it."""
    api.put("/apis/apps/v1", "deployments", operator("quay.io/kuberay/operator:v1.6.2"), "elsewhere")
    answer_at(api, port)

    refusals = found(client, **values)

    assert fixes == [fix for refusal in refusals for fix in refusal.fixes]
    for refusal in refusals:
        wording("cluster", str(refusal))


def test_endpoints_that_nobody_may_read_stand_in_nobody_s_way(api: Api, client: Any) -> None:
    """Rights in one namespace are enough."""
    api.forbidden.add(inspection.ENDPOINTS)

    assert [] == found(client)
