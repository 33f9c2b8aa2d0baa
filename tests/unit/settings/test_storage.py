"""Settings of storage: each key only where it means something, one way in, and what a claim needs."""

from pathlib import Path

import pytest

from infra.settings.rules import MOUNTED
from infra.settings.storage import HOSTNAME
from tests.golden import Wording
from tests.unit.settings_machine import applied, machine, only_problem, problems, settings
from tests.unit.settings_values import EXISTING

S3 = "s3://bucket/prefix"
OURS_NOT = {**EXISTING, "createNamespace": "false"}
MINIKUBE = {"target": "minikube", "minikubeCpus": "16", "minikubeMemory": "32Gi"}
KEYS = "AWS_ACCESS_KEY_ID=a AWS_SECRET_ACCESS_KEY=b"
LARGE = machine(64, 256)
WITH_SECRET = machine(64, 256, secret=frozenset({"storageCredentials"}))
ROLE = "arn:aws:iam::123456789012:role/training"


@pytest.mark.parametrize(
    ("key", "value", "beside"),
    [
        ("storageEndpoint", "http://localhost:9000", {}),
        ("storageEndpoint", "http://localhost:9000", {"storage": "gs://bucket/prefix"}),
        ("storageRegion", "eu-central-1", {"storage": "../kept"}),
        ("storageRole", ROLE, {"storage": "../kept"}),
        ("storageSecret", "keys", {"storage": S3}),
        ("serviceAccount", "training", {"storage": S3}),
        ("storageClass", "nfs", {**OURS_NOT, "storage": S3, "storageSecret": "keys"}),
        ("storageSize", "20Gi", {**OURS_NOT, "storage": S3, "storageSecret": "keys"}),
        ("serviceAccount", "training", {**OURS_NOT, "storage": "pvc"}),
    ],
)
def test_a_key_that_would_change_nothing_is_refused(key: str, value: str, beside: dict[str, str]) -> None:
    """With what it means something with."""
    found = only_problem(LARGE, **beside, **{key: value})

    assert f"{key} = {value}" in found
    assert f"pulumi config rm {key}" == found.fixes[0]


def test_a_folder_is_this_machine_s_and_a_claim_a_cluster_s(wording: Wording) -> None:
    """Each with the line that is enough, whatever else that needs. It is found from the project, as every path is."""
    claim = only_problem(storage="pvc")
    assert "storage" == claim.key
    wording("settings", claim, "claim")
    for label, place in {"cluster": EXISTING, "namespace": OURS_NOT, "minikube": MINIKUBE}.items():
        wording("settings", only_problem(LARGE, **place, storage="../kept"), label)
    here = settings(storage="../kept").storage

    assert here is not None
    assert (f"{machine().folder}/../kept", False) == (here.address, here.is_remote)


def test_pods_have_no_credentials_of_whoever_calls(wording: Wording) -> None:
    """Four ways give them some, and each is enough; on this machine a run has its caller's."""
    (problem,) = problems(LARGE, **EXISTING, storage=S3)
    given, role, secret, account = problem.fixes

    for way in (secret, account, role):
        settings(LARGE, **applied({**EXISTING, "storage": S3}, way))
    assert "pulumi config set --secret storageCredentials" == given
    settings(WITH_SECRET, **EXISTING, storage=S3, storageCredentials=KEYS)
    settings(WITH_SECRET, **EXISTING, storage=S3)  # as tools read a stack's file, which has it encrypted
    assert "serviceAccount" in only_problem(LARGE, **EXISTING, storage="gs://bucket/prefix")
    (of_own_cluster,) = problems(LARGE, target="minikube", storage=S3)
    assert "storageSecret" not in str(of_own_cluster)
    wording("settings", str(problem), "cluster")
    wording("settings", str(of_own_cluster), "minikube")
    assert "on target minikube" in only_problem(LARGE, target="minikube", storage="gs://bucket/prefix")
    settings(storage=S3)


