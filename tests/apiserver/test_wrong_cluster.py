"""Update, refresh and destroy by the real engine while the user's contexts lead elsewhere: nothing changes there.

Every way that a wrong cluster was reached is one test. Both clusters have objects of the same names, the user's current
context is the other one, and so is KUBECONFIG's: what falls back to it changes what `untouched` compares.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.places.cluster.api import kube
from tests.apiserver.clusters import NAMES, NAMESPACE, Address, Cluster, User, address
from tests.apiserver.small_program import FAILING_SEED
from tests.program.conftest import NewProject, cli, new_project  # noqa: F401 (fixtures)
from tests.program.engine import Project

STACK = "local"


class Story:
    """A stack on the first cluster of a user who has two."""

    def __init__(self, project: Project, user: User, clusters: tuple[Cluster, Cluster]) -> None:
        self.project, self.user = project, user
        self.ours, self.other = clusters
        self.file = project.folder / kube.own_path(STACK)
        self._before = self.other.objects()

    def contexts(self, mine: dict[str, Any]) -> None:
        """What the user's contexts lead to; the current one is always the other's."""
        self.user.has({"mine": mine, "other": self.other.entry}, "other")

    def made(self) -> set[str]:
        """What the stack has in its own cluster."""
        return set(self.ours.objects())

    def untouched(self) -> bool:
        """Whether the other cluster has what it had."""
        return len(NAMES) == len(self._before) and self._before == self.other.objects()

    def refresh(self, *, ok: bool = True) -> str:
        """Plain; it runs no program."""
        return self.project.pulumi("refresh", "--yes", "--skip-preview", ok=ok)

    def destroy(self, *, ok: bool = True) -> str:
        """Plain; it runs no program."""
        return self.project.pulumi("destroy", "--yes", "--skip-preview", ok=ok)

    def resources(self) -> set[str]:
        """What the state knows, without providers and components."""
        known = [entry for entry in self.project.state().get("resources") or [] if entry["custom"]]
        return {entry["urn"].rpartition("::")[2] for entry in known if "providers" not in entry["type"]}

    def ends_well(self) -> None:
        """Destroying empties the stack's own cluster, and nothing else."""
        self.destroy()

        assert set() == self.made()
        assert self.untouched()
        assert not self.file.exists()


@pytest.fixture
def story(new_project: NewProject, clusters: tuple[Cluster, Cluster], tmp_path: Path) -> Iterator[Story]:  # noqa: F811
    """Before its first update, with a context each."""
    if shutil.which("pulumi-resource-kubernetes") is None:
        pytest.skip("pulumi-resource-kubernetes is not on PATH")
    clusters[0].remove_objects()
    project = new_project()
    shutil.copy(Path(__file__).with_name("small_program.py"), project.folder / "__main__.py")
    user = User(tmp_path)
    project.environment["KUBECONFIG"] = str(user.file)
    made = Story(project, user, clusters)
    made.contexts(made.ours.entry)
    project.create_stack(target="kubernetes", kubeContext="mine", image="a/b:1", namespace=NAMESPACE)
    yield made
    assert made.untouched()


@pytest.fixture
def behind(story: Story) -> Iterator[Address]:
    """An address of the stack's cluster."""
    with address() as made:
        made.target = story.ours.port
        yield made


def test_the_current_context_decides_nothing(story: Story) -> None:
    """It is the other cluster from the start."""
    story.project.up()
    assert set(NAMES) == story.made()
    story.project.up("--expect-no-changes")
    story.refresh()
    assert set(NAMES) == story.made()
    story.ends_well()


def test_a_context_that_leads_elsewhere_is_refused(story: Story) -> None:
    """At preview and at `up`; refresh and destroy are of the stack's cluster."""
    story.project.up()
    story.contexts(story.other.entry)
    said = [story.project.pulumi("preview", ok=False), story.project.up(ok=False)]
    story.project.configure(kubeContext="other")
    said.append(story.project.up(ok=False))

    for text in said:
        assert f"stack {STACK} belongs" in text
        assert story.ours.uid in text
        assert story.other.uid in text
        assert "pulumi config set kubeContext" in text
        assert "Traceback" not in text
    known = story.resources()
    story.refresh()
    assert (known, set(NAMES)) == (story.resources(), story.made())
    story.ends_well()


def test_another_cluster_at_the_same_address_is_not_reached(story: Story, behind: Address) -> None:
    """Its certificate is of another authority. With the stack's cluster back in its place, all is as before."""
    story.contexts(story.ours.entry | {"server": behind.server})
    story.project.up()
    behind.target = story.other.port
    story.contexts(story.other.entry | {"server": behind.server})
    known = story.resources()

    assert story.other.uid in story.project.up(ok=False)
    assert "certificate" in story.refresh(ok=False)
    assert "certificate" in story.destroy(ok=False)
    assert (known, set(NAMES)) == (story.resources(), story.made())
    behind.target = story.ours.port
    story.ends_well()


def test_without_its_file_a_stack_reaches_nothing(story: Story) -> None:
    """Not the ambient kubeconfig. The next update writes it again, with or without the rest."""
    story.project.up()
    story.file.unlink()
    known = story.resources()
    refreshed, destroyed = story.refresh(ok=False), story.destroy(ok=False)

    assert f"{kube.own_path(STACK)} is gone" in refreshed
    assert f"{kube.own_path(STACK)} is gone" in destroyed
    assert (known, set(NAMES)) == (story.resources(), story.made())
    story.contexts(story.other.entry)
    assert story.other.uid in story.project.up(ok=False)
    assert not story.file.exists()
    story.contexts(story.ours.entry)
    story.project.up("--target", "**pinned-cluster")
    assert story.file.exists()
    story.file.unlink()
    story.project.configure(workers="3")
    story.project.up()
    story.ends_well()


def test_a_first_update_that_failed_is_of_its_cluster(story: Story) -> None:
    """What it made before it failed is removed there; without its file, nothing anywhere."""
    story.project.configure(seed=str(FAILING_SEED))
    story.project.up(ok=False)
    assert {NAMES[0]} <= story.made()
    story.contexts(story.other.entry)

    assert story.other.uid in story.project.up(ok=False)
    story.refresh()
    hidden = story.file.rename(story.file.with_suffix(".hidden"))
    assert "configured Kubernetes cluster is unreachable" in story.destroy(ok=False)  # not prose: the plugin's
    assert {NAMES[0]} <= story.made()
    hidden.rename(story.file)
    story.ends_well()


def test_a_new_address_of_the_same_cluster_is_followed(story: Story, behind: Address) -> None:
    """In place: what is in the cluster stays what it is."""
    story.project.up()
    before = story.ours.objects()
    story.contexts(story.ours.entry | {"server": behind.server})
    story.project.up()

    assert behind.server in story.file.read_text()
    assert before == story.ours.objects()
    story.refresh()
    story.ends_well()
