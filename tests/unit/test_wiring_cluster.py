"""What the real program declares in a cluster: whose things it touches there."""

from typing import Any

import pytest

from infra.places.cluster.manifests.pod_parts import INSTANCE_LABEL, RUN_LABEL, SERVICE_ACCOUNT, STACK_ANNOTATION
from tests.stacks import ON_KUBERNETES
from tests.unit.program_recorder import LEFT_JOB, LEFT_SECRET
from tests.unit.test_wiring import record

AUTOSCALED = ("rayWorkers=autoscaled", "idleSeconds=30")
OWN_CLUSTERS = [stack for stack in ON_KUBERNETES if stack != "kubernetes"]
TAKE_OVER = "pulumi.com/patchForce"


def annotated(stack: str) -> dict[str, bool]:
    """Each Kubernetes object of a stack, and whether it takes over one that exists."""
    objects = record(stack)["objects"]
    return {name: TAKE_OVER in one["metadata"].get("annotations", {}) for name, one in objects.items()}


def test_a_cluster_is_asked_before_the_first_resource_is_declared() -> None:
    """Not by a component while the graph is being made; and one that is not ours is only read."""
    existing, own = record("kubernetes"), record("minikube")

    assert {"GET"} == {line.split()[0] for line in existing["asked"]}
    assert any(line.endswith("/nodes") for line in existing["asked"])
    # Later only what watches the runs asks, from a thread that changes nothing here.
    later = [line for recorded in (existing, own) for line in recorded["asked"][recorded["asked_before"] :]]
    assert {
        line for line in later if not line.startswith("GET") or not line.endswith(("/jobs", "/pods", "/events"))
    } == set()


def test_what_a_killed_update_left_in_our_cluster_is_cleared() -> None:
    """A run that goes on is ended, and a Helm release that is pending is marked, before anything is made."""
    changes = [line.rpartition("/")[2] for line in record("minikube")["asked"] if line.startswith("PATCH")]

    assert [LEFT_JOB, LEFT_SECRET] == changes


def test_destroying_a_stack_names_the_images_that_stay() -> None:
    """By the resource that built the image; whatever comes of it, the stack goes."""
    assert record("minikube")["inputs"]["image-build"]["delete"].endswith("remains || true")


def test_in_a_cluster_that_exists_nothing_is_taken_over() -> None:
    """No object, no CRD, no Helm release of another is made ours; the update fails instead."""
    inputs = record("kubernetes")["inputs"]
    objects = annotated("kubernetes")

    assert [] == [name for name, taken_over in objects.items() if taken_over]
    assert len(objects) > 10
    assert inputs["operator-crds"]["takeOver"] is False
    assert "replace" not in inputs["operator-release"]
    assert inputs["cluster"].get("upsertExistingObjects") in (None, "false")


@pytest.mark.parametrize("stack", OWN_CLUSTERS)
def test_in_a_cluster_of_our_own_an_interrupted_update_is_continued(stack: str) -> None:
    """What it left has the names of what is made now."""
    inputs = record(stack)["inputs"]

    assert [] == [name for name, taken_over in annotated(stack).items() if not taken_over]
    assert inputs["operator-crds"]["takeOver"] is True
    assert inputs["operator-release"]["replace"] is True


def test_a_namespace_of_others_is_not_declared_and_policies_select_our_pods() -> None:
    """`createNamespace false`: a policy of ours that selects everybody's pods would cut theirs off."""
    objects: dict[str, Any] = record("kubernetes", "createNamespace=false", "namespace=shop")["objects"]
    policies = {name: one for name, one in objects.items() if one["kind"] == "NetworkPolicy"}
    selectors = {name: one["spec"]["podSelector"].get("matchLabels", {}) for name, one in policies.items()}

    assert "Namespace" not in {one["kind"] for one in objects.values()}
    assert {"shop"} == {one["metadata"]["namespace"] for one in policies.values()}
    assert "NetworkPolicy default-deny" in policies
    assert [] == [
        name
        for name, labels in selectors.items()
        if "ray-worth-it" not in labels.get("app.kubernetes.io/part-of", "")
        and "ray-worth-it" not in labels.get("app.kubernetes.io/instance", "")
    ]
    assert all(one["metadata"]["name"].startswith("ray-worth-it-") for one in policies.values())


RECOMMENDED = {f"app.kubernetes.io/{name}" for name in ("name", "instance", "part-of", "component", "managed-by")}
OF_SCRIPT = (
    *("workload=script", "script=examples/torch_ddp.py", "secretEnvironment=COLOUR=crimson"),
    *("image=registry.example.com/ml/train:7", "monitoring=prometheus"),
)
WITH_ALL: dict[str, tuple[str, ...]] = {**dict.fromkeys(OWN_CLUSTERS, ()), "kubernetes": OF_SCRIPT}


