"""The full story on a real Minikube cluster, from nothing to nothing. The tests build on each other, in this order."""

import json
import os
import re
import signal
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from compare.quiet import ONE_RAY_RUN
from infra.places.cluster.api import kube
from infra.places.cluster.api.ray_api import ForwardedJobs
from infra.places.cluster.manifests import monitoring, runs_dashboard
from infra.places.cluster.manifests.network import OURS
from infra.places.cluster.manifests.ray_cluster import CLUSTER_LABELS
from tests.cluster import place
from tests.cluster.shop import Shop
from tests.cluster.story import NAMESPACE, PROFILE, SMALL, STACK, TEMPLATE, ClusterProject
from tests.docs import on_a_cluster, session
from tests.docs.markdown import Command, Place
from tests.limits import LONGEST_SECONDS, wait_for
from tests.metrics.panels import Query, panels_of
from tests.metrics.prometheus import Prometheus
from tests.program.engine import ROOT
from training.launch.ray import submit
from training.launch.ray.other_jobs import is_unfinished
from training.workloads.script import source

pytestmark = pytest.mark.usefixtures("project")
ARMS = ("baseline", "native", "ray")
CONNECT = """
import socket, sys
for target in sys.argv[1:]:
    host, port = target.split(":")
    try:
        socket.create_connection((host, int(port)), 3)
        print(target, "open")
    except OSError as error:
        print(target, "closed")
"""
WHERE = """
import os, ray, socket
ray.init()
there = ray.get(ray.remote(num_cpus=0.1)(lambda: socket.gethostname()).remote())
print(f"{os.environ['GIVEN']}, on a worker: {'worker' in there}")
"""
REPORT = "    ray.train.report({name: values[-1] for name, values in history.history.items()})\n"
WITH_CHECKPOINT = """
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        model.save_weights(folder + "/weights.h5")
        kept = ray.train.Checkpoint.from_directory(folder)
        ray.train.report({name: values[-1] for name, values in history.history.items()}, checkpoint=kept)
"""
GRAFANA = "--selector=grafana_dashboard=1"
SUBMISSION = """
import sys, urllib.error, urllib.request
headers = {"Content-Type": "application/json"}
request = urllib.request.Request(sys.argv[1], b'{"entrypoint": "id"}', headers)
try:
    print(urllib.request.urlopen(request, timeout=10).status)
except urllib.error.HTTPError as error:
    print(error.code)
"""


def status_of(url: str, token: str = "") -> int:
    """The HTTP status with which an address answers this machine."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        asked = urllib.request.Request(url, headers=headers)  # noqa: S310 (the stack's own http address)
        with urllib.request.urlopen(asked, timeout=LONGEST_SECONDS) as answer:  # noqa: S310
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_a_preview_needs_no_cluster(project: ClusterProject) -> None:
    """All that is planned is shown before there is a cluster, and none is made for it."""
    steps = project.steps()
    assert steps["minikube-cluster"] == steps["ray-training-cluster"] == steps["ray-1"] == "create"
    assert PROFILE not in project.leftovers()


def test_up_brings_up_the_cluster_and_measures(project: ClusterProject) -> None:
    """From nothing to a fair comparison, without touching the user's kubeconfig or printing the token."""
    users = project.users.read_text()
    shown = project.up()
    comparison = project.comparison()
    assert all(comparison["arms"][arm]["measures"]["trainSeconds"]["median"] > 0 for arm in ARMS)
    assert comparison["ratios"]["speedup"]["median"] > 0
    # A pod's quota holds it to its CPUs, and binds it to none; and this machine has more to do than the cluster
    checks = {name: passed for name, passed in comparison["checks"].items() if name != "machineQuiet"}
    assert {"cpusDisjoint": None} == {name: passed for name, passed in checks.items() if not passed}
    assert comparison["checks"]["machineQuiet"] in {None, True}
    assert comparison["reasons"]["idleRayCpus"] == ONE_RAY_RUN  # and not that some Ray pod could not be read
    assert project.users.read_text() == users
    assert project.token() not in shown


def test_the_nodes_hold_one_ray_worker_each(project: ClusterProject) -> None:
    """Two workers on one node would share its CPUs and not need the network."""
    workers = project.objects("pods", "--selector=ray.io/node-type=worker")
    assert len({pod["spec"]["nodeName"] for pod in workers}) == len(workers) == 2


