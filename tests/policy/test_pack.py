"""The pack as the real engine runs it over the real program, for every stack file."""

import re

import pytest

from policy.rules import RULES
from tests.golden import Wording
from tests.policy.conftest import Preview
from tests.program.engine import Project
from tests.slow import slow_but
from tests.stacks import STACKS

LOOSENED = {
    "infra/places/cluster/manifests/pod_parts.py": {
        '"image": image,': '"image": image.partition(":")[0] + ":1.0",',
        '"limits": dict(amounts)}': '"limits": {**amounts, "memory": "64Gi"}}',
        '"automountServiceAccountToken": False': '"automountServiceAccountToken": True',
        '"readOnlyRootFilesystem": True': '"privileged": True',
    },
    "infra/places/cluster/manifests/jobs.py": {'"activeDeadlineSeconds": settings.deadline_seconds,': ""},
    "infra/places/cluster/manifests/network.py": {'": "restricted" for': '": "privileged" for'},
    "infra/places/cluster/manifests/dashboard.py": {'"NodePort" if': '"LoadBalancer" if'},
    "infra/places/cluster/components/access.py": {"parent=parent, provider=self.provider,": "parent=parent,"},
    "Pulumi.yaml": {'  pulumi:disable-default-providers: ["kubernetes"]\n': ""},
}
"""A change for each rule, by file: what a pull request might do."""
DASHBOARD = ("exposed-services", "kubernetes:core/v1:Service: ray-dashboard")


def change(project: Project, changes: dict[str, dict[str, str]]) -> None:
    """Edit the project's copy; each text has to be there once."""
    for name, edits in changes.items():
        file = project.folder / name
        text = file.read_text()
        for old, new in edits.items():
            assert 1 == text.count(old), f"{name}: {old}"
            text = text.replace(old, new)
        file.write_text(text)


Refusals = dict[tuple[str, str], str]
"""The messages, by rule and resource."""


def refusals(shown: str) -> Refusals:
    """What a preview refuses: a message is one line, below the rule's description."""
    listed = shown.partition("\nPolicies:\n")[2].partition("\n\nDiagnostics:")[0]
    blocks = re.split(r"^ +- \[mandatory\] +(\S+) +\((.+)\)$", listed, flags=re.MULTILINE)[1:]
    return {
        (rule, resource): text.strip().splitlines()[-1].strip()
        for rule, resource, text in zip(blocks[::3], blocks[1::3], blocks[2::3], strict=True)
    }


@pytest.mark.parametrize("stack", slow_but(["local", "kubernetes"], STACKS))
def test_every_stack_passes(stack: str, preview: Preview) -> None:
    """Each rule is run over each resource: one that could not be would be a line of its own."""
    shown = preview(stack)

    assert re.search(r"Policies:\n +✅ ray-worth-it@v1\.0\.0 .*\n\n", shown), shown  # not prose: Pulumi's list
    assert "can't run policy" not in shown


def test_each_rule_refuses_what_breaks_it(project: Project, preview: Preview) -> None:
    """The preview fails, and names every rule with the resource."""
    change(project, LOOSENED)
    shown = preview("ci", ok=False)

    refused = refusals(shown)
    assert {*RULES, "exposed-services"} == {rule for rule, _ in refused}, shown
    assert DASHBOARD in refused


def test_what_cannot_be_compared_with_anything_is_refused(project: Project, preview: Preview, wording: Wording) -> None:
    """A chart that Helm would fetch; and what is not known at preview, or a rule would be passed by making its subject
    an output of something else."""
    kind = "access.address.apply(lambda known: known) if access.address else None"
    service = "spec: Any = dashboard.service(at_nodes=access.address is not None)"
    edits = {"chart=str(settings.chart.path)": 'chart="kuberay-operator"',
             service: f"{service}\n        spec['type'] = {kind}"}  # fmt: skip
    change(project, {"infra/places/cluster/components/foundation.py": edits})

    refused = refusals(preview("ci", ok=False))

    release = ("pinned-images", "kubernetes:helm.sh/v3:Release: operator-release")
    assert {release, DASHBOARD} == set(refused)
    wording("policy", refused[release], "a chart that Helm would fetch")
    wording("policy", refused[DASHBOARD], "what is not known at preview")


def test_an_image_of_a_registry_without_its_digest_is_refused(
    project: Project, preview: Preview, wording: Wording
) -> None:
    """Its tag is pushed again some day. The setting allows it, for who tries something out."""
    digest = re.search(r"@sha256:\w+", (project.folder / "stacks/Pulumi.kubernetes.yaml").read_text())
    assert digest
    change(project, {"stacks/Pulumi.kubernetes.yaml": {digest[0]: ":1.0.0"}})

    refused = refusals(preview("kubernetes", ok=False))

    assert {"pinned-images"} == {rule for rule, _ in refused}
    assert {"Job", "RayCluster"} <= {resource.split(":")[2] for _, resource in refused}
    # Of the RayCluster either image: the pack's rules see its pods in no fixed order.
    wording("policy", "\n".join(sorted({text.replace("ray-worker", "ray-head") for text in refused.values()})))


def test_a_run_of_this_machine_without_a_deadline_is_refused(
    project: Project, preview: Preview, wording: Wording
) -> None:
    """The rules are not about clusters alone."""
    edit = {'"timeoutMinutes": settings.run.run_timeout_minutes': '"timeoutMinutes": 0'}
    change(project, {"infra/places/local/measurement.py": edit})

    refused = refusals(preview("local", ok=False))

    runs = [f"{arm}-{repeat}" for arm in ("baseline", "native", "ray", "wide") for repeat in range(1, 5)]
    assert {("deadlines", f"pulumi-python:dynamic/training:Run: {run}") for run in runs} == set(refused)
    wording("policy", *set(refused.values()))
