"""What `rwi up` does around `pulumi up` for a Minikube stack, and what it says when that fails."""

import json
import sys
from pathlib import Path

import pytest

from cli.look import update
from cli.setup.project import ToolError
from cli.stack import environment
from cli.stack.recovery import Recovery
from cli.stack.stack import Stack
from training.machine import machine_lock
from training.machine.machine_lock import Holder

RELEASE = "urn:pulumi:ci::ray-worth-it::ray-worth-it:cluster:Operator$kubernetes:helm.sh/v3:Release::operator-release"


class Recorded:
    """A stack whose pulumi commands are only noted, with whether the machine's lock was held meanwhile."""

    def __init__(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[str] = []
        monkeypatch.setattr(environment, "for_pulumi", lambda *_: {})
        monkeypatch.setattr(update, "resume", lambda stack, _: self.note(f"resume {stack}"))
        monkeypatch.setattr(update, "mark_interrupted_release", lambda stack, _: self.note(f"release of {stack}"))
        monkeypatch.setattr(Recovery, "pulumi", lambda _, *arguments, **__: self._answer(arguments))
        self.deployment: dict[str, object] = {}
        self.stack = Stack(name, {})
        monkeypatch.setattr(self.stack, "update", self._fail_to_update)
        monkeypatch.setattr(self.stack, "comparison", lambda: None)

    def _answer(self, arguments: tuple[str, ...]) -> str:
        if arguments != ("stack", "export"):
            self.note(arguments[0])
        return json.dumps({"deployment": self.deployment})

    def note(self, step: str) -> None:
        """Add a step; with a + when nobody else could measure meanwhile."""
        self.steps.append(step + ("+" if self._is_held() else ""))

    def _fail_to_update(self) -> int:
        self.note("update")
        return 255

    def _is_held(self) -> bool:
        taken = machine_lock.take_name(machine_lock.NAME)
        if isinstance(taken, Holder):
            return True
        taken.close()
        return False


def test_a_minikube_update_has_the_machine_to_itself(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stopped cluster is started first; after a failure, how to have everything in one archive is said."""
    recorded = Recorded("ci", monkeypatch)

    assert 255 == recorded.stack.up()
    assert ["resume ci+", "update+"] == recorded.steps
    assert "./rwi doctor --archive --stack ci" in capsys.readouterr().err


def test_an_update_of_an_existing_cluster_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It measures elsewhere."""
    recorded = Recorded("kubernetes", monkeypatch)
    recorded.stack.up()

    assert ["update"] == recorded.steps


@pytest.mark.parametrize(
    ("begun", "expected"),
    [([RELEASE], ["refresh", "release of ci"]), (["urn:a::b::kubernetes:batch/v1:Job::ray-1"], ["refresh"]), ([], [])],
)
def test_a_release_whose_creation_was_interrupted_is_taken_up(
    begun: list[str], expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Helm may have ended after Pulumi was killed, and would refuse the same name."""
    recorded = Recorded("ci", monkeypatch)
    operations = [{"type": "creating", "resource": {"urn": urn}} for urn in begun]
    recorded.deployment = {"pending_operations": operations}
    recorded.stack._recovery.clear(Path("config"), {})

    assert expected == recorded.steps


@pytest.mark.parametrize("pinned_as", [None, "before"])
def test_destroy_asks_for_others_jobs_before_it_deletes(pinned_as: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the state has a RayCluster, though settings are wrong by now, and by the kubeconfig that leads there: after
    `pulumi stack rename` that of the old name. What refuses has changed nothing."""
    recorded = Recorded("ci", monkeypatch)
    ray = {"type": "kubernetes:ray.io/v1:RayCluster", "inputs": {"metadata": {"namespace": "of-the-state"}}}
    begun = [{"type": "creating", "resource": {"urn": RELEASE}}]
    pinned = {"type": "pulumi-python:dynamic/cluster:Pinned", "inputs": {"stack": pinned_as}}
    resources = [{"type": "pulumi:pulumi:Stack"}, *([pinned] if pinned_as else []), ray]
    recorded.deployment = {"resources": resources, "pending_operations": begun}
    recorded.stack.target, recorded.stack.overrides = "local", {"workers": "x"}
    monkeypatch.setattr(recorded.stack, "_exists", lambda: True)

    def refuse(stack: str, namespace: str, pinned_as: str) -> None:
        raise ToolError(f"{stack} {namespace} {pinned_as}")

    monkeypatch.setattr(update, "refuse_to_end_others", refuse)
    with pytest.raises(ToolError, match=f"ci of-the-state {pinned_as or 'ci'}"):
        recorded.stack.destroy()
    assert [] == recorded.steps


@pytest.mark.parametrize(("name", "status", "is_said"), [("ci", 0, True), ("ci", 255, False), ("smoke", 0, False)])
def test_the_last_line_of_destroy_says_what_is_left(
    name: str, status: int, is_said: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After pulumi's own, which tells the user to remove the stack, and with it the settings. `smoke` is removed."""
    recorded = Recorded(name, monkeypatch)
    monkeypatch.setattr(recorded.stack, "_exists", lambda: True)

    def run(*_: object, **__: object) -> int:
        print("pulumi's line", file=sys.stderr)
        return status

    monkeypatch.setattr(recorded.stack, "_run", run)
    assert status == recorded.stack.destroy()
    last = capsys.readouterr().err.splitlines()[-1]
    assert is_said == all(text in last for text in ("stacks/Pulumi.ci.yaml", "`pulumi stack rm`"))


def test_an_update_asks_for_others_jobs_where_the_state_has_the_ray_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is changed: the settings may name another namespace by now."""
    recorded = Recorded("ci", monkeypatch)
    ray = {"type": "kubernetes:ray.io/v1:RayCluster", "inputs": {"metadata": {"namespace": "of-the-state"}}}
    recorded.deployment = {"resources": [{"type": "pulumi:pulumi:Stack"}, ray]}
    monkeypatch.setattr(recorded.stack, "select", lambda: 0)

    def refuse(stack: str, _: object, namespaces: list[str], pinned_as: str) -> None:
        raise ToolError(f"{stack} {' '.join(namespaces)} {pinned_as}")

    monkeypatch.setattr(update, "refuse_to_move_others", refuse)
    with pytest.raises(ToolError, match=r"\Aci of-the-state ci\Z"):
        Stack.update(recorded.stack)
    assert [] == recorded.steps
