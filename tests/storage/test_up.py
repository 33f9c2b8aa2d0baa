"""A measurement on this machine that keeps what outlives it in S3, through the real engine; the arms train nothing."""

import json
import re

import pytest

from tests.program.conftest import NewProject, cli, new_project  # noqa: F401 (fixtures)
from tests.program.engine import Project
from tests.storage.cloud import PREFIX, ROLE, Cloud

OBJECT = re.compile(r"inside/local/[0-9a-f]{12}/(\w+-1)-\d{8}T\d{6}Z-[0-9a-f]{6}/result.json")
"""Stack, measurement, run."""


@pytest.fixture
def project(cloud: Cloud, as_caller: None, new_project: NewProject) -> Project:  # noqa: F811
    """A stack whose storage is in the cloud, and which says not yet how it is let in."""
    made = new_project()
    made.create_stack(repeats="1", epochs="1", storage=PREFIX, storageEndpoint=cloud.url, allowOpenPorts="true")
    return made


def kept(cloud: Cloud) -> set[str]:
    """The runs that kept something."""
    return {found[1] for name in cloud.names() if (found := OBJECT.fullmatch(name))}


def test_each_run_assumes_the_role_and_keeps_what_outlives_it(project: Project, cloud: Cloud) -> None:
    """A second `up` changes nothing, and no credentials are in what Pulumi shows or has; `destroy` deletes nothing."""
    project.configure(storageRole=ROLE)

    shown = project.up()

    assert {"baseline-1", "native-1", "ray-1"} == kept(cloud)
    project.up("--expect-no-changes")
    state = json.dumps(project.state())
    for secret in ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", cloud.caller["AWS_SECRET_ACCESS_KEY"]):
        assert secret not in shown + state
    project.pulumi("destroy", "--yes", "--skip-preview")
    assert {"baseline-1", "native-1", "ray-1"} == kept(cloud)


@pytest.mark.slow
def test_other_credentials_repeat_nothing_and_are_encrypted(project: Project, cloud: Cloud) -> None:
    """They are rotated, and a measurement is none of them."""
    keys = " ".join(f"{name}={value}" for name, value in cloud.owner.items())
    project.pulumi("config", "set", "--secret", "storageCredentials", keys)
    shown = project.up()
    secret = cloud.owner["AWS_SECRET_ACCESS_KEY"]

    project.pulumi("config", "set", "--secret", "storageCredentials", keys.replace(secret, secret[::-1]))

    assert {} == project.preview()
    assert secret not in shown + json.dumps(project.state())


def test_storage_that_can_t_be_used_is_refused_before_anything_is_made(project: Project, cloud: Cloud) -> None:
    """By the caller's own rights, who may assume roles alone; a preview asks nothing."""
    before = cloud.asked()
    assert "create" in project.preview().values()
    assert before == cloud.asked()

    said = project.up(ok=False)

    assert "nothing was changed" in said
    assert "s3://runs/inside" in said
    assert "starts" not in said
    assert not [entry for entry in project.state().get("resources", []) if "training:Run" in entry["urn"]]
