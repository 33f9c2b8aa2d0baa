"""What the bootstrap installs by the settings of a stack, which it reads before anything here can read YAML."""

import fcntl
import os
from pathlib import Path

import pytest

from cli.setup import bootstrap, pulumi_cli, uv
from cli.setup.project import ROOT

LOCAL = (ROOT / "stacks/Pulumi.local.yaml").read_text(encoding="utf-8")
MINIKUBE = (ROOT / "stacks/Pulumi.minikube.yaml").read_text(encoding="utf-8")
SERVER = "http://mlflow.example.com:5000"


def test_who_may_only_read_here_waits_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user of a clone that is set up: the lock is opened for reading, which is enough to wait for it."""
    modes: list[int] = []
    monkeypatch.setattr(bootstrap, "TOOLS", tmp_path)
    monkeypatch.setattr(bootstrap, "lock_or_wait", lambda lock, _: modes.append(fcntl.fcntl(lock, fcntl.F_GETFL)))
    monkeypatch.setattr(uv, "sync", lambda *_, **__: None)

    bootstrap.ensure()

    assert [os.O_RDONLY] == [mode & os.O_ACCMODE for mode in modes]


@pytest.mark.parametrize(
    ("settings", "overrides", "extras"),
    [
        (LOCAL, {}, set()),
        (MINIKUBE, {}, set()),
        (f"{LOCAL}\n  ray-worth-it:trackingUri: {SERVER}\n", {}, {"tracking"}),
        (f'config:\n  "ray-worth-it:trackingUri": "{SERVER}"\n', {}, {"tracking"}),
        (f"config:\n  trackingUri: {SERVER}\n  target: minikube\n", {}, {"tracking"}),
        (LOCAL, {"workers": "3", "trackingUri": SERVER}, {"tracking"}),
        (f'config:\n  ray-worth-it:trackingUri: ""\n  # trackingUri: {SERVER}\n', {"workers": "3"}, set()),
    ],
)
def test_a_stack_gets_what_its_settings_need(
    settings: str, overrides: dict[str, str], extras: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that setting a key and `rwi up` are enough, also where the value is of this call alone. A sweep's
    stack has none, but those of the stack it was made from. Each gets the programs that a stack is updated with."""
    asked: list[set[str]] = []
    programs: list[str] = []
    monkeypatch.setattr(bootstrap, "stack_text", lambda name: {"local": settings}[name])
    monkeypatch.setattr(uv, "sync", lambda parts, whole: asked.append(set(parts)))
    monkeypatch.setattr(uv, "find_uv", lambda: programs.append("uv"))
    monkeypatch.setattr(pulumi_cli, "ensure", lambda: programs.append("pulumi"))

    bootstrap.ensure_for("sweep-local", overrides)

    assert [extras] == asked
    assert ["uv", "pulumi"] == programs
