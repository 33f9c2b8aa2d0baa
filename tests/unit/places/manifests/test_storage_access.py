"""How pods reach storage: what they are told and mount, and which network is opened for it."""

import socket
from typing import Any

import pytest

from infra.image import spec as image_spec
from infra.places.cluster.manifests import jobs, network, ray_cluster, storage_access
from infra.places.cluster.manifests.network import ANYWHERE, StorageServer, storage_server, to_storage
from infra.places.cluster.manifests.pod_parts import SERVICE_ACCOUNT, STORAGE_ANNOTATION
from infra.places.cluster.manifests.pods import Pods, pods_of
from infra.places.cluster.manifests.storage_access import FOLDER, InPods, in_pods
from infra.settings.rules import MOUNTED
from infra.settings.settings import Settings
from infra.settings.storage import Storage
from infra.storage import data_of
from policy import pod_security, rules
from policy.rules import Declared
from tests.unit.settings_machine import existing, machine, plan_runs
from training.contract.arms import ARMS
from training.contract.provenance import PROJECT

S3 = "s3://bucket/prefix"
SECRET = frozenset({"storageCredentials"})
KEYS = "AWS_ACCESS_KEY_ID=known AWS_SECRET_ACCESS_KEY=hidden"
WAYS = {
    "pvc": {"storage": "pvc"},
    "storageSecret": {"storage": S3, "storageSecret": "keys"},
    "storageCredentials": {"storage": S3, "storageCredentials": KEYS},
    "storageRole": {"storage": S3, "storageRole": "arn:aws:iam::123456789012:role/training"},
    "serviceAccount": {"storage": S3, "serviceAccount": "training"},
}


def asked(way: str, keys: str = KEYS, **more: str) -> Settings:
    """Settings with storage, let in that way."""
    of_way = {key: value.replace(KEYS, keys) for key, value in WAYS[way].items()}
    facts = machine(64, 256, secret=SECRET & WAYS[way].keys())
    return existing(facts, createNamespace="false", **of_way, **more)


