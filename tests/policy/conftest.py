"""Previews of every stack by the real engine, with the plugins of this machine or with stand-ins for those it lacks."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.policy.plugins import OFFLINE, add_what_clusters_need
from tests.program.conftest import NewProject, cli, new_project  # noqa: F401 - fixtures
from tests.program.engine import ROOT, Project
from tests.stacks import OF_BUCKETS, OF_PLACES, environment_of

Preview = Callable[..., str]


@pytest.fixture
def project(new_project: NewProject, tmp_path: Path) -> Project:  # noqa: F811
    """A copy of the project that can preview cluster stacks: it has a chart, and every plugin."""
    made = new_project()
    add_what_clusters_need(made, tmp_path / "plugins")
    return made


@pytest.fixture
def preview(project: Project) -> Preview:
    """`pulumi preview --policy-pack policy` of a stack, which has to be admitted with `ok`, else refused."""

    def run(stack: str, *, ok: bool = True) -> str:
        project.pulumi("stack", "init", stack)
        given = (
            {"offline": str(project.folder / OFFLINE)} if stack in (*OF_PLACES, *OF_BUCKETS) else environment_of(stack)
        )
        flags = [word for key, value in given.items() for word in ("-c", f"{key}={value}")]
        return project.pulumi("preview", "--stack", stack, "--policy-pack", str(ROOT / "policy"), *flags, ok=ok)

    return run
