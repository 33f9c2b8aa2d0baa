"""The file of `podTemplate`: what it may say of all pods, and that everything else is refused by its path."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.places.cluster.image_check import pod_of
from infra.places.cluster.manifests import operator
from infra.places.cluster.manifests.jobs import job
from infra.places.cluster.manifests.pods import Pods, pods_of
from infra.places.cluster.manifests.ray_cluster import spec as ray_cluster
from infra.plan import RunPlan
from infra.settings.draft import short
from policy.pod_security import violations
from tests.golden import Wording
from tests.unit.settings_machine import ROOT, Refusal, only_problem, plan_runs, problems, settings
from tests.unit.settings_values import EXISTING

SAMPLE = ROOT / "docs/samples/pods.yaml"
PREFERRED = "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution"
TERM = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where a test writes the template."""
    return tmp_path / "pods.yaml"


def refusal(file: Path, text: str) -> Refusal:
    """The one problem of a stack with this template."""
    file.write_text(text, encoding="utf-8")
    return only_problem(**EXISTING, podTemplate=str(file))


def nested(path: str, value: str) -> str:
    """A template with a YAML value at a path of fields, list items and names in brackets."""
    text: Any = yaml.safe_load(value)
    for part in reversed(re.findall(r"\[[^]]+\]|[^.\[\]]+", path)):
        text = [text] if part == "[0]" else {part.strip("[]"): text}
    return yaml.safe_dump(text)


def templates(pods: Pods, plans: tuple[RunPlan, ...]) -> dict[str, Any]:
    """The templates of all pods of a measurement, by what they are for."""
    cluster = ray_cluster(pods.ray_cluster)
    return {
        "head": cluster["headGroupSpec"]["template"],
        "worker": cluster["workerGroupSpecs"][0]["template"],
        "image": pod_of(pods.placement, {}),
        **{plan.name: job(plan, pods.jobs)["template"] for plan in plans},
    }


def test_all_pods_have_what_the_template_says() -> None:
    """Ray's head and workers, the pods of every arm and those of checks alike; nothing else of them changes."""
    with_it, without = (
        settings(**EXISTING, podTemplate=str(SAMPLE), wideArm="true"),
        settings(**EXISTING, wideArm="true"),
    )
    template = yaml.safe_load(SAMPLE.read_text(encoding="utf-8"))
    before = templates(pods_of(without), plan_runs(without))
    after = templates(pods_of(with_it), plan_runs(without))

    assert {"baseline", "wide", "native", "ray"} < {name.partition("-")[0] for name in after}
    assert before.keys() == after.keys()
    for name, pod in after.items():
        metadata = before[name]["metadata"]
        assert pod["spec"] == before[name]["spec"] | template["spec"]
        assert pod["metadata"]["labels"] == metadata["labels"] | template["metadata"]["labels"]
        noted = metadata.get("annotations", {}) | template["metadata"]["annotations"]
        assert pod["metadata"]["annotations"] == noted
        assert [] == violations(pod["spec"])


def test_kuberays_operator_runs_where_the_pods_run() -> None:
    """By the values of its chart, which has none for a scheduler's name."""
    pods = pods_of(settings(**EXISTING, podTemplate=str(SAMPLE)))
    values = operator.values(pods.placement, "a")
    template = yaml.safe_load(SAMPLE.read_text(encoding="utf-8"))

    assert template["spec"] == {name: values[name] for name in template["spec"]}
    assert template["metadata"] == {name: values[name] for name in ("labels", "annotations")}


def test_another_template_is_another_measurement(file: Path) -> None:
    """Its content counts, and not its path."""

    def measured(text: str, path: Path = file) -> tuple[str, ...]:
        path.write_text(text, encoding="utf-8")
        return tuple(plan.measurement for plan in plan_runs(settings(**EXISTING, podTemplate=str(path))))

    first = measured("spec: {priorityClassName: low}")
    same = measured("# as before\nspec: {priorityClassName: low}", file.with_name("other.yaml"))
    others = [measured("spec: {priorityClassName: high}"), measured("metadata: {labels: {team: a}}")]

    assert first == same
    assert [set(), set()] == [set(first) & set(other) for other in others]


