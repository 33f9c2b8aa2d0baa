"""GPUs of pods: who has them, and who stays off the nodes that have some."""

from typing import Any

from infra.places.cluster.api.nodes import usable
from infra.places.cluster.manifests import jobs, operator, ray_cluster
from infra.places.cluster.manifests.gpus import kept_off
from infra.places.cluster.manifests.pod_parts import DISK
from infra.places.cluster.manifests.pods import Pods, pods_of
from infra.settings.pod_template import REQUIRED
from infra.settings.rules import PodTemplate
from policy.pod_security import violations
from tests.unit.kube_api import node
from tests.unit.settings_machine import existing, machine, plan_runs

GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


def specs(**values: str) -> tuple[Pods, dict[str, dict[str, Any]]]:
    """The specs of all pods of a stack, by what they are; `native` and so on are the arms' pods."""
    settings = existing(machine(64, 256), workload="script", script="examples/torch_ddp.py", **values)
    pods = pods_of(settings)
    cluster = ray_cluster.spec(pods.ray_cluster)
    of_arms = {plan.arm: jobs.job(plan, pods.jobs)["template"]["spec"] for plan in plan_runs(settings)[:3]}
    (workers,) = cluster["workerGroupSpecs"]
    of_ray = {"head": cluster["headGroupSpec"]["template"]["spec"], "worker": workers["template"]["spec"]}
    return pods, {**of_arms, **of_ray}


TRAIN, DO_NOT = ("baseline", "native", "worker"), ("ray", "head")
"""Pods that train; the submitter of the arm ray, and Ray's head."""


def test_pods_that_train_have_the_gpus_and_the_others_none() -> None:
    """As limits, which are the requests; Ray counts them, and none that its head sees on Minikube's one node. One
    set of tolerations for all would put Ray's head onto the nodes with GPUs."""
    pods, made = specs(workerGpus="1", gpuResource="example.com/gpu", runtimeClass="nvidia")
    resources = {name: spec["containers"][0]["resources"] for name, spec in made.items()}
    tainted = node("gpu", taints=[GPU_TAINT | {"key": "example.com/gpu"}])

    assert {*TRAIN, *DO_NOT} == made.keys()
    for name in TRAIN:
        assert "1" == resources[name]["limits"]["example.com/gpu"]
        assert resources[name]["limits"] | {DISK: "64Mi"} == resources[name]["requests"]
        assert "nvidia" == made[name]["runtimeClassName"]
        assert [] == violations(made[name])
    for name in DO_NOT:
        assert "example.com/gpu" not in resources[name]["limits"]
        assert "runtimeClassName" not in made[name]
    for name, spec in made.items():
        assert usable(tainted, PodTemplate(spec=spec)) == (name in TRAIN)
        assert usable(node("cpu"), PodTemplate(spec=spec))
    assert not usable(tainted, PodTemplate(spec=operator.values(pods.placement, "ns")))
    cluster = ray_cluster.spec(pods.ray_cluster)
    groups = (cluster["headGroupSpec"], *cluster["workerGroupSpecs"])
    assert ["0", "1"] == [group["rayStartParams"]["num-gpus"] for group in groups]


def test_a_label_keeps_the_others_off_where_there_is_no_taint() -> None:
    """And pods that train run nowhere else."""
    pods, made = specs(workerGpus="1", gpuNodeSelector="accelerator=h100,pool=gpu", gpuTolerations="none")
    gpu, cpu = node("gpu"), node("cpu")
    gpu["metadata"]["labels"] |= {"accelerator": "h100", "pool": "gpu"}
    cpu["metadata"]["labels"] |= {"pool": "gpu"}

    for name, spec in made.items():
        assert usable(gpu, PodTemplate(spec=spec)) == (name in TRAIN)
        assert usable(cpu, PodTemplate(spec=spec)) == (name in DO_NOT)
    assert "tolerations" not in made["worker"]
    assert not usable(gpu, PodTemplate(spec=operator.values(pods.placement, "ns")))


def test_the_user_s_terms_stay_beside_the_label() -> None:
    """Each alternative of an affinity is still one, off the nodes with GPUs."""
    zones = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]} for zone in ("a", "b")]
    own = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": zones}}}
    kept = kept_off(PodTemplate(spec={"affinity": own}), {"accelerator": "h100"})

    def at(**labels: str) -> bool:
        there = node("n")
        there["metadata"]["labels"] |= labels
        return usable(there, kept)

    assert [True, True, False, False] == [at(zone="a"), at(zone="b"), at(zone="c"), at(zone="a", accelerator="h100")]
    assert {"affinity": own} == PodTemplate(spec={"affinity": own}).spec


def test_without_gpus_no_pod_changes() -> None:
    """Nothing of this is in them: the golden manifests hold the rest."""
    pods, made = specs()

    assert [] == [name for name, spec in made.items() if "gpu" in str(spec).lower().replace("cuda", "")]
    assert "num-gpus" not in str(ray_cluster.spec(pods.ray_cluster))
