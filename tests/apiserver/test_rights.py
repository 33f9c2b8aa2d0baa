"""The roles of docs/samples/rights.yaml, on a real API server: they are enough, and each of their rules is needed."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.places.cluster.api import kube
from infra.places.cluster.api.kube import KubeError
from infra.places.cluster.manifests.pod_parts import SERVICE_ACCOUNT
from infra.places.cluster.manifests.ray_cluster import TOKEN_SECRET
from infra.places.kubernetes import inspection
from infra.places.kubernetes.pinned_cluster import PinnedClusterProvider
from infra.settings.settings import Settings
from tests.apiserver.control_plane import USER, USERS_TOKEN
from tests.apiserver.test_objects import objects, pods, refusal
from tests.unit.settings_machine import settings

Manifest = dict[str, Any]
SAMPLE = Path(__file__).resolve().parents[2] / "docs/samples/rights.yaml"
RBAC = {"apiGroup": "rbac.authorization.k8s.io"}


def printed() -> dict[str, Manifest]:
    """The objects of the file, by kind."""
    return {each["kind"]: each for each in yaml.safe_load_all(SAMPLE.read_text(encoding="utf-8"))}


NAMESPACE = printed()["Namespace"]["metadata"]["name"]


@pytest.fixture(scope="module")
def administrator(api: Any) -> Any:
    """A client for everything; the file's objects are there, and bound to the user."""
    made = printed()
    subject = {"kind": "User", "name": USER, **RBAC}
    for kind in ("Role", "ClusterRole"):
        role = made[kind]
        of_role = {"kind": kind, "name": role["metadata"]["name"], **RBAC}
        made[f"{kind}Binding"] = {
            "apiVersion": role["apiVersion"], "kind": f"{kind}Binding", "metadata": role["metadata"],
            "subjects": [subject], "roleRef": of_role,
        }  # fmt: skip
    for manifest in made.values():
        kind = api.resources.get(api_version=manifest["apiVersion"], kind=manifest["kind"])
        api.create(kind, manifest, manifest["metadata"].get("namespace"))
    accounts = api.resources.get(api_version="v1", kind="ServiceAccount")
    for account in ("default", SERVICE_ACCOUNT):
        api.create(accounts, {"metadata": {"name": account}}, NAMESPACE)
    api.create(api.resources.get(api_version="apps/v1", kind="Deployment"), OPERATOR, "default")
    return api


_LABELS = {"app.kubernetes.io/name": "kuberay-operator"}
OPERATOR: Manifest = {
    "apiVersion": "apps/v1", "kind": "Deployment",
    "metadata": {"name": "kuberay-operator", "namespace": "default", "labels": _LABELS},
    "spec": {
        "selector": {"matchLabels": _LABELS},
        "template": {
            "metadata": {"labels": _LABELS},
            "spec": {"containers": [{"name": "operator", "image": "quay.io/kuberay/operator:v1.6.2"}]},
        },
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def users(administrator: Any, kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The user's kubeconfig."""
    assert administrator
    config = yaml.safe_load(kubeconfig.read_text())
    config["users"][0]["user"] = {"token": USERS_TOKEN}
    path = tmp_path_factory.mktemp("user") / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return str(path)


@pytest.fixture
def one_rule_less(administrator: Any) -> Iterator[Any]:
    """Takes the rule for a resource away, and gives it back in the end."""
    changed = []

    def without(resource: str) -> None:
        for kind in ("Role", "ClusterRole"):
            role = copy.deepcopy(printed()[kind])
            rules = role["rules"]
            role["rules"] = [rule for rule in rules if resource not in rule["resources"]]
            if role["rules"] != rules:
                _put(administrator, role)
                changed.append(kind)

    yield without
    for kind in changed:
        _put(administrator, printed()[kind])


def _put(api: Any, manifest: Manifest) -> None:
    kind = api.resources.get(api_version=manifest["apiVersion"], kind=manifest["kind"])
    there = api.get(kind, manifest["metadata"]["name"], manifest["metadata"].get("namespace"))
    manifest["metadata"]["resourceVersion"] = there.metadata.resourceVersion
    api.replace(kind, manifest, manifest["metadata"]["name"], manifest["metadata"].get("namespace"))


def wanted() -> Settings:
    """The stack that the page is for."""
    keys = {"operator": "existing", "createNamespace": "false", "namespace": NAMESPACE}
    return settings(target="kubernetes", image="registry.example.com/a:1", kubeContext="bare", **keys)


def declared() -> dict[str, Manifest]:
    """What an update makes in the cluster, but its namespace."""
    made = {name: one for name, one in objects("kubernetes").items() if not name.startswith(("Namespace ", "Release "))}
    for one in made.values():
        one["metadata"]["namespace"] = NAMESPACE
    return made


def test_the_cluster_can_be_asked_and_pinned(users: str) -> None:
    """All that is looked at before anything is made."""
    assert [] == [one for one in inspection.problems(kube.connect(users), wanted()) if not one.liftable]  # no node
    asked = {"stack": "s", "kubeconfig": users, "context": "bare"}
    assert PinnedClusterProvider().check({}, asked).inputs["uid"]


@pytest.mark.parametrize("resource", ["namespaces", "nodes", "deployments", "jobs", "pods"])
def test_each_right_to_ask_is_needed(resource: str, users: str, one_rule_less: Any) -> None:
    """And named by what is said without it."""
    one_rule_less(resource)

    with pytest.raises(KubeError, match=resource) as refused:
        inspection.problems(kube.connect(users), wanted())
    assert 403 == refused.value.status


def test_pulumi_may_wait_for_all_that_is_declared() -> None:
    """Its plugin watches what it makes and deletes: a dry run does not show that, and without the right it hangs."""
    verbs = {resource: set(rule["verbs"]) for rule in printed()["Role"]["rules"] for resource in rule["resources"]}

    for name in (*declared(), "ConfigMap of a script"):
        assert {"get", "list", "watch", "create", "patch", "delete"} == verbs[_resource(name.partition(" ")[0])]
    assert {"list", "watch"} == verbs["endpoints"]


def _resource(kind: str) -> str:
    return "networkpolicies" if kind == "NetworkPolicy" else f"{kind.lower()}s"


def test_of_secrets_the_token_alone_can_be_read(administrator: Any, users: str) -> None:
    """It is Ray's, and made by the operator."""
    secrets = administrator.resources.get(api_version="v1", kind="Secret")
    for name in (TOKEN_SECRET, "another"):
        administrator.create(secrets, {"metadata": {"name": name}}, NAMESPACE)
    own = kube.connect(users)
    path = f"/api/v1/namespaces/{NAMESPACE}/secrets"

    assert kube.get(own, f"{path}/{TOKEN_SECRET}")
    for other in (f"{path}/another", path):
        with pytest.raises(KubeError) as refused:
            kube.get(own, other)
        assert 403 == refused.value.status


def test_all_that_is_declared_can_be_made(users: str, tmp_path: Path) -> None:
    """And nothing in another namespace."""
    from kubernetes.dynamic import DynamicClient

    own = DynamicClient(kube.client(users), cache_file=str(tmp_path / "discovery.json"))
    made = declared()

    assert {"Job", "NetworkPolicy", "RayCluster", "Service"} <= {name.partition(" ")[0] for name in made}
    assert {} == {name: said for name, one in made.items() if (said := refusal(own, one))}
    for one in made.values():
        one["metadata"]["namespace"] = "default"
    assert set(made) == {name for name, one in made.items() if "forbidden" in refusal(own, one)}
    assert all("forbidden" in refusal(own, pod) for _, pod in pods("", declared()["Job baseline-1"]))
