"""What each command of the real engine says, and when, while the cluster of a stack does not answer."""

import base64
import shutil
import time
from pathlib import Path

import certifi
import pytest
import yaml

from infra.places.kubernetes import kubeconfig
from tests import unreachable
from tests.apiserver.test_wrong_cluster import Story, story  # noqa: F401 (a fixture)
from tests.program.conftest import NewProject, cli, new_project  # noqa: F401 (fixtures)

SECONDS = 20.0
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


@pytest.mark.parametrize("way", unreachable.WAYS)
def test_preview_goes_on_and_up_is_refused(way: str, new_project: NewProject, tmp_path: Path) -> None:  # noqa: F811
    """The whole program. A preview says it and what it shows; an update changes nothing."""
    if shutil.which("pulumi-resource-kubernetes") is None:
        pytest.skip("pulumi-resource-kubernetes is not on PATH")
    project = new_project()
    with unreachable.address(way) as server:
        (tmp_path / "config").write_text(content(server))
        own = project.folder / kubeconfig.path_of("local")
        own.parent.mkdir(parents=True)
        own.write_text(content(server))
        project.environment |= {"KUBECONFIG": str(tmp_path / "config"), "PULUMI_K8S_CLIENT_TIMEOUT": "4"}
        settings = {"target": "kubernetes", "kubeContext": "mine", "image": "a/b:1", "operator": "existing"}
        project.create_stack(**settings)
        began = time.monotonic()
        previewed = project.pulumi("preview")
        previewed_after = time.monotonic()
        refused = project.up(ok=False)
        refused_after = time.monotonic()

    for text in (previewed, refused):
        assert f"{server} does not answer" in text
        assert f"curl --insecure --max-time 5 {server}/version" in text
    assert f"{SOONER} preview" in previewed
    assert "nothing was changed" in refused
    assert [] == (project.state().get("resources") or [])[1:]  # the stack itself
    assert SECONDS > previewed_after - began
    assert SECONDS > refused_after - previewed_after


def test_refresh_and_destroy_say_it_and_lose_nothing(story: Story) -> None:  # noqa: F811
    """They run no program. With the cluster back, the stack ends as if nothing had been."""
    story.project.up()
    own, known = story.file.read_text(), story.resources()
    story.project.environment["PULUMI_K8S_CLIENT_TIMEOUT"] = "4"
    with unreachable.address("dropped") as server:
        story.file.write_text(own.replace(story.ours.entry["server"], server))
        began = time.monotonic()
        refreshed = story.refresh(ok=False)
        refreshed_after = time.monotonic()
        destroyed = story.destroy(ok=False)
        destroyed_after = time.monotonic()

    for text in (refreshed, destroyed):
        assert f"{server} does not answer" in text
        assert f"curl --insecure --max-time 5 {server}/version" in text
    assert "Nothing was read. Pulumi's Kubernetes plugin goes on trying" in refreshed
    assert f"{SOONER} refresh" in refreshed
    assert "Nothing was deleted" in destroyed
    assert (known, 2) == (story.resources(), len(story.made()))
    assert SECONDS > refreshed_after - began
    assert SECONDS > destroyed_after - refreshed_after
    story.file.write_text(own)
    story.ends_well()
