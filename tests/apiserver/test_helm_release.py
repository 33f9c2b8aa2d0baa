"""A release that Helm was killed in is taken up by the real Helm once it is marked; until then Helm refuses it."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.places.cluster.api import helm_release, kube
from tests.limits import wait_for
from tests.unit import crd

RELEASE, NAMESPACE, SECONDS = "kuberay-operator", "helm-test", 60.0


class Helm:
    """Helm's program on one release, whose pods never become ready: nothing runs them here."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = str(kubeconfig)
        self.api = kube.connect(self._kubeconfig)
        self._chart = str(crd.chart().path)

    def command(self, verb: str, *flags: str) -> list[str]:
        """`helm VERB` as pulumi-kubernetes has it done."""
        release = [] if verb == "uninstall" else [self._chart, "--skip-crds"]
        return ["helm", verb, RELEASE, *release, "--namespace", NAMESPACE, "--kubeconfig", self._kubeconfig, *flags]

    def run(self, verb: str, *flags: str) -> str:
        """What it says against it; empty when it ends well."""
        done = subprocess.run(self.command(verb, *flags), capture_output=True, text=True, timeout=SECONDS, check=False)
        return done.stderr if done.returncode else ""

    def kill_while_it_waits(self, verb: str, status: str) -> None:
        """Kill it as soon as its record says that it is under way."""
        with subprocess.Popen(self.command(verb, "--create-namespace", "--wait")) as helm:
            wait_for(lambda: status in self.statuses(), status)
            helm.kill()

    def statuses(self) -> list[str]:
        """Of its revisions, as Helm finds them."""
        path = f"/api/v1/namespaces/{NAMESPACE}/secrets"
        return [secret["metadata"]["labels"]["status"] for secret in kube.items(self.api, path)]

    def mark(self, *statuses: str) -> None:
        """As the program does before an update."""
        helm_release.mark_failed(self.api, NAMESPACE, RELEASE, statuses or helm_release.PENDING)


@pytest.fixture
def helm(api: Any, kubeconfig: Path) -> Iterator[Helm]:
    """Without a release."""
    if not shutil.which("helm"):
        pytest.skip("helm is not on PATH")
    made = Helm(kubeconfig)
    yield made
    made.run("uninstall")


def test_an_installation_that_was_killed_is_made_again(helm: Helm) -> None:
    """Pulumi does not know the release, or knows it as half made: it installs, or upgrades."""
    helm.kill_while_it_waits("install", "pending-install")
    assert "cannot re-use a name" in helm.run("install", "--replace")  # not prose: Helm's
    assert "another operation" in helm.run("upgrade")

    helm.mark()
    assert "" == helm.run("install", "--replace")
    helm.mark("deployed")
    assert "" == helm.run("upgrade")
    assert "deployed" == helm.statuses()[-1]


def test_an_upgrade_that_was_killed_is_made_again(helm: Helm) -> None:
    """On the revision that is deployed."""
    assert "" == helm.run("install", "--create-namespace")
    helm.kill_while_it_waits("upgrade", "pending-upgrade")
    assert "another operation" in helm.run("upgrade")

    helm.mark()
    assert "" == helm.run("upgrade")


def test_a_release_that_pulumi_never_noted_is_made_again(helm: Helm) -> None:
    """Helm had ended when Pulumi was killed."""
    assert "" == helm.run("install", "--create-namespace")
    assert "cannot re-use a name" in helm.run("install", "--replace")  # not prose: Helm's

    helm.mark("deployed")
    assert "" == helm.run("install", "--replace")