def test_no_pod_but_the_operator_has_a_token_of_the_cluster(project: ClusterProject) -> None:
    """A training pod that is taken over can't ask the API server for anything."""
    pods = {pod["metadata"]["name"]: pod["spec"] for pod in project.objects("pods")}
    with_token = [
        name for name, spec in pods.items() if any("projected" in volume for volume in spec.get("volumes", []))
    ]
    assert len(pods) >= 3 + len(ARMS)
    assert all(name.startswith("kuberay-operator") for name in with_token)


def test_all_pods_have_the_template(project: ClusterProject) -> None:
    """Ray's head and workers, and those of every run; the operator's chart decides about its labels."""
    pods = {pod["metadata"]["name"]: pod for pod in project.objects("pods")}
    training = [pod for name, pod in pods.items() if not name.startswith("kuberay-operator")]

    assert len(training) >= 3 + len(ARMS)
    for pod in training:
        assert TEMPLATE["metadata"]["labels"].items() <= pod["metadata"]["labels"].items()
        assert TEMPLATE["metadata"]["annotations"].items() <= pod["metadata"]["annotations"].items()
    for pod in pods.values():
        assert TEMPLATE["spec"]["nodeSelector"].items() <= pod["spec"]["nodeSelector"].items()
        assert TEMPLATE["spec"]["tolerations"][0] in pod["spec"]["tolerations"]


def test_the_dashboard_asks_for_the_token(project: ClusterProject) -> None:
    """From outside the cluster, through the NodePort."""
    url = f"{project.outputs()['dashboardUrl']}/api/jobs/"
    assert status_of(url) == 401
    assert status_of(url, "wrong") in {401, 403}
    assert status_of(url, project.token()) == 200