@pytest.mark.parametrize("stack", WITH_ALL)
def test_every_object_and_pod_says_what_it_belongs_to(stack: str) -> None:
    """By Kubernetes' recommended labels: the stack as the instance. And a run's also whose run they are.

    By its annotation a stack knows a run that it left behind from one of another.
    """
    recorded = record(stack, *WITH_ALL[stack])
    objects, name_of_stack = recorded["objects"], recorded["stack"]
    templates = {name: one["spec"]["template"] for name, one in objects.items() if "template" in one.get("spec", {})}
    of_ray = objects["RayCluster ray-training-cluster"]["spec"]
    templates |= {"head": of_ray["headGroupSpec"]["template"], "worker": of_ray["workerGroupSpecs"][0]["template"]}
    labels = {name: one["metadata"]["labels"] for name, one in {**objects, **templates}.items()}

    assert {} == {name: RECOMMENDED - each.keys() for name, each in labels.items() if RECOMMENDED - each.keys()}
    assert {name_of_stack} == {each[INSTANCE_LABEL] for each in labels.values()}
    runs = [name for name in objects if name.startswith("Job ")]
    assert {"Job baseline-1", "Job ray-1"} <= set(runs)
    for name in runs:
        run = name.removeprefix("Job ")
        assert (run, run) == (labels[name][RUN_LABEL], templates[name]["metadata"]["labels"][RUN_LABEL])
        assert name_of_stack == objects[name]["metadata"]["annotations"][STACK_ANNOTATION]


def test_what_selects_pods_for_ever_is_as_it_was() -> None:
    """A Deployment's selector can't be changed: with another one an update of a stack that lives would fail."""
    (deployment,) = [
        one for one in record("kubernetes", *WITH_ALL["kubernetes"])["objects"].values() if one["kind"] == "Deployment"
    ]
    selector = {"app.kubernetes.io/part-of": "ray-worth-it", "app.kubernetes.io/component": "prometheus"}

    assert {"matchLabels": selector} == deployment["spec"]["selector"]


@pytest.mark.parametrize("values", [WITH_ALL["kubernetes"], ("monitoring=existing",)], ids=["its own", "existing"])
def test_runs_begin_when_a_prometheus_reads_everything(values: tuple[str, ...]) -> None:
    """A first run that is not read would differ from the others."""
    recorded = record("kubernetes", *values)
    mine = {urn.rpartition("::")[2] for urn in recorded["urns"] if "cluster:Monitoring$" in urn}
    before_first: set[str] = set()
    pending = ["baseline-1"]
    while pending:
        after = set(recorded["after"].get(pending.pop(), [])) - before_first
        before_first |= after
        pending += after

    assert mine
    assert mine <= before_first


@pytest.mark.parametrize("stack", [*OWN_CLUSTERS, "kubernetes"])
def test_pods_have_an_account_of_their_own_before_they_are_there(stack: str) -> None:
    """Without rights or a token; of another name no pod would be let in."""
    recorded = record(stack)
    account = recorded["objects"]["ServiceAccount pods"]

    assert (SERVICE_ACCOUNT, False) == (account["metadata"]["name"], account["automountServiceAccountToken"])
    assert "pods" in recorded["after"]["ray-training-cluster"]
    assert [SERVICE_ACCOUNT] * 2 == accounts(recorded)


def accounts(recorded: Any) -> list[str | None]:
    """Of Ray's head, and of its workers."""
    of_ray = recorded["inputs"]["ray-training-cluster"]["spec"]
    groups = (of_ray["headGroupSpec"], *of_ray["workerGroupSpecs"])
    return [group["template"]["spec"].get("serviceAccountName") for group in groups]


def test_a_head_with_ray_s_autoscaler_has_the_account_that_kuberay_makes() -> None:
    """That one has rights, which no pod that trains is to have."""
    assert [None, SERVICE_ACCOUNT] == accounts(record("kubernetes", *AUTOSCALED))


def test_the_operator_reaches_minikube_s_api_server_alone() -> None:
    """Its address is known once the cluster is there."""
    egress = record("minikube")["inputs"]["operator"]["spec"]["egress"]
    opened = [(peer["ipBlock"]["cidr"], rule["ports"][0]["port"]) for rule in egress for peer in rule.get("to", ())
              if "ipBlock" in peer and rule["ports"][0]["port"] != 53]  # fmt: skip

    assert [("192.168.49.2/32", 8443), ("10.96.0.1/32", 443)] == opened


