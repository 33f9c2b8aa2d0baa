"""The tools on a stack of target `ray`: they ask the cluster that its settings name, with its token."""

import re
import subprocess
from collections.abc import Iterator

import pytest

from cli.look import cluster, ray_cluster
from cli.setup.project import STACKS, ToolError
from cli.stack import config as stack_config
from infra.places.ray import owner
from tests.golden import Wording
from tests.typed import typed
from tests.unit.fake_ray import TOKEN, FakeRay, serving
from training.launch.ray.jobs_api import TOKEN as VARIABLE
from training.launch.ray.other_jobs import mark


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRay]:
    """The cluster of stack `ray`, on which somebody's job runs."""
    fake = FakeRay(states={"theirs": ["RUNNING"]})
    with serving(fake) as address:
        monkeypatch.setenv(VARIABLE, TOKEN)
        fake.address = address
        yield fake


def ask(ray: FakeRay, *words: str) -> int:
    """Run a command for stack `ray`, at that cluster's address."""
    return typed(*words, "--stack", "ray", "--set", f"rayAddress={ray.address}")


def test_status_has_nodes_and_what_runs(ray: FakeRay, capsys: pytest.CaptureFixture[str], wording: Wording) -> None:
    """And never the token."""
    assert 0 == ask(ray, "status")
    shown = capsys.readouterr().out

    assert "Ray job: theirs" in shown
    assert TOKEN not in shown
    wording("status", re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", shown))


def test_the_dashboard_is_where_the_address_leads(ray: FakeRay, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing has to be forwarded."""
    assert 0 == ask(ray, "jobs", "dashboard")

    assert capsys.readouterr().out.startswith("dashboard: http://127.0.0.1:")


def test_jobs_are_listed_and_stopped(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the line that a refused update prints."""
    assert 0 == ask(ray, "jobs", "list")
    assert "theirs" in capsys.readouterr().out
    assert 0 == ask(ray, "jobs", "stop", "theirs")

    assert ["STOPPED"] == ray.states["theirs"]


def test_nothing_is_submitted_beside_a_run(ray: FakeRay, monkeypatch: pytest.MonkeyPatch, wording: Wording) -> None:
    """Of the stack's own measurement, which was interrupted, or of somebody's, which is waited for."""
    for whose, own in {owner.of("ray"): True, "ray-of-another": False}.items():
        ray.states, ray.marks = {"ray-1-x": ["RUNNING"]}, {"ray-1-x": mark(whose)}
        with pytest.raises(ToolError, match=r"\./rwi jobs stop ray-1-x --stack ray") as refused:
            ask(ray, "jobs", "submit", "examples/torch_ddp.py")
        wording("jobs", str(refused.value), "one's own" if own else "of somebody")


def test_a_wrong_token_is_said_with_the_line_that_asks_for_another(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what lists jobs as by what finds what is needed."""
    monkeypatch.setenv(VARIABLE, "wrong")

    with pytest.raises(ToolError, match="pulumi config set --secret rayToken"):
        ask(ray, "jobs", "list")
    assert 1 == ask(ray, "doctor")


@pytest.mark.usefixtures("ray")
def test_what_is_of_kubernetes_alone_says_so() -> None:
    """`rwi doctor --archive` packs what an API server tells."""
    with pytest.raises(ToolError, match="stack minikube"):
        cluster.find("ray", {})


@pytest.mark.parametrize("stack", ["ray", "sweep-ray"])
def test_a_stack_without_a_token_asks_nobody_for_it(monkeypatch: pytest.MonkeyPatch, stack: str) -> None:
    """Its file has none, so pulumi is not asked to decrypt one. A sweep's has that of the stack it was made from."""
    monkeypatch.delenv(VARIABLE, raising=False)
    found = ray_cluster.find(stack, {})

    assert found is not None
    assert "" == found.settings.of_ray.ray_token
    assert ray_cluster.find("local", {}) is None


def test_a_token_that_can_be_read_on_the_way_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By every command that sends it; to this machine, or with TLS, it is nothing to be said."""
    monkeypatch.setenv(VARIABLE, TOKEN)
    said = {}
    for address in ("http://head:8265", "https://head:8265", "http://localhost:8265"):
        ray_cluster.find("ray", {"rayAddress": address})
        said[address] = "ssh -N -L 8265:localhost:8265 head" in capsys.readouterr().err

    assert {"http://head:8265": True, "https://head:8265": False, "http://localhost:8265": False} == said


def test_a_sweep_s_token_is_that_of_the_stack_it_was_made_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which alone has a file: by its name pulumi decrypts it."""
    asked: list[list[str]] = []

    def capture(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        return subprocess.CompletedProcess(command, 0, f"{TOKEN}\n", "")

    monkeypatch.setattr(ray_cluster, "capture", capture)
    monkeypatch.setattr(stack_config, "config_of", lambda _: {f"ray-worth-it:{ray_cluster.KEY}": {"secure": "v1:…"}})

    assert TOKEN == ray_cluster._token("sweep-ray")
    assert ["--stack", "ray", "--config-file", str(STACKS / "Pulumi.ray.yaml")] == asked[0][-4:]
