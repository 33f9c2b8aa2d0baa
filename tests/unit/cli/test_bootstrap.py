"""What the bootstrap installs by the settings of a stack, which it reads before anything here can read YAML."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.setup import bootstrap, pulumi_cli, uv
from cli.setup.project import ROOT
from tests.golden import Wording
from tests.limits import LONGEST_SECONDS

LOCAL = (ROOT / "stacks/Pulumi.local.yaml").read_text(encoding="utf-8")
MINIKUBE = (ROOT / "stacks/Pulumi.minikube.yaml").read_text(encoding="utf-8")
SERVER = "http://mlflow.example.com:5000"


@pytest.mark.parametrize(
    ("settings", "overrides", "extras"),
    [
        (LOCAL, "", set()),
        (MINIKUBE, "", set()),
        (f"{LOCAL}\n  ray-worth-it:trackingUri: {SERVER}\n", "", {"tracking"}),
        (f'config:\n  "ray-worth-it:trackingUri": "{SERVER}"\n', "", {"tracking"}),
        (f"config:\n  trackingUri: {SERVER}\n  target: minikube\n", "", {"tracking"}),
        (LOCAL, f"workers=3 trackingUri={SERVER}", {"tracking"}),
        (f'config:\n  ray-worth-it:trackingUri: ""\n  # trackingUri: {SERVER}\n', "workers=3", set()),
    ],
)
def test_a_stack_gets_what_its_settings_need(
    settings: str, overrides: str, extras: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that setting a key and `rwi up` are enough, also where the value is of this call alone."""
    asked: list[set[str]] = []
    monkeypatch.setattr(bootstrap, "stack_text", lambda _: settings)
    monkeypatch.setattr(uv, "sync", asked.append)
    monkeypatch.setattr(uv, "find_uv", lambda: None)
    monkeypatch.setattr(pulumi_cli, "ensure", lambda: None)
    monkeypatch.setattr(sys, "argv", ["bootstrap", "--stack", "local"])
    monkeypatch.setenv("SET", overrides)

    bootstrap.main()

    assert [extras] == asked


SETS_UP = """
import pathlib, runpy, sys, time
from cli.setup import project, uv
project.TOOLS = pathlib.Path(sys.argv.pop())
def sync(_):
    print("sets up", flush=True)
    time.sleep(600)
uv.sync = sync
runpy.run_module("cli.setup.bootstrap", run_name="__main__")
"""
"""The set-up of a machine that lacks everything."""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone tells a process that its parent has ended")
def test_the_set_up_ends_with_its_recipe(tmp_path: Path, wording: Wording) -> None:
    """Make tells the recipe's shell, which waits, and tells nobody."""
    command = ["sh", "-c", '"$@" && exec true', "sh", sys.executable, "-c", SETS_UP, str(tmp_path)]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ | {"MAKELEVEL": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as recipe:
        assert recipe.stdout is not None
        recipe.stdout.readline()
        recipe.terminate()
        _, errors = recipe.communicate(timeout=LONGEST_SECONDS)

    wording("setup", errors)