def test_in_an_image_of_others_the_modules_are_there_before_what_needs_them() -> None:
    """After the image was asked, before Ray's pods; the script's files stay an object of their own."""
    recorded = record("kubernetes", *OF_SCRIPT)
    plain = record("kubernetes")

    assert ["image-check"] == [name for name in recorded["after"]["modules-packed"] if name == "image-check"]
    assert "modules-packed" in recorded["after"]["ray-training-cluster"]
    assert {"modules-packed", "script-files"} == recorded["inputs"].keys() & {"modules-packed", "script-files"}
    assert recorded["inputs"]["modules-packed"]["immutable"]
    assert "modules-packed" not in plain["inputs"]


@pytest.mark.parametrize("values", [(), OF_SCRIPT], ids=["a workload of ours", "a script"])
def test_everything_in_a_cluster_is_deleted_before_another_takes_its_place(values: tuple[str, ...]) -> None:
    """In another namespace, too: a node port and a release would meet the old one, and after an update that failed a
    user who takes the edit back would."""
    recorded = record("kubernetes", *values)
    objects = {"operator-release", *(kind_and_name.split()[1] for kind_and_name in recorded["objects"])}

    assert {"network-namespace", "ray-training-cluster", "ray-dashboard", "baseline-1"} <= objects
    assert objects <= set(recorded["deleted_first"])
    immutable = {name for name, inputs in recorded["inputs"].items() if inputs.get("immutable")}
    of_script = {"modules-packed", "script-files", "script-secret", "arms-dashboard", "prometheus-config"}
    assert immutable == (of_script if values else set())


@pytest.mark.parametrize(("stack", "kind"), [("minikube", "NodePort"), ("kubernetes", "ClusterIP")])
def test_only_a_cluster_of_our_own_has_a_port_at_its_nodes(stack: str, kind: str) -> None:
    """The dashboard's; in a cluster that others use, too, they would reach it there."""
    services = {name: one["spec"] for name, one in record(stack)["objects"].items() if one["kind"] == "Service"}
    opened = {name: spec["type"] for name, spec in services.items() if spec.get("type", "ClusterIP") != "ClusterIP"}

    assert kind == services["Service ray-dashboard"]["type"]
    assert opened.keys() <= {"Service ray-dashboard"}


def test_the_operator_is_uninstalled_before_its_namespace_is_deleted() -> None:
    """Helm finds no release in a namespace that is gone; one that somebody else made is not read from."""
    created, existing = record("minikube"), record("kubernetes", "createNamespace=false", "namespace=shop")

    assert ["network-namespace"] == created["read_from"]["operator-release.namespace"]
    assert not existing["read_from"].get("operator-release.namespace")


SEARCH = (
    "workload=search", "script=examples/keras_spirals.py", "scriptArguments=--epochs {epochs} --lr {lr}",
    'searchSpace={"lr": {"log": [1e-5, 0.1]}}', "metric=val_accuracy",
)  # fmt: skip


def test_processes_of_a_search_reach_each_other_at_two_ports_alone() -> None:
    """The study of the first one, and where it takes the records: a trial talks to nobody."""
    policy = record("minikube", *SEARCH)["objects"]["NetworkPolicy native-workers"]["spec"]

    for rules in (policy["ingress"], policy["egress"]):
        assert [2222, 2223] == [port["port"] for rule in rules for port in rule["ports"]]


def test_a_search_has_the_pods_of_a_script() -> None:
    """A run of an arm is a Job as of any workload; that of Optuna's processes has a pod for each."""
    objects = record("minikube", *SEARCH)["objects"]
    jobs = {name.partition(" ")[2]: one["spec"] for name, one in objects.items() if one["kind"] == "Job"}

    native = next(spec for name, spec in jobs.items() if name.startswith("native"))
    assert (2, 2, "Indexed") == (native["completions"], native["parallelism"], native["completionMode"])
    assert {"baseline", "native", "ray"} <= {name.partition("-")[0] for name in jobs}
    mounts = [mount["name"] for mount in native["template"]["spec"]["containers"][0]["volumeMounts"]]
    assert "files" in mounts


def test_a_preview_shows_what_differs_of_a_result_and_no_uid_of_a_dry_run() -> None:
    """Its recipe is a map, of which a line is shown for each change; its measurement changes with every repetition."""
    recorded = record("minikube")
    results = {name: given for name, given in recorded["inputs"].items() if name.endswith("-result")}

    assert {"baseline-1-result", "ray-1-result"} <= results.keys()
    assert {f"{name}.uid" for name in results} == set(recorded["hidden"])
    assert {dict} == {type(given["recipe"]) for given in results.values()}
    assert 1 == len({given["measurement"] for given in results.values()})


