"""Pulumi without make, with the language host of newer CLIs: what it syncs, when, and what it needs."""

import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from tests.docs import markdown
from tests.docs.test_session import RUN_ELSEWHERE
from tests.limits import LONGEST_SECONDS, wait_for
from tests.policy.plugins import OFFLINE, add_what_clusters_need
from tests.program import plain
from tests.program.engine import Project

PLANNED = re.compile(r"\+ (\d+) to create")


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all tests of a process."""
    return plain.install(tmp_path_factory.mktemp("installed"))


@plain.needs_host
def test_no_sync_is_beside_a_run(project: Project, cli: Path, environment: Path) -> None:
    """The host syncs before the program is started, and not while anything trains; an `up` waits 4 s for it at most."""
    noted = plain.with_host(project, cli, environment)
    project.create_stack(repeats="2")
    project.control("baseline-1", "wait")
    with project.running_up() as up:
        wait_for(lambda: any(project.folder.glob("runs/local/*/progress.jsonl")), "a run")
        began = time.time()
        project.control("baseline-1", "")
        up.wait(timeout=LONGEST_SECONDS)
    first = plain.calls(noted)
    project.up("--expect-no-changes")
    second = plain.calls(noted)[len(first) :]

    assert 0 == up.returncode
    assert "sync" in {word for call in first for word in call.words}
    assert [] == [call for call in first if call.ended > began]
    assert 4 > sum(call.ended - call.began for call in second)


@plain.needs_host
@pytest.mark.parametrize("stack", ["ci", "minikube"])
def test_a_cluster_is_planned_without_a_network(stack: str, project: Project, cli: Path, environment: Path) -> None:
    """With the packages of the card, from an empty cache, and without uvx: all is there after `pulumi install`."""
    noted = plain.with_host(project, cli, environment)
    add_what_clusters_need(project, project.folder.parent / "plugins")
    project.environment |= {"UV_OFFLINE": "1", "UV_CACHE_DIR": str(project.folder.parent / "no cache")}
    project.pulumi("stack", "init", stack)
    shown = project.pulumi("preview", "-c", f"offline={OFFLINE}")

    assert "ray-worth-it:cluster:RayTrainingCluster ray create" in shown
    assert {"sync", "--version", "venv"} == {call.words[0] for call in plain.calls(noted)}


@plain.needs_host
def test_the_policy_pack_works_with_it(project: Project, cli: Path, environment: Path) -> None:
    """It is of the environment that `pulumi install` makes."""
    plain.with_host(project, cli, environment)
    plain.with_rwi(project)
    project.create_stack()

    assert "✅ ray-worth-it@v1.0.0" in project.pulumi("preview", "--policy-pack", "policy")


@plain.needs_host
def test_rwi_brings_uv_to_a_cli_of_the_user_s(project: Project, cli: Path, environment: Path) -> None:
    """None is on PATH, and the host starts `uv` by that name; plain commands find it in the shell of `rwi project
    env`."""
    plain.with_host(project, cli, environment, uv_on_path=False)
    plain.with_rwi(project)
    shown = [
        subprocess.run(
            command, cwd=project.folder, env=project.environment, capture_output=True, text=True, check=False
        )
        for command in (
            ["./rwi", "preview"],
            ["sh", "-euc", 'eval "$(./rwi project env)"; pulumi preview'],
        )
    ]

    assert [0, 0] == [each.returncode for each in shown], shown
    assert all(PLANNED.search(each.stdout) for each in shown)


@plain.needs_host
def test_without_uv_plain_pulumi_says_so(project: Project, cli: Path, environment: Path) -> None:
    """The host's own message, in place of a missing module."""
    plain.with_host(project, cli, environment, uv_on_path=False)
    project.pulumi("stack", "init", "local")

    assert "`uv`" in project.pulumi("preview", ok=False)


def test_the_host_that_is_built_here_knows_nothing_of_toolchains(project: Project, cli: Path) -> None:
    """And needs no uv: where Go builds the CLI, nothing else has to be there."""
    project.environment["PATH"] = os.pathsep.join(
        [str(project.folder / ".venv/bin"), str(cli.parent), "/usr/bin", "/bin"]
    )
    project.create_stack()

    assert PLANNED.search(project.pulumi("preview"))


def page() -> list[str]:
    """The lines of docs/plain-pulumi.md from `pulumi install` on."""
    name = "docs/plain-pulumi.md"
    (block,) = [its for its in markdown.blocks(name, markdown.read(name)) if its.info == RUN_ELSEWHERE]
    assert "pulumi install --no-plugins" == block.lines[0]
    return list(block.lines)


def run_page(project: Project, lines: list[str]) -> str:
    """Paste the lines into a shell, and look at what has to be so after them."""
    ended = subprocess.run(
        ["bash", "-euc", "\n".join(lines)],
        cwd=project.folder, env=project.environment, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert 0 == ended.returncode, ended.stdout + ended.stderr
    assert (project.folder / "stacks/Pulumi.local.yaml").is_file()
    return ended.stdout


@plain.needs_host
def test_the_page_works_as_it_stands(project: Project, cli: Path, environment: Path) -> None:
    """From `pulumi install` to `pulumi stack rm`, with arms that train nothing; the stack's file is still there."""
    plain.with_host(project, cli, environment)

    assert "6 unchanged" in run_page(project, page())


@pytest.mark.slow
def test_the_page_works_with_the_host_that_is_built_here(project: Project) -> None:
    """But for its first line: that host knows no uv, and `rwi` installs for it."""
    assert "6 unchanged" in run_page(project, page()[1:])
