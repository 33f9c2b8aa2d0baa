"""The pack as the real engine runs it over the real program, for every stack file."""

import re

import pytest

from policy.rules import RULES
from tests.policy.conftest import Preview
from tests.program.engine import Project
from tests.stacks import STACKS

LOOSENED = {
    "infra/places/cluster/pod_spec.py": {
        '"image": image,': '"image": image.partition(":")[0] + ":1.0",',
        '"limits": dict(amounts)}': '"limits": {**amounts, "memory": "64Gi"}}',
        '"automountServiceAccountToken": False': '"automountServiceAccountToken": True',
        '"readOnlyRootFilesystem": True': '"privileged": True',
    },
    "infra/places/cluster/jobs_spec.py": {'"activeDeadlineSeconds": settings.deadline_seconds,': ""},
    "infra/places/cluster/network_spec.py": {'": "restricted" for': '": "privileged" for'},
    "infra/places/cluster/dashboard_spec.py": {'else "NodePort"': 'else "LoadBalancer"'},
    "infra/places/cluster/access.py": {"parent=parent, provider=self.provider,": "parent=parent,"},
    "Pulumi.yaml": {'  pulumi:disable-default-providers: ["kubernetes"]\n': ""},
}
"""A change for each rule, by file: what a pull request might do."""


def change(project: Project, changes: dict[str, dict[str, str]]) -> None:
    """Edit the project's copy; each text has to be there once."""
    for name, edits in changes.items():
        file = project.folder / name
        text = file.read_text()
        for old, new in edits.items():
            assert 1 == text.count(old), f"{name}: {old}"
            text = text.replace(old, new)
        file.write_text(text)


@pytest.mark.parametrize("stack", STACKS)
def test_every_stack_passes(stack: str, preview: Preview) -> None:
    """Each rule is run over each resource: one that could not be would be a line of its own."""
    shown = preview(stack)

    assert re.search(r"Policies:\n +✅ ray-worth-it@v1\.0\.0 .*\n\n", shown), shown
    assert "can't run policy" not in shown


def test_each_rule_refuses_what_breaks_it(project: Project, preview: Preview) -> None:
    """The preview fails, and names every rule with the resource."""
    change(project, LOOSENED)
    shown = preview("ci", ok=False)

    refusals = dict(re.findall(r"\[mandatory\] +(\S+) +\((.+)\)", shown))
    assert {*RULES, "exposed-services"} == set(refusals), shown
    assert "kubernetes:core/v1:Service: ray-dashboard" == refusals["exposed-services"]


def test_a_chart_that_helm_would_fetch_is_refused(project: Project, preview: Preview) -> None:
    """Nobody would have compared it with anything."""
    change(
        project, {"infra/places/cluster/components.py": {"chart=str(settings.chart.path)": 'chart="kuberay-operator"'}}
    )

    assert "the chart 'kuberay-operator' is not the .tgz of one version" in preview("ci", ok=False)


def test_an_image_of_a_registry_without_its_digest_is_refused(project: Project, preview: Preview) -> None:
    """Its tag is pushed again some day. The setting allows it, for who tries something out."""
    digest = re.search(r"@sha256:\w+", (project.folder / "stacks/Pulumi.kubernetes.yaml").read_text())
    assert digest
    change(project, {"stacks/Pulumi.kubernetes.yaml": {digest[0]: ":1.0.0"}})

    assert "give it a digest" in preview("kubernetes", ok=False)


def test_a_run_of_this_machine_without_a_deadline_is_refused(project: Project, preview: Preview) -> None:
    """The rules are not about clusters alone."""
    change(
        project,
        {"infra/places/local/place.py": {'"timeoutMinutes": settings.run_timeout_minutes': '"timeoutMinutes": 0'}},
    )

    assert "timeoutMinutes is not set" in preview("local", ok=False)


def test_what_is_not_known_at_preview_is_refused(project: Project, preview: Preview) -> None:
    """Otherwise a rule would be passed by making its subject an output of something else."""
    kind = "node_port.address.apply(lambda known: known) if node_port else None"
    service = "spec: Any = dashboard_spec.service(node_port.port if node_port else None)"
    change(project, {"infra/places/cluster/components.py": {service: f"{service}\n        spec['type'] = {kind}"}})

    assert "a (not known before the update) with the ports [8265]" in preview("ci", ok=False)