def test_an_empty_template_changes_nothing(file: Path) -> None:
    """As do fields without a value."""
    file.write_text("metadata:\n  labels:\nspec:\n  nodeSelector: {}\n  tolerations: []\n", encoding="utf-8")

    assert pods_of(settings(**EXISTING)) == pods_of(settings(**EXISTING, podTemplate=str(file)))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.containers[0].securityContext", "{privileged: true}"),
        ("spec.containers[0].image", "a"),
        ("spec.initContainers[0].name", "a"),
        ("spec.volumes[0].hostPath", "{path: /}"),
        ("spec.securityContext.runAsUser", "0"),
        ("spec.hostNetwork", "true"),
        ("spec.serviceAccountName", "a"),
        ("spec.nodeName", "a"),
        ("spec.topologySpreadConstraints[0].maxSkew", "1"),
        ("spec.runtimeClassName", "a"),
        ("spec.resources.limits", "{cpu: 1}"),
        ("spec.activeDeadlineSeconds", "1"),
        ("metadata.name", "a"),
        ("metadata.finalizers", "[a]"),
        ("kind", "PodTemplate"),
        ("template.spec", "{}"),
        ("metadata.labels[ray.io/cluster]", "a"),
        ("metadata.labels[app.kubernetes.io/component]", "a"),
        ("metadata.labels[ray-worth-it/run]", "a"),
        ("metadata.labels[job-name]", "a"),
        ("metadata.annotations[ray-worth-it/measurement]", "a"),
        ("metadata.annotations[container.apparmor.security.beta.kubernetes.io/training]", "unconfined"),
        ("metadata.annotations[k8s.v1.cni.cncf.io/networks]", "a"),
        ("metadata.annotations[v1.multus-cni.io/default-network]", "a"),
        ("metadata.annotations[cpu-quota.crio.io]", "disable"),
        ("metadata.annotations[cpu-load-balancing.crio.io]", "disable"),
        ("metadata.annotations[irq-load-balancing.crio.io]", "disable"),
        ("metadata.annotations[io.kubernetes.cri-o.userns-mode]", "a"),
        ("metadata.annotations[kubernetes.io/config.source]", "file"),
        ("metadata.annotations[linkerd.io/inject]", "enabled"),
        ("metadata.labels[sidecar.istio.io/inject]", "'true'"),
        ("spec.affinity.podAntiAffinity", "{}"),
    ],
)
def test_a_field_that_is_not_the_user_s_is_refused_by_its_path(file: Path, path: str, value: str) -> None:
    """A raw patch could undo the pods' security, or give one arm what the others lack."""
    refused = refusal(file, nested(path, value))

    assert f"{file}: {path}" in refused
    assert "podTemplate" == refused.key


def test_a_name_in_the_file_is_shown_as_any_value_is(file: Path) -> None:
    """On one line of limited length, with how long it is."""
    name = "a\n" * 5000
    refused = refusal(file, yaml.safe_dump({name: "b"}))

    assert f"{file}: {short(name)}\n" in refused
    assert "(10000 characters)" in refused