def training(pods: Pods, asked_for: Settings) -> list[dict[str, Any]]:
    """The specs of all pods that train, Ray's among them."""
    spec = ray_cluster.spec(pods.ray_cluster)
    of_ray = [group["template"]["spec"] for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"])]
    return of_ray + [spec_of(asked_for, pods, arm) for arm in asked_for.arms if ARMS[arm].start != "ray"]


def spec_of(asked_for: Settings, pods: Pods, arm: str) -> dict[str, Any]:
    """The spec of the pod of an arm's Job."""
    (plan,) = [plan for plan in plan_runs(asked_for) if plan.name == f"{arm}-1"]
    spec: dict[str, Any] = jobs.job(plan, pods.jobs)["template"]["spec"]
    return spec


def names(pod: dict[str, Any]) -> set[str]:
    """Of a pod's variables."""
    return {one["name"] for one in pod["containers"][0].get("env", ())}


@pytest.mark.parametrize("way", WAYS)
def test_every_pod_that_trains_is_let_in_and_stays_restricted(way: str) -> None:
    """No manifest has a secret's value, no pod a token, whoever's identity it has."""
    chosen = asked(way)
    pods = pods_of(chosen)
    for pod in training(pods, chosen):
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        assert (way == "pvc") == ("storage" in volumes)
        assert (way in ("storageCredentials", "storageRole")) == ("storage-credentials" in volumes)
        assert (way == "storageSecret") == ("AWS_SECRET_ACCESS_KEY" in names(pod))
        assert (way == "serviceAccount") == (pod["serviceAccountName"] != SERVICE_ACCOUNT)
        assert pod["automountServiceAccountToken"] is False
        assert [] == list(pod_security.violations(pod))
        assert [] == list(rules.no_service_account_tokens(Declared("kubernetes:batch/v1:Job", "x", {"spec": pod})))
        assert "hidden" not in str(pod)


@pytest.mark.parametrize("way", ["pvc", "storageRole"])
def test_each_run_is_told_its_own_folder(way: str) -> None:
    """By its Job's name, in every arm; the measurement's folder is an annotation, so that a baseline can be kept."""
    chosen = asked(way)
    root = MOUNTED if way == "pvc" else S3
    for plan in plan_runs(chosen)[: len(chosen.arms)]:
        template = jobs.job(plan, pods_of(chosen).jobs)["template"]
        (main,) = template["spec"]["containers"]
        assert "--storage=$(STORAGE)/$(JOB_NAME)" in main["command"]
        assert {"STORAGE", "JOB_NAME"} <= names(template["spec"])
        assert len(main["env"]) == len(names(template["spec"]))
        kept = template["metadata"]["annotations"][STORAGE_ANNOTATION]
        assert f"{root}/{chosen.stack}/{plan.measurement[:12]}" == kept


def test_who_submits_trains_nothing_and_is_let_in_nowhere() -> None:
    """It passes a flag on."""
    chosen = asked("storageRole")
    pod = spec_of(chosen, pods_of(chosen), "ray")

    assert "storage-credentials" not in str(pod["volumes"])
    assert "AWS_SHARED_CREDENTIALS_FILE" not in names(pod)


def test_without_storage_nothing_is_told() -> None:
    """No pod is another than it was."""
    chosen = existing(machine(64, 256), createNamespace="false")

    assert pods_of(chosen).storage is None
    assert "STORAGE" not in str([spec_of(chosen, pods_of(chosen), arm) for arm in chosen.arms])


def test_other_credentials_are_the_same_measurement() -> None:
    """They are rotated, and reach pods that live on as a file; another way in is another pod."""
    first, second = asked("storageCredentials"), asked("storageRole")
    another = asked("storageCredentials", KEYS.replace("hidden", "other"))

    measured = [plan_runs(each)[0].measurement for each in (first, second, another, asked("storageSecret"))]

    assert measured[0] == measured[2]
    assert 3 == len(set(measured))


def test_the_probe_is_let_in_as_runs_are() -> None:
    """It has their mount, identity and variables, and its image what it runs."""
    chosen = asked("serviceAccount", storageEndpoint="https://minio.example.com:9000", storageRegion="here")
    pods = pods_of(chosen)
    assert isinstance(pods.storage, InPods)

    template = storage_access.probe("s3://bucket/prefix/mine", "serviceAccount", pods.placement, pods.storage, "")

    pod = template["spec"]
    assert "training" == pod["serviceAccountName"]
    assert {"AWS_ENDPOINT_URL_S3", "AWS_REGION"} <= names(pod)
    assert [] == list(rules.requests_are_limits(Declared(rules.JOB, "storage-probe", {"spec": pod})))
    assert [] == list(pod_security.violations(pod))
    module = pod["containers"][0]["command"][2]
    assert PROJECT / f"{module.replace('.', '/')}.py" in image_spec.modules("cnn")


@pytest.mark.parametrize(("way", "data"), [("pvc", "/storage/images"), ("storageRole", "s3://bucket/images")])
def test_data_in_storage_is_looked_for_and_read_there(way: str, data: str) -> None:
    """By a pod that is let in as runs are, and by each run; the image has none of it."""
    for dataset in ("imagefolder", "cifar10"):
        chosen = asked(way, dataset=dataset, datasetPath=data)
        pods = pods_of(chosen)
        assert isinstance(pods.storage, InPods)
        probe = storage_access.probe("there", "own", pods.placement, pods.storage, data_of(chosen))

        assert f"--data={data}" in probe["spec"]["containers"][0]["command"]
        assert not pods.content.has_cifar10
        for plan in plan_runs(chosen)[: len(chosen.arms)]:
            (main,) = jobs.job(plan, pods.jobs)["template"]["spec"]["containers"]
            assert [f"--dataset-path={data}"] == [word for word in main["command"] if word.startswith("--dataset-path")]


def test_a_file_of_credentials_is_as_aws_tools_read_it(tmp_path: Any) -> None:
    """By the standard library's reader of that form."""
    from configparser import ConfigParser

    read = ConfigParser()
    read.read_string(
        f"# until 2030\n{storage_access.credentials_file({'AWS_ACCESS_KEY_ID': 'a', 'AWS_SESSION_TOKEN': 'b=='})}"
    )

    assert {"aws_access_key_id": "a", "aws_session_token": "b=="} == dict(read["default"])
    assert FOLDER == "/storage-credentials"


def address(storage: str = S3, endpoint: str | None = None) -> Storage:
    """Storage at that server."""
    return Storage(address=storage, endpoint=endpoint)


@pytest.mark.parametrize(
    ("storage", "where"),
    [
        (address("/storage"), None),
        (address(), StorageServer(443, addresses=ANYWHERE)),
        (address("gs://bucket/x"), StorageServer(443, addresses=ANYWHERE)),
        (address(endpoint="https://s3.eu-central-1.amazonaws.com"), StorageServer(443, addresses=ANYWHERE)),
        (address(endpoint="http://minio.store.svc:9000"), StorageServer(9000, namespace="store")),
        (address(endpoint="http://minio.store.svc.cluster.local"), StorageServer(80, namespace="store")),
        (address(endpoint="http://203.0.113.7:9000"), StorageServer(9000, addresses=("203.0.113.7/32",))),
        (address(endpoint="https://[2001:db8::1]"), StorageServer(443, addresses=("2001:db8::1/128",))),
    ],
)
def test_where_storage_answers_is_known(storage: Storage, where: StorageServer | None) -> None:
    """Of a cloud's own servers, whose addresses change, the port."""
    assert where == storage_server(storage)


@pytest.mark.parametrize(
    ("answers", "opened"), [(["10.1.2.3", "10.1.2.4"], ("10.1.2.3/32", "10.1.2.4/32")), (["38.27.106.1"], ANYWHERE)]
)
def test_a_name_in_the_internet_has_other_addresses_tomorrow(
    answers: list[str], opened: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod may resolve another than this machine; one's own network has those that it has."""
    found = [(0, 0, 0, "", (one, 443)) for one in answers]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)

    assert StorageServer(443, addresses=opened) == storage_server(address(endpoint="https://s3.example.com"))


def test_a_name_of_nobody_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty list of addresses would be a policy that opens all."""

    def nobody(*_: object, **__: object) -> list[Any]:
        raise socket.gaierror("Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", nobody)
    with pytest.raises(OSError, match="not known"):
        storage_server(address(endpoint="http://nowhere.example.com"))


@pytest.mark.parametrize("where", [StorageServer(443, addresses=ANYWHERE), StorageServer(9000, namespace="store")])
def test_nothing_else_is_opened(where: StorageServer) -> None:
    """At one port, and never to a metadata server, which gives out a node's credentials."""
    (rule,) = to_storage(where)

    assert [{"protocol": "TCP", "port": where.port}] == rule["ports"]
    assert rule["to"]
    for peer in rule["to"]:
        if peer.get("ipBlock", {}).get("cidr") == "0.0.0.0/0":
            assert "169.254.0.0/16" in peer["ipBlock"]["except"]
    asked_for = network.NetworkSettings(
        create_namespace=True, operator=False, pod_range=None, native_ports=(2222,), storage=[rule]
    )
    assert {"Egress"} == set(network.policies(asked_for)["storage"]["policyTypes"])
    assert isinstance(in_pods(address()), InPods)
