"""Previews of every stack by the real engine, with the plugins of this machine or with stand-ins for those it lacks."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.program.conftest import NewProject, cli, new_project  # noqa: F401 - fixtures
from tests.program.engine import ROOT, Project
from tests.stacks import OF_BUCKETS, OF_PLACES, environment_of
from tests.unit.places.test_chart import archive

PLUGINS = ("kubernetes", "command")
CHART = "kuberay-operator-1.6.2.tgz"

Preview = Callable[..., str]


@pytest.fixture
def project(new_project: NewProject, tmp_path: Path) -> Project:  # noqa: F811
    """A copy of the project that can preview cluster stacks: it has a chart, and every plugin."""
    made = new_project()
    (made.folder / CHART).write_bytes(archive())
    folder = tmp_path / "plugins"
    folder.mkdir()
    for name in PLUGINS:
        if shutil.which(f"pulumi-resource-{name}") is None:
            _write_stand_in(folder / f"pulumi-resource-{name}")
    made.environment["PATH"] += f":{folder}"
    return made


def _write_stand_in(program: Path) -> None:
    run = f'exec env PYTHONPATH="{ROOT}" "{sys.executable}" -m tests.policy.stand_in_plugin'
    program.write_text(f"#!/bin/sh\n{run}\n", encoding="utf-8")
    program.chmod(0o755)


@pytest.fixture
def preview(project: Project) -> Preview:
    """`pulumi preview --policy-pack policy` of a stack, which has to be admitted with `ok`, else refused."""

    def run(stack: str, *, ok: bool = True) -> str:
        project.pulumi("stack", "init", stack)
        given = (
            {"kuberayChart": str(project.folder / CHART)}
            if stack in (*OF_PLACES, *OF_BUCKETS)
            else environment_of(stack)
        )
        flags = [word for key, value in given.items() for word in ("-c", f"{key}={value}")]
        return project.pulumi("preview", "--stack", stack, "--policy-pack", str(ROOT / "policy"), *flags, ok=ok)

    return run
