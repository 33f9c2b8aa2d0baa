"""`rayWorkers autoscaled` with KubeRay's own operator: what it makes of the head, and an update after Ray's patch."""

import shlex
import subprocess
from typing import Any

import pytest

from infra.places.cluster.api import kube
from infra.places.cluster.manifests import ray_autoscaler, ray_cluster
from tests.apiserver import control_plane
from tests.limits import wait_for
from tests.platform.cluster import Cluster, settings
from tests.platform.stacks import give_result, new_stack, of_ray
from tests.program.conftest import NewProject, cli, new_project  # noqa: F401 (fixtures)
from tests.program.engine import Project

AUTOSCALED = {"rayWorkers": "autoscaled", "idleSeconds": "10"}
RAY = "ray.io/v1/rayclusters"


@pytest.fixture
def head(cluster: Cluster) -> dict[str, Any]:
    """The pod of a head with Ray's autoscaler, in a namespace that admits pods of `restricted` alone."""
    cluster.make_ray_cluster(ray_cluster.spec(settings(2, **AUTOSCALED)))
    (pod,) = wait_for(lambda: cluster.pods(**ray_cluster.HEAD_LABELS))
    return dict(pod)


def test_the_autoscaler_alone_has_a_token(head: dict[str, Any]) -> None:
    """KubeRay adds the container, and admission adds no token of its own to the pod."""
    mounts = {one["name"]: {mount["mountPath"] for mount in one["volumeMounts"]} for one in head["spec"]["containers"]}
    tokens = [one["name"] for one in head["spec"]["volumes"] if "serviceAccountToken" in str(one.get("projected"))]

    assert {"ray-head", "autoscaler"} == set(mounts)
    assert [ray_autoscaler.CREDENTIALS] == tokens
    assert ["autoscaler"] == [name for name, paths in mounts.items() if ray_autoscaler.TOKEN_PATH in paths]
    assert not head["spec"]["automountServiceAccountToken"]


def test_its_rights_are_those_that_kuberay_gives(head: dict[str, Any], cluster: Cluster) -> None:
    """Of its namespace: pods, and RayClusters. Nobody else has its account."""
    role = kube.get(cluster.api, cluster.path("rbac.authorization.k8s.io/v1/roles", ray_cluster.NAME))
    rights = {(resource, verb) for rule in role["rules"] for resource in rule["resources"] for verb in rule["verbs"]}

    assert ray_cluster.NAME == head["spec"]["serviceAccountName"]
    assert {
        *(("pods", verb) for verb in ("get", "list", "watch", "patch")),
        ("pods/resize", "patch"),
        *(("rayclusters", verb) for verb in ("get", "patch")),
    } == rights


@pytest.fixture
def project(new_project: NewProject, cluster: Cluster) -> Project:  # noqa: F811
    """A stack whose workers Ray's autoscaler adds."""
    return of_ray(new_stack(new_project, cluster, **AUTOSCALED))


def test_another_number_of_workers_after_ray_s_patch_is_an_update(project: Project, cluster: Cluster) -> None:
    """Ray's autoscaler owns the list of worker groups then. A worker that it removes is waited for first; KubeRay
    removes none that it does not name."""
    project.configure(workers="2")
    give_result(cluster, 2)
    project.up()
    path = cluster.path(RAY, ray_cluster.NAME)
    before = kube.get(cluster.api, path)
    group = before["spec"]["workerGroupSpecs"][0]
    kube.patch(cluster.api, path, {"spec": {"workerGroupSpecs": [group | {"replicas": 1}]}})
    (worker,) = wait_for(cluster.workers)
    leaving = {"replicas": 0, "scaleStrategy": {"workersToDelete": [worker["metadata"]["name"]]}}
    kube.patch(cluster.api, path, {"spec": {"workerGroupSpecs": [group | leaving]}})
    project.up("--expect-no-changes")
    assert [] == cluster.workers()
    project.configure(workers="3")
    give_result(cluster, 3)

    project.up()

    after = kube.get(cluster.api, path)
    (group,) = after["spec"]["workerGroupSpecs"]
    assert before["metadata"]["uid"] == after["metadata"]["uid"]
    assert (0, 0, 3) == tuple(group[name] for name in ("replicas", "minReplicas", "maxReplicas"))


def containers(cluster: Cluster) -> list[str]:
    """Those of the head's pod."""
    (head,) = [pod for pod in cluster.pods(**ray_cluster.HEAD_LABELS) if "deletionTimestamp" not in pod["metadata"]]
    return [each["name"] for each in head["spec"]["containers"]]


@pytest.mark.slow
def test_a_living_stack_changes_to_the_autoscaler_and_back(project: Project, cluster: Cluster) -> None:
    """The head is another one each time, with the container or without. Neither workers that are kept nor one that the
    autoscaler left are in the way, and nothing of it stays."""
    path, uids = cluster.path(RAY, ray_cluster.NAME), set()
    give_result(cluster, 2)
    for ray_workers in ("kept", "autoscaled", "per-run", "autoscaled", "kept"):
        if ray_workers == "autoscaled":
            project.configure(workers="2", **AUTOSCALED)
        else:
            project.configure(workers="2", rayWorkers=ray_workers)
            project.pulumi("config", "rm", "idleSeconds")  # it is refused where it has no effect
        project.up()
        made = kube.get(cluster.api, path)
        uids.add(made["metadata"]["uid"])

        assert (ray_workers == "autoscaled") == ("autoscaler" in containers(cluster))
        assert (2 if ray_workers == "kept" else 0) == len(cluster.workers())
        if ray_workers == "autoscaled":
            (group,) = made["spec"]["workerGroupSpecs"]
            kube.patch(cluster.api, path, {"spec": {"workerGroupSpecs": [group | {"replicas": 1}]}})
            wait_for(cluster.workers)
    assert 5 == len(uids)
    project.pulumi("destroy", "--yes", "--skip-preview")
    wait_for(lambda: not cluster.pods())
    kinds = ("v1/serviceaccounts", "rbac.authorization.k8s.io/v1/roles", "rbac.authorization.k8s.io/v1/rolebindings")
    wait_for(lambda: not any(kube.find(cluster.api, cluster.path(kind, ray_cluster.NAME)) for kind in kinds))


@pytest.mark.slow
def test_an_autoscaler_that_ended_is_replaced_by_the_lines_that_say_so(project: Project, cluster: Cluster) -> None:
    """Its workers would stay for ever, and no run would get any."""
    give_result(cluster, 2)
    project.configure(workers="2", **AUTOSCALED)
    project.up()
    (head,) = cluster.pods(**ray_cluster.HEAD_LABELS)
    status = [each | {"state": {"terminated": {"exitCode": 1}}} if each["name"] == "autoscaler" else each
              for each in head["status"]["containerStatuses"]]  # fmt: skip
    path = f"{cluster.path('v1/pods', head['metadata']['name'])}/status"
    kube.patch(cluster.api, path, {"status": {"containerStatuses": status}})

    said = project.up(ok=False)

    (line,) = [line.strip() for line in said.splitlines() if f"delete raycluster {ray_cluster.NAME}" in line]
    variables = project.environment | {"PATH": f"{control_plane.search_path()}:{project.environment['PATH']}"}
    subprocess.run(shlex.split(line), cwd=project.folder, env=variables, check=True)
    project.pulumi("refresh", "--yes", "--skip-preview")
    project.up()
    assert "autoscaler" in containers(cluster)