def test_workers_of_a_ray_run_are_asked_for_before_it_and_taken_away_after_it() -> None:
    """In its turn, by resources that `destroy` calls nothing of; and nothing is taken over for it."""
    recorded = record("kubernetes", "rayWorkers=per-run")
    after, inputs = recorded["after"], recorded["inputs"]
    runs = sorted(name for name in inputs if name.startswith("ray-") and name.endswith("-workers"))

    assert runs
    assert {*runs, *(f"{name}-end" for name in runs)} <= set(recorded["retained"])
    for workers in runs:
        run = workers.removesuffix("-workers")
        assert workers in after[run]
        assert {run, workers} == set(after[f"{workers}-end"])
        assert "0" == str(inputs[f"{workers}-end"]["workers"]).removesuffix(".0")
        assert workers in recorded["read_from"][f"{run}.spec"]
    waiting = [name for name, waited in after.items() if any(f"{workers}-end" in waited for workers in runs)]
    assert "destroy-check" in waiting
    assert len(runs) == len(waiting)
    assert [] == [name for name, one in recorded["objects"].items() if TAKE_OVER in str(one["metadata"])]


def test_a_run_after_one_of_ray_waits_for_ray_s_autoscaler() -> None:
    """Nobody asks for workers before a Ray run; a resource after its Job waits until they are gone."""
    recorded = record("kubernetes", *AUTOSCALED)
    after, inputs = recorded["after"], recorded["inputs"]
    ends = sorted(name for name in inputs if name.endswith("-workers-end"))

    assert ends
    assert not [name for name in inputs if name.startswith("ray-") and name.endswith("-workers")]
    assert set(ends) <= set(recorded["retained"])
    for end in ends:
        run = end.removesuffix("-workers-end")
        assert [run] == after[end]
        assert "30" == str(inputs[end]["idleSeconds"]).removesuffix(".0")
    waiting = [name for name, waited in after.items() if set(ends) & set(waited)]
    assert len(ends) == len(waiting)
    assert [name for name in recorded["objects"] if name.endswith("autoscaler")]


ROLE = "storageRole=arn:aws:iam::123456789012:role/training"
SERVER = "storageEndpoint=http://minio.store.svc:9000"
HERE = ("workload=script", "script=examples/keras_tf_config.py", "secretEnvironment=COLOUR=crimson")
KEYS = ("storage=s3://bucket/x", "storageCredentials=AWS_ACCESS_KEY_ID=a AWS_SECRET_ACCESS_KEY=b")


def test_a_claim_is_kept_and_tried_before_ray_is_there() -> None:
    """`destroy` deletes no storage."""
    recorded = record("minikube", "storage=pvc", "minikubeNodes=1", "minikubeCpus=16", "minikubeMemory=32Gi")

    assert {"claim", "storage-probe"} <= set(recorded["retained"])
    assert "claim" in recorded["after"]["storage-probe"]
    assert "storage-probe" in recorded["after"]["operator-release"]
    assert {"size": "10Gi", "byManyNodes": False}.items() <= recorded["inputs"]["claim"].items()
    assert not [name for name in recorded["objects"] if "credentials" in name or name == "NetworkPolicy storage"]


def test_a_role_is_assumed_for_each_run_and_for_the_probe() -> None:
    """After the run before, so that each has its whole time; no input has what comes of it.

    What the probe was let in with goes with the stack.
    """
    recorded = record("minikube", "storage=s3://bucket/x", ROLE, SERVER)

    assert "baseline-1-credentials" in recorded["after"]["baseline-1"]
    assert "baseline-1-result" in recorded["after"]["wide-1-credentials"]
    assert "arn:aws:iam::123456789012:role/training" == recorded["inputs"]["storage-probe"]["role"]
    assert "storage-probe" not in recorded["retained"]
    given = recorded["inputs"]["baseline-1-credentials"]
    assert {"__provider", "kubeconfig", "name", "namespace", "role", "run", "stack", "timeoutMinutes"} == set(given)
    assert "NetworkPolicy storage" in recorded["objects"]


@pytest.mark.parametrize(
    ("given", "secrets"),
    [
        (("local", *HERE), {"ray-1.secretEnvironment"}),
        (("local", *KEYS, "allowOpenPorts=true", "--preview"), {"ray-1.storageCredentials"}),
        (("ray", *HERE, "rayToken=secret"), {"ray-1.secretEnvironment", "ray-1.token"}),
        (("minikube", *KEYS, SERVER), {"ray-worth-it-storage.stringData"}),
    ],
    ids=["script here", "storage here", "ray", "storage in pods"],
)
def test_a_secret_is_one_in_the_state(given: tuple[str, ...], secrets: set[str]) -> None:
    """Of each run, and of the Secret that pods have: an input in clear would be kept in clear."""
    recorded = record(*given)

    assert secrets <= set(recorded["secrets"]), recorded["secrets"]
