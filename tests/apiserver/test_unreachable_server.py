"""What each command of the real engine says, and when, while the cluster of a stack does not answer."""

import base64
import math
import os
import shutil
import subprocess
import time
from pathlib import Path

import certifi
import pytest
import yaml

from infra.places.cluster.api import kube
from tests import unreachable
from tests.apiserver.test_wrong_cluster import Story, story  # noqa: F401 (a fixture)
from tests.program.conftest import NewProject, cli, new_project  # noqa: F401 (fixtures)
from tests.program.engine import Project

SECONDS = 20.0
"""On a machine that does nothing else: the engine and two programs start first, which takes its time beside others."""
END = "-----END CERTIFICATE-----"
SOONER = "PULUMI_K8S_CLIENT_TIMEOUT=4 pulumi"


def entry(server: str) -> dict[str, str]:
    """The cluster's part of a kubeconfig."""
    first, _, _ = Path(certifi.where()).read_text().partition(END)
    authority = base64.b64encode(f"{first}{END}\n".encode()).decode()  # nothing answers, and is compared with it
    return {"server": server, "certificate-authority-data": authority}


def content(server: str) -> str:
    """A kubeconfig with one context."""
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "mine",
            "clusters": [{"name": "c", "cluster": entry(server)}],
            "users": [{"name": "me", "user": {"token": "a-token"}}],
            "contexts": [{"name": "mine", "context": {"cluster": "c", "user": "me"}}],
        }
    )


def limit() -> float:
    """Seconds, for as many programs as want this machine's CPUs now."""
    return SECONDS * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def said(project: Project, *arguments: str) -> tuple[str, float, int]:
    """All that a command says, after how many seconds it says that nothing answers, and its exit status."""
    lines: list[str] = []
    began, after = time.monotonic(), math.inf
    command = ["pulumi", *arguments, "--non-interactive"]
    with subprocess.Popen(
        command, cwd=project.folder, env=project.environment, text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as process:  # fmt: skip
        assert process.stdout
        for line in process.stdout:
            lines.append(line)
            if "does not answer" in line:
                after = min(after, time.monotonic() - began)
    return "".join(lines), after, process.returncode


@pytest.mark.parametrize("way", unreachable.WAYS)
def test_preview_goes_on_and_up_is_refused(way: str, new_project: NewProject, tmp_path: Path) -> None:  # noqa: F811
    """The whole program. A preview says it and what it shows; an update changes nothing."""
    if shutil.which("pulumi-resource-kubernetes") is None:
        pytest.skip("pulumi-resource-kubernetes is not on PATH")
    project = new_project()
    with unreachable.address(way) as server:
        (tmp_path / "config").write_text(content(server))
        own = project.folder / kube.own_path("local")
        own.parent.mkdir(parents=True)
        own.write_text(content(server))
        project.environment |= {"KUBECONFIG": str(tmp_path / "config"), "PULUMI_K8S_CLIENT_TIMEOUT": "4"}
        settings = {"target": "kubernetes", "kubeContext": "mine", "image": "a/b:1", "operator": "existing"}
        project.create_stack(**settings)
        previewed, previewed_after, preview_status = said(project, "preview")
        refused, refused_after, up_status = said(project, "up", "--yes", "--skip-preview")

    assert (True, False) == (preview_status == 0, up_status == 0)
    for text in (previewed, refused):
        assert f"{server} does not" in text
        assert f"curl --insecure --max-time 5 {server}/version" in text
    assert f"{SOONER} preview" in previewed
    assert "nothing was changed" in refused
    assert [] == [entry["urn"] for entry in project.state().get("resources") or [] if entry["custom"]]
    assert limit() > max(previewed_after, refused_after)


def test_refresh_and_destroy_say_it_and_lose_nothing(story: Story) -> None:  # noqa: F811
    """They run no program. With the cluster back, the stack ends as if nothing had been."""
    story.project.up()
    own, known = story.file.read_text(), story.resources()
    story.project.environment["PULUMI_K8S_CLIENT_TIMEOUT"] = "4"
    with unreachable.address("dropped") as server:
        story.file.write_text(own.replace(story.ours.entry["server"], server))
        refreshed, refreshed_after, refresh_status = said(story.project, "refresh", "--yes", "--skip-preview")
        destroyed, destroyed_after, destroy_status = said(story.project, "destroy", "--yes", "--skip-preview")

    assert 0 not in (refresh_status, destroy_status)
    for text in (refreshed, destroyed):
        assert f"{server} does not" in text
        assert f"curl --insecure --max-time 5 {server}/version" in text
    assert "Nothing was read" in refreshed
    assert f"{SOONER} refresh" in refreshed
    assert "Nothing was deleted" in destroyed
    assert (known, 2) == (story.resources(), len(story.made()))
    assert limit() > max(refreshed_after, destroyed_after)
    story.file.write_text(own)
    story.ends_well()