def test_fields_that_are_refused_for_one_reason_are_one_problem(file: Path, wording: Wording) -> None:
    """As when a whole template of KubeRay's is given."""
    refused = refusal(file, "spec: {containers: [{name: a, image: b}], hostPID: true, priorityClassName: low}")

    assert "spec.containers[0].name, spec.containers[0].image, spec.hostPID" in refused
    wording("settings", str(refused).replace(str(file), "pods.yaml"))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata", "[]"),
        ("spec", "a"),
        ("metadata.labels", "[a]"),
        ("metadata.labels[team]", "1"),
        ("metadata.labels[team]", "true"),
        ("metadata.labels[team]", "a b"),
        ("metadata.labels[team]", "a" * 64),
        ("metadata.labels[a b]", "a"),
        ("metadata.annotations[note]", "2020-01-01"),
        ("metadata.annotations[note]", "{a: b}"),
        ("spec.nodeSelector", "pool"),
        ("spec.nodeSelector[pool]", "1"),
        ("spec.tolerations", "{key: a}"),
        ("spec.tolerations[0]", "a"),
        ("spec.tolerations[0]", "{kye: a}"),
        ("spec.tolerations[0]", "{key: 1}"),
        ("spec.tolerations[0]", "{operator: Sometimes}"),
        ("spec.tolerations[0]", "{value: a}"),
        ("spec.tolerations[0]", "{operator: Exists, value: a}"),
        ("spec.tolerations[0]", "{key: a, effect: Never}"),
        ("spec.tolerations[0]", "{key: a, value: a b}"),
        ("spec.tolerations[0]", "{key: a, tolerationSeconds: 5}"),
        ("spec.tolerations[0]", "{key: a, effect: NoExecute, tolerationSeconds: true}"),
        ("spec.tolerations[0]", f"{{key: a, effect: NoExecute, tolerationSeconds: {2**63}}}"),
        ("spec.tolerations", "[{key: a, effect: NoExecute, toleration_seconds: 5}]"),
        ("spec.imagePullSecrets", "login"),
        ("spec.imagePullSecrets[0]", "login"),
        ("spec.imagePullSecrets[0]", "{name: My Secret}"),
        ("spec.imagePullSecrets[0]", "{name: a, key: b}"),
        ("spec.priorityClassName", "Low"),
        ("spec.schedulerName", "1"),
        ("spec.affinity", "[]"),
        ("spec.affinity.nodeAffinity", "[]"),
        ("spec.affinity.nodeAffinity.required", "{}"),
        (TERM, "[]"),
        (TERM, "a"),
        (f"{TERM}[0]", "a"),
        (f"{TERM}[0]", "{}"),
        (f"{TERM}[0]", "{matchExpressions: []}"),
        (f"{TERM}[0].matchLabels", "{a: b}"),
        (f"{TERM}[0].matchExpressions[0]", "{key: a, operator: In}"),
        (f"{TERM}[0].matchExpressions[0]", "{key: a, operator: Exists, values: [b]}"),
        (f"{TERM}[0].matchExpressions[0]", "{key: a, operator: Gt, values: [b]}"),
        (f"{TERM}[0].matchExpressions[0]", "{key: a, operator: Is, values: [b]}"),
        (f"{TERM}[0].matchExpressions[0]", "{key: a, operator: In, values: [1]}"),
        (f"{TERM}[0].matchFields[0]", "{key: metadata.uid, operator: In, values: [a]}"),
        (PREFERRED, "{}"),
        (f"{PREFERRED}[0]", "{weight: 0, preference: {}}"),
        (f"{PREFERRED}[0]", "{weight: 1, preference: []}"),
    ],
)  # fmt: skip
def test_a_value_that_kubernetes_refuses_is_refused_at_preview(file: Path, path: str, value: str) -> None:
    """By its path, with what is allowed."""
    assert f"{file}: {path}" in refusal(file, nested(path, value))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "[]",
        "spec: {",
        "spec: &a {}",
        "metadata: &a {}\nspec: *a",
        "spec: {priorityClassName: a, priorityClassName: b}",
        "spec: {}\nspec: {}",
        "spec: {}\n---\nspec: {}",
        "spec: {<<: {}}",
        "1: a",
        "? [a]\n: b",
        "yes: a",
        "spec: !!python/object:os.system {}",
        "spec: {nodeSelector: " + "[" * 3000,
        "spec: \x00",
        "spec: {nodeSelector: {a: 2020-99-99}}",
    ],
    ids=lambda text: ascii(text)[:30],
)
def test_what_is_no_single_plain_map_is_refused(file: Path, text: str) -> None:
    """Of what YAML can do, that which a reviewer has to resolve, or which loses a value."""
    assert "\n" not in refusal(file, text).partition("\n    allowed")[0]


@pytest.mark.parametrize(
    "text",
    [
        r'metadata: {annotations: {a: "\ud800"}}',
        r'metadata: {annotations: {"a\ud800": b}}',
        r'spec: {schedulerName: "\udfff"}',
        r'spec: {tolerations: [{key: "\ud800"}]}',
        r'{"\ud800": a}',
    ],
)
def test_text_that_no_request_can_hold_is_refused(file: Path, text: str) -> None:
    """Halves of surrogate pairs, which YAML can write."""
    assert "surrogate" in refusal(file, text).encode().decode()


def test_a_file_of_other_bytes_is_refused(file: Path) -> None:
    """With its name alone."""
    file.write_bytes(b"\xff\xfe\x00")

    assert "\\xff" not in only_problem(**EXISTING, podTemplate=str(file))


@pytest.mark.parametrize("target", [EXISTING, {"target": "minikube"}])
def test_pull_secrets_need_a_namespace_that_exists(file: Path, target: dict[str, str]) -> None:
    """A namespace just made holds none, and its pods would wait for their image for ever."""
    file.write_text("spec: {imagePullSecrets: [{name: login}]}", encoding="utf-8")

    assert "pulumi config set createNamespace false" in only_problem(**target, podTemplate=str(file)).fixes


@pytest.mark.parametrize("target", [{"target": "local"}, {"target": "ray", "rayAddress": "http://head:8265"}])
def test_a_template_means_nothing_without_pods(target: dict[str, str]) -> None:
    """As other keys of clusters there."""
    assert settings(**target, podTemplate="no such file").cluster is None


def test_a_wrong_template_beside_another_problem_hides_none(file: Path) -> None:
    """Each of them is one."""
    file.write_text("spec: {hostPID: true, tolerations: a}", encoding="utf-8")

    assert 3 == len(problems(**EXISTING, podTemplate=str(file), workers="0"))
