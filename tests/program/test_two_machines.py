"""Two checkouts with one backend, as two machines have it: a second one looks, refreshes and destroys without harm."""

from collections.abc import Iterator

import boto3
import pytest
from moto.server import ThreadedMotoServer

from tests.program.conftest import NewProject
from tests.program.engine import Project


@pytest.fixture
def bucket() -> Iterator[dict[str, str]]:
    """A backend in a bucket, and what lets its users in."""
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1"}
    own = {name.lower(): value for name, value in keys.items() if name != "AWS_REGION"}
    client = boto3.client("s3", endpoint_url=f"http://{host}:{port}", region_name=keys["AWS_REGION"], **own)
    client.create_bucket(Bucket="state")
    where = f"endpoint={host}:{port}&disableSSL=true&s3ForcePathStyle=true&region=us-east-1"
    yield keys | {"PULUMI_BACKEND_URL": f"s3://state?{where}"}
    server.stop()


def second_machine(first: Project, new_project: NewProject, backend: dict[str, str]) -> Project:
    """Another checkout, with the stack's file of the first, and none of its runs."""
    second = new_project()
    second.environment |= backend
    for file in (first.folder / "stacks").iterdir():
        (second.folder / "stacks" / file.name).write_bytes(file.read_bytes())
    second.pulumi("stack", "select", "local")
    return second


@pytest.mark.parametrize("kept", ["in a folder", pytest.param("in a bucket", marks=pytest.mark.slow)])
def test_another_machine_destroys_and_harms_nothing(
    kept: str, new_project: NewProject, request: pytest.FixtureRequest
) -> None:
    """It shows the answer, plans nothing, refreshes without a change, and leaves the runs where they were made."""
    first = new_project()
    folder = {"PULUMI_BACKEND_URL": first.environment["PULUMI_BACKEND_URL"]}
    backend = request.getfixturevalue("bucket") if kept == "in a bucket" else folder
    first.environment |= backend
    first.create_stack(repeats="1")
    first.up()
    made = {run: first.folder / folder for run, folder in first.ids().items()}
    second = second_machine(first, new_project, backend)

    assert first.outputs() == second.outputs()
    assert {} == second.preview()
    second.pulumi("refresh", "--yes", "--skip-preview", "--expect-no-changes")
    second.pulumi("destroy", "--yes", "--skip-preview")
    assert {} == second.ids()
    assert all((folder / "result.json").is_file() for folder in made.values())
    assert [] == list(second.folder.glob("runs/*"))
    assert {"baseline-1", "native-1", "ray-1"} == set(first.preview())