def test_one_way_in_is_enough(wording: Wording) -> None:
    """Of two, which holds would be a guess. A role lasts as long as a run may: STS gives 12 hours at most."""
    found = only_problem(WITH_SECRET, storage=S3, storageCredentials=KEYS, storageRole=ROLE)

    assert {"pulumi config rm storageCredentials", "pulumi config rm storageRole"} == set(found.fixes)
    assert KEYS not in found
    wording("settings", found)
    too_long = only_problem(storage=S3, storageRole=ROLE, runTimeoutMinutes="706")
    assert "pulumi config set runTimeoutMinutes 705" in too_long


def test_credentials_in_clear_are_refused() -> None:
    """They would be in the stack's file; and no message has them."""
    (problem,) = problems(storage=S3, storageCredentials="AWS_ACCESS_KEY_ID=known AWS_SECRET_ACCESS_KEY=hidden")

    assert ("pulumi config set --secret storageCredentials",) == problem.fixes
    assert "hidden" not in str(problem)


@pytest.mark.parametrize(
    "given", ["a", "A=1", "AWS_ACCESS_KEY_ID=a", f"{KEYS} OTHER=c", "'", f"{KEYS} AWS_SESSION_TOKEN="]
)
def test_credentials_are_all_that_a_client_needs(given: str) -> None:
    """A key and what belongs to it; and no message has what was given instead."""
    (problem,) = problems(WITH_SECRET, storage=S3, storageCredentials=given)

    assert "storageCredentials = [secret]" in str(problem)
    assert "AWS_SECRET_ACCESS_KEY=…" in str(problem)


@pytest.mark.parametrize("key", ["storageSecret", "serviceAccount"])
def test_what_is_of_the_namespace_has_to_be_there_before(key: str) -> None:
    """One that this stack makes is empty."""
    assert "createNamespace false" in only_problem(LARGE, **EXISTING, storage=S3, **{key: "training"})


def test_a_claim_outlives_its_stack(wording: Wording) -> None:
    """A namespace that this stack made would take it along."""
    found = only_problem(LARGE, **EXISTING, storage="pvc")
    assert "createNamespace false" in found
    wording("settings", found)
    storage = settings(LARGE, **OURS_NOT, storage="pvc", storageSize="20Gi").storage

    assert storage is not None
    assert storage.address == MOUNTED
    assert storage.claim is not None
    assert storage.claim.size == "20Gi"


def test_a_claim_of_many_nodes_needs_a_class_that_they_share(wording: Wording, tmp_path: Path) -> None:
    """Minikube's own is a folder of each node; on one node, or with a class of one's own, it may be had."""
    found = only_problem(LARGE, **MINIKUBE, storage="pvc")
    assert "pulumi config set minikubeNodes 1" in found.fixes
    wording("settings", found)
    one_node = tmp_path / "pods.yaml"
    one_node.write_text(f"spec: {{nodeSelector: {{{HOSTNAME}: a}}}}", encoding="utf-8")
    shared = [
        settings(LARGE, **MINIKUBE, storage="pvc", **more).storage
        for more in ({"minikubeNodes": "1"}, {"podTemplate": str(one_node)}, {"storageClass": "nfs"})
    ]

    assert [False, False, True] == [one.claim.by_many_nodes for one in shared if one and one.claim]


def test_storage_is_the_measurement_s_and_credentials_are_not() -> None:
    """Nor is how much there is room for."""
    told = [
        settings(WITH_SECRET, storage=S3, storageCredentials=KEYS).storage,
        settings(storage=S3, storageRole=ROLE).storage,
        settings(storage=S3).storage,
    ]
    assert [{"address": S3}] * 3 == [storage.identity() for storage in told if storage]
    elsewhere = settings(storage=S3, storageEndpoint="http://localhost:9000").storage
    assert elsewhere is not None
    assert "http://localhost:9000" in elsewhere.identity().values()
