"""What the bootstrap installs by the settings of a stack, which it reads before anything here can read YAML."""

import sys

import pytest

from tools.setup import bootstrap, pulumi_cli, uv
from tools.setup.project import ROOT

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
    """So that setting a key and `make up` are enough, also where the value is of this call alone."""
    asked: list[set[str]] = []
    monkeypatch.setattr(bootstrap, "stack_text", lambda _: settings)
    monkeypatch.setattr(uv, "sync", asked.append)
    monkeypatch.setattr(uv, "find_uv", lambda: None)
    monkeypatch.setattr(pulumi_cli, "ensure", lambda: None)
    monkeypatch.setattr(sys, "argv", ["bootstrap", "--stack", "local"])
    monkeypatch.setenv("SET", overrides)

    bootstrap.main()

    assert [extras] == asked