def test_a_script_from_outside_runs_on_the_ray_cluster(
    project: ClusterProject, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sent through the API server, past policies that let no other pod near; and no update goes on beside it."""
    (tmp_path / "where.py").write_text(WHERE)
    jobs = ForwardedJobs(kube.connect(str(project.kubeconfig)), NAMESPACE)
    sent = jobs.upload(source.packed_folder(tmp_path))
    jobs.submit("where-1", ["python", "where.py"], {"GIVEN": "two words"}, working_dir=sent)
    submit.follow(jobs, "where-1")
    assert "two words, on a worker: True" in capsys.readouterr().out  # not prose: of this test

    jobs.submit("sleep-1", ["sleep", "600"], {})
    refused = project.up(ok=False)
    assert f"./rwi jobs stop sleep-1 --stack {STACK}" in refused
    assert "nothing was changed" in refused
    assert is_unfinished(jobs.job("sleep-1"))
    jobs.stop("sleep-1")
    wait_for(lambda: not is_unfinished(jobs.job("sleep-1")), "the job has ended")
    assert "unchanged" in project.up()


def test_other_pods_reach_no_port_of_ray(project: ClusterProject) -> None:
    """From another namespace, and from a pod of this one that is not the submitter."""
    heads = project.objects("pods", "--selector=ray.io/node-type=head")
    workers = project.objects("pods", "--selector=ray.io/node-type=worker")
    image = heads[0]["spec"]["containers"][0]["image"]
    targets = [f"{heads[0]['status']['podIP']}:{port}" for port in (8265, 6379, 10001)]
    targets += [f"{workers[0]['status']['podIP']}:{port}" for port in (10002, 10003)]
    for namespace in ("default", NAMESPACE):
        found = run_pod(project, namespace, image, ["python", "-c", CONNECT, *targets])
        assert found.count("closed") == len(targets), found
    ours = {**OURS, **CLUSTER_LABELS}
    one_of_the_cluster = run_pod(project, NAMESPACE, image, ["python", "-c", CONNECT, *targets[:3]], ours)
    assert one_of_the_cluster.count("open") == 3, one_of_the_cluster


def test_a_job_without_the_token_is_refused(project: ClusterProject) -> None:
    """Though the network lets a submitter through."""
    head = project.objects("pods", "--selector=ray.io/node-type=head")[0]
    address = f"http://{head['status']['podIP']}:8265/api/jobs/"
    image = head["spec"]["containers"][0]["image"]
    labels = {**OURS, "app.kubernetes.io/component": "ray-submitter"}
    assert run_pod(project, NAMESPACE, image, ["python", "-c", SUBMISSION, address], labels).strip() == "401"


def test_every_worker_says_which_node_it_was_on(project: ClusterProject) -> None:
    """By the node's name and not the pod's, with its CPU model: the verdict compares them."""
    nodes = {node["metadata"]["name"] for node in json.loads(project.kubectl("get", "nodes", "-o=json"))["items"]}
    runs = project.results()
    placed = {arm: {worker["node"] for worker in runs[f"{arm}-1"]["workers"]} for arm in ARMS}

    assert placed["native"] == placed["ray"] == nodes
    assert placed["baseline"] <= nodes
    assert all(worker["cpuModel"] and worker["pod"] for run in runs.values() for worker in run["workers"])


def test_every_command_of_the_documents_works_here(project: ClusterProject) -> None:
    """One after another in a shell, with this stack's name; by none the user's own kubeconfig is touched."""
    job, *_ = project.kubectl("get", "jobs", f"--namespace={NAMESPACE}", "--output=name").split()
    users = project.users.read_text()
    ended = session.run(project, on_a_cluster.run_by_the_story(STACK, PROFILE, job))
    assert 0 == ended.status, f"{ended.place} failed:\n{ended.output}"
    assert users == project.users.read_text()


def test_a_namespace_of_others_keeps_its_network(project: ClusterProject) -> None:
    """A stack of target `kubernetes` in it, brought up and destroyed: what runs there answers before, during, after."""
    head = project.objects("pods", "--selector=ray.io/node-type=head")[0]
    image = head["spec"]["containers"][0]["image"]
    with Shop(project, image) as shop:
        shop.wait_for_answers()
        with project.another_stack("kubernetes", namespace=shop.NAME, createNamespace="false", image=image):
            project.up()
            shop.wait_for_answers()
            assert project.comparison()["ratios"]["speedup"] is not None
            (head,) = project.objects("pods", "--selector=ray.io/node-type=head", namespace=shop.NAME)
            target = f"{head['status']['podIP']}:8265"
            assert "closed" in run_pod(project, shop.NAME, image, ["python", "-c", CONNECT, target])
        shop.wait_for_answers()
        assert [] == shop.silences()
        assert {"shop", "customer"} == {pod["metadata"]["labels"]["app"] for pod in shop.pods()}
        assert [] == project.objects("networkpolicies", namespace=shop.NAME)


def test_neither_token_nor_keys_are_in_the_state(project: ClusterProject) -> None:
    """The state holds the path of the kubeconfig, and the command that prints the token."""
    state = json.dumps(project.state())
    keys = [
        line.split(": ")[1]
        for line in project.kubeconfig.read_text().splitlines()
        if "client-key" in line or "client-certificate" in line
    ]
    assert keys
    assert project.token() not in state
    assert not any(key in state for key in keys if not key.startswith("/"))


def test_a_second_up_changes_nothing(project: ClusterProject) -> None:
    """Neither in the preview nor when carried out."""
    assert project.steps() == {}
    assert "unchanged" in project.up()


def test_a_stopped_cluster_is_started_by_the_line_that_is_printed(project: ClusterProject) -> None:
    """Which keeps to the stack's own kubeconfig, as does the documents' line that stops it."""
    users = project.users.read_text()
    project.shell(f"KUBECONFIG=.state/kubeconfig/{STACK} minikube --profile={PROFILE} stop")
    (line,) = re.findall("KUBECONFIG=.* minikube .*", project.up(ok=False))
    project.shell(line)
    assert users == project.users.read_text()
    assert "unchanged" in project.up()


def test_three_workers_are_made_in_place_and_measured(project: ClusterProject) -> None:
    """The RayCluster grows, only what depends on the number of workers is made again, and Ctrl-C ends one update."""
    uid = project.objects("rayclusters")[0]["metadata"]["uid"]
    project.configure(workers="3")
    steps = project.steps()
    assert steps.pop("ray-training-cluster") == "update"
    assert steps.pop("ray-ready") == "replace"  # it waits for the third
    assert set(steps) == {f"{arm}-1{part}" for arm in (*ARMS, "wide") for part in ("", "-result")}
    with project.running_up() as started:
        wait_for(lambda: started.poll() is not None or active_jobs(project), "a run goes on")
        assert started.poll() is None
        os.killpg(started.pid, signal.SIGINT)
        assert 0 != started.wait(LONGEST_SECONDS)
    project.up()
    assert [] == active_jobs(project)
    assert project.objects("rayclusters")[0]["metadata"]["uid"] == uid
    assert len(project.objects("pods", "--selector=ray.io/node-type=worker")) == 3
    assert project.comparison()["recipe"]["workers"] == 3


def test_a_cluster_that_is_down_leaves_preview_and_outputs(project: ClusterProject) -> None:
    """As on a machine that previews a pull request."""
    hidden = project.kubeconfig.with_suffix(".hidden")
    project.kubeconfig.rename(hidden)
    try:
        assert project.steps() == {}
        assert project.comparison()["recipe"]["workers"] == 3
    finally:
        hidden.rename(project.kubeconfig)


def test_ray_has_its_workers_for_its_runs_alone(project: ClusterProject) -> None:
    """Twice from none to two and back; what a Prometheus of the stack's own has read of them and of the arms stays."""
    fewer = {"wideArm": "false", "nativeArm": "false", "repeats": "2"}
    longer = {"epochs": "12"}  # Prometheus finds a pod when it is ready, and reads it every 15 seconds
    project.configure(workers="2", rayWorkers="per-run", **fewer, **longer, **place.monitoring())
    project.up()

    (ray,) = project.objects("rayclusters")
    assert [0] == [group["replicas"] for group in ray["spec"]["workerGroupSpecs"]]
    assert [] == project.objects("pods", "--selector=ray.io/node-type=worker")
    runs = project.results()
    assert {f"{arm}-{number}" for arm in ("baseline", "ray") for number in (1, 2)} == set(runs)
    for name in ("ray-1", "ray-2"):
        assert 2 == len({worker["node"] for worker in runs[name]["workers"]})
        seconds = runs[name]["seconds"]
        assert 0 < seconds["scaleUp"] < seconds["wall"]
    assert "unchanged" in project.up()


def test_a_prometheus_has_read_every_pod_of_ray(project: ClusterProject) -> None:
    """The head's three ports now, the workers' in the past; and how many pods each arm had."""
    with project.prometheus() as prometheus:
        wait_for(lambda: len(ports(prometheus, "up == 1")) == len(ports(prometheus, "up")) == 4, "every port is read")
        assert ["prometheus", "ray", "ray-head", "ray-head"] == ports(prometheus, "up == 1")
        most = {
            job: prometheus.now(f"max_over_time(({expression})[1h:5s])")[0]["value"][1]
            for job, expression in {
                "up": 'count(up{job="ray"} == 1)',
                "baseline": 'sum(prometheus_sd_discovered_targets{config="arm-baseline"})',
                "ray": 'sum(prometheus_sd_discovered_targets{config="arm-ray"})',
            }.items()
        }
        panels = panels_of(runs_dashboard.dashboard(arms=True))
        empty = [panel.title for panel in panels if not any(past(prometheus, query) for query in panel.queries)]
    assert {"up": "3", "baseline": "1", "ray": "1"} == most
    assert [] == empty
    names = {found["metadata"]["name"].rpartition("-")[0] for found in project.objects("configmaps", GRAFANA)}
    assert {"grafana-ray-default", "grafana-ray-train", "grafana-arms"} == names


def test_no_other_pod_reads_rays_metrics(project: ClusterProject) -> None:
    """Nor Prometheus, whose port is open to the namespace of those who read it."""
    (head,) = project.objects("pods", "--selector=ray.io/node-type=head")
    (prometheus,) = project.objects("pods", "--selector=app.kubernetes.io/component=prometheus")
    image, address = head["spec"]["containers"][0]["image"], head["status"]["podIP"]
    targets = [*(f"{address}:{port}" for port in (8080, 44217, 44227)), f"{prometheus['status']['podIP']}:9090"]
    for namespace in ("default", NAMESPACE):
        found = run_pod(project, namespace, image, ["python", "-c", CONNECT, *targets])
        assert found.count("closed") == len(targets), found
    found = run_pod(project, NAMESPACE, image, ["python", "-c", CONNECT, *targets[:3]], monitoring.LABELS)
    assert found.count("open") == 3, found


def test_rays_autoscaler_gives_a_living_stack_its_workers(project: ClusterProject) -> None:
    """From none to two and back, where a patch of ours did so before; the head is all that is idle meanwhile.

    Of three repeats: in two, of two arms, one Ray run follows the other at once.
    """
    project.configure(
        rayWorkers="autoscaled", idleSeconds="20", headCpus="0.5", epochs="2", repeats="3"
    )  # 0.5 for the autoscaler
    assert "replace" == project.steps()["ray-training-cluster"]
    project.up()

    assert [] == project.objects("pods", "--selector=ray.io/node-type=worker")
    runs = project.results()
    assert {f"{arm}-{number}" for arm in ("baseline", "ray") for number in (1, 2, 3)} == set(runs)
    for name in ("ray-1", "ray-2", "ray-3"):
        assert 2 == len({worker["node"] for worker in runs[name]["workers"]})
    assert project.comparison()["idleRayCpus"]["median"] > 0
    assert "unchanged" in project.up()


def test_without_all_of_it_the_pods_of_before_are_back(project: ClusterProject) -> None:
    """Workers that stay, and nothing that reads."""
    for key in ("rayWorkers", "idleSeconds", "nativeArm", *place.monitoring()):
        project.pulumi("config", "rm", key)
    project.configure(repeats="1", headCpus="0.75")
    project.up()
    assert 2 == len(project.objects("pods", "--selector=ray.io/node-type=worker"))
    assert [] == project.objects("configmaps", GRAFANA)
    assert [] == project.objects("pods", "--selector=app.kubernetes.io/component=prometheus")


def test_a_script_of_one_s_own_is_measured_in_pods(project: ClusterProject, tmp_path: Path) -> None:
    """In every arm, with a checkpoint that no pod can read of another; an edit of it keeps the RayCluster.

    What the image lacks is said with the key that brings it.
    """
    script = tmp_path / "train.py"
    text = (ROOT / "examples" / "keras_ray.py").read_text()
    assert REPORT in text
    script.write_text(text.replace(REPORT, f"    import absent_module\n{REPORT}"))
    for key in ("model", "dataset", "trainImages"):
        project.pulumi("config", "rm", key)
    arguments = "--epochs {epochs} --num-workers {workers} --storage {storage}"
    project.configure(workload="script", script=str(script), scriptArguments=arguments, workers="2", wideArm="false")
    assert "pulumi config set requirements" in project.up(ok=False)

    script.write_text(text.replace(REPORT, WITH_CHECKPOINT))
    project.up()
    comparison, runs = project.comparison(), project.results()
    assert set(ARMS) == set(comparison["arms"])
    assert comparison["checks"]["weightsEqual"] is True
    assert runs["native-1"]["weights"] == runs["ray-1"]["weights"]
    assert {worker["node"] for worker in runs["ray-1"]["workers"]} == {w["node"] for w in runs["native-1"]["workers"]}

    with script.open("a") as file:
        file.write("# edited\n")
    steps = project.steps()
    assert {f"{arm}-1" for arm in ARMS} <= set(steps)
    assert not {"ray-training-cluster", "image-build"} & set(steps)


def test_a_script_of_one_process_is_measured_as_ranks_in_pods(project: ClusterProject, tmp_path: Path) -> None:
    """Unchanged, a pod a rank in `native`, in Ray's workers in `ray`: proved to be the work of one process."""
    script = tmp_path / "plain.py"
    script.write_text((ROOT / "tests/script/plain_keras/equal/arrays.py").read_text())
    for key in ("scriptArguments", "epochs", "model", "dataset", "trainImages"):
        project.pulumi("config", "rm", key)
    memory = {"workerMemory": "2Gi", "headMemory": "3Gi"}  # a proof holds TensorFlow several times
    project.configure(workload="script", script=str(script), workers="2", wideArm="false", **memory)
    project.up()
    comparison, runs = project.comparison(), project.results()
    assert set(ARMS) <= set(comparison["arms"])
    assert set(ARMS[1:]) == set(comparison["distribution"]["arms"])
    assert runs["native-1"]["weights"] == runs["ray-1"]["weights"]
    assert all(2 == len({worker["pod"] for worker in runs[f"{arm}-1"]["workers"]}) for arm in ARMS[1:])
    project.configure(workerMemory=SMALL["workerMemory"])
    project.pulumi("config", "rm", "headMemory")


def test_a_search_is_measured_in_pods(project: ClusterProject) -> None:
    """Optuna's processes are pods that meet at the first, Tune's trials are in Ray's workers: the same trials, with
    equal weights."""
    project.configure(
        workload="search", script=str(ROOT / "examples" / "keras_spirals.py"), metric="val_accuracy", searchTrials="2",
        epochs="2",
        scriptArguments="--epochs {epochs} --seed {seed} --lr {lr}", searchSpace='{"lr": {"log": [0.001, 0.1]}}',
    )  # fmt: skip
    project.up()
    comparison, runs = project.comparison(), project.results()
    assert set(ARMS) == set(comparison["arms"])
    assert comparison["checks"]["sameWork"] is True
    (weights,) = {run["did"]["weights"] for run in runs.values()}
    assert len(set(weights.split())) == 2
    made = {arm: {worker["pod"]: worker["amount"] for worker in runs[f"{arm}-1"]["workers"]} for arm in ARMS}
    assert {"baseline": 1, "native": 2, "ray": 2} == {arm: len(pods) for arm, pods in made.items()}
    assert all(sum(pods.values()) == 2 for pods in made.values())


def test_a_worker_without_a_node_is_said_while_it_is_waited_for(project: ClusterProject) -> None:
    """The scheduler's reason; the update goes on as soon as there is a node."""
    nodes = [node["metadata"]["name"] for node in project.objects("nodes")]
    project.configure(workers="3", searchTrials="3")
    for node in nodes:
        project.kubectl("cordon", node)
    with project.running_up() as started:
        wait_for(lambda: started.poll() is not None or "ray-ready: a pod waits: 0/" in project.shown())
        assert started.poll() is None
        for node in nodes:
            project.kubectl("uncordon", node)
        assert 0 == started.wait(LONGEST_SECONDS)


def test_a_quota_is_said_before_and_a_refused_run_ends(project: ClusterProject) -> None:
    """A preview warns. With a quota that Ray's pods have used up, a run ends with its reason, and is made later."""
    running = [pod for pod in project.objects("pods") if pod["status"]["phase"] == "Running"]
    quota = ("quota", "small", f"--namespace={NAMESPACE}")
    project.kubectl("create", *quota, f"--hard=pods={len(running)}")
    try:
        assert "the quota small" in project.pulumi("preview")
        project.configure(allowOversubscription="true", repeats="2")
        assert "exceeded quota: small" in project.up(ok=False)
    finally:
        project.kubectl("delete", *quota)
    project.up()


def test_a_namespace_that_somebody_deleted_is_named(project: ClusterProject) -> None:
    """With the line that goes on; without it Pulumi would look for what is gone."""
    project.kubectl("delete", "namespace", NAMESPACE)
    said = project.up(ok=False)
    assert f"namespace {NAMESPACE}" in said
    assert "pulumi refresh --yes && pulumi up" in said
    project.pulumi("refresh", "--yes")
    assert "create" == project.steps()["network-namespace"]


def test_destroy_leaves_nothing(project: ClusterProject) -> None:
    """No container, volume, network, profile, or key; the image that others may use is named with its line."""
    destroyed = session.run(project, [Command(Place("the story", 0), f"./rwi destroy --stack {STACK}")])
    assert 0 == destroyed.status, destroyed.output
    assert "docker image rm ray-worth-it/training:" in destroyed.output
    assert PROFILE not in project.leftovers()
    assert project.state().get("resources") is None or not project.ids()
    assert not project.kubeconfig.exists()


def active_jobs(project: ClusterProject) -> list[str]:
    """The names of Jobs whose pods run."""
    return [job["metadata"]["name"] for job in project.objects("jobs") if job["status"].get("active")]


def ports(prometheus: Prometheus, expression: str) -> list[str]:
    """The job of each port that an expression is true of."""
    return sorted(one["metric"]["job"] for one in prometheus.now(expression))


def past(prometheus: Prometheus, query: Query) -> list[dict[str, Any]]:
    """The series of the last hour."""
    return prometheus.series(query.expression, seconds=3600)


def run_pod(
    project: ClusterProject, namespace: str, image: str, command: list[str], labels: dict[str, str] | None = None
) -> str:
    """The output of a pod that is gone afterwards."""
    spec = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "visitor", "namespace": namespace, "labels": labels or {}},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "containers": [
                {
                    "name": "visitor",
                    "image": image,
                    "command": command,
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                        "runAsNonRoot": True,
                        "runAsUser": 1000,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                }
            ],
        },
    }
    manifest = project.folder / "visitor.json"
    manifest.write_text(json.dumps(spec))
    project.kubectl("apply", f"--filename={manifest}")
    try:
        where = f"--namespace={namespace}"
        project.kubectl("wait", "pod/visitor", where, "--for=jsonpath={.status.phase}=Succeeded", "--timeout=90s")
        return project.kubectl("logs", "pod/visitor", where)
    finally:
        project.kubectl("delete", "pod/visitor", f"--namespace={namespace}", "--grace-period=0", "--wait=true")
