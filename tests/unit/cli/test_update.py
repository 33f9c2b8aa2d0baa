"""Around an update of a Minikube stack: one measurement at a time, and a stopped cluster started first."""

import re
import subprocess
import sys
import threading
from unittest.mock import Mock, call

import pytest

from cli.look import update
from cli.setup.project import ToolError
from infra.places.cluster.api import kube, ray_api
from infra.places.cluster.api.kube import KubeError
from infra.places.minikube import command as scripts
from infra.programs import ProgramError
from tests.golden import Wording
from tests.limits import LONGEST_SECONDS, wait_for
from training.machine import machine_lock
from training.machine.machine_lock import Holder

HOLD = """
import sys
from cli.look.update import alone
from training.machine import machine_lock
machine_lock.NAME = "\\0" + sys.argv[1]
with alone('minikube'):
    print(flush=True)
    sys.stdin.read()
"""


def test_a_second_update_waits_for_the_first(
    machine_lock_name: str, capsys: pytest.CaptureFixture[str], wording: Wording
) -> None:
    """And says so; it goes on when the first has ended, however that ended."""
    entered = threading.Event()

    def second() -> None:
        with update.alone("minikube"):
            entered.set()

    command = [sys.executable, "-c", HOLD, machine_lock_name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        assert first.stdout
        first.stdout.readline()
        waiting = threading.Thread(target=second)
        waiting.start()
        said = wait_for(lambda: capsys.readouterr().err, "it waits")
        too_early = entered.is_set()
        first.kill()
        waiting.join(LONGEST_SECONDS)

    assert (False, True) == (too_early, entered.is_set())
    said += capsys.readouterr().err
    assert f"process {first.pid} " in said
    wording("stack", re.sub(r"\(.*\)", "(WHO)", said))


def test_the_lock_is_that_of_runs_on_this_machine() -> None:
    """A local measurement beside one on Minikube would spoil both; afterwards it is free."""
    with update.alone("minikube"):
        meanwhile = machine_lock.take_name(machine_lock.NAME)
    afterwards = machine_lock.take_name(machine_lock.NAME)

    assert isinstance(meanwhile, Holder)
    assert not isinstance(afterwards, Holder)
    afterwards.close()


def test_what_is_in_the_lock_s_place_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is a file; without a traceback."""
    monkeypatch.setattr(machine_lock, "take", Mock(side_effect=machine_lock.LockError("a folder")))
    with pytest.raises(ToolError, match="a folder"), update.alone("minikube"):
        pass


def test_the_cluster_of_the_settings_is_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of those of this call alone; why it can't be is said without a traceback."""
    resume = Mock()
    monkeypatch.setattr(scripts, "resume", resume)
    update.resume("ci", {})
    update.resume("ci", {"minikubeProfile": "mine"})

    assert [call("ray-worth-it-ci"), call("mine")] == resume.mock_calls
    resume.side_effect = ProgramError("no daemon")
    with pytest.raises(ToolError, match="ci: no daemon"):
        update.resume("ci", {})


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """What asks a cluster for others' jobs: there is one."""
    job = {"submission_id": "train-1", "status": "RUNNING", "entrypoint": "python train.py"}
    asks = Mock(return_value=[job])
    monkeypatch.setattr(kube, "own_text", lambda _: "a kubeconfig")
    monkeypatch.setattr(kube, "connect", lambda path: f"api of {path}")
    monkeypatch.setattr(ray_api, "jobs_of_others", asks)
    return asks


def test_a_cluster_with_somebody_s_job_is_not_destroyed(others: Mock) -> None:
    """`rwi destroy` names the job and the line that ends it; asked of the stack's own cluster and namespace."""
    refused = r"(?s)stack ci: nothing was changed: .*train-1 \(python train.py\)\..*./rwi jobs stop"
    with pytest.raises(ToolError, match=refused):
        update.refuse_to_end_others("ci", "mine", "before")
    others.assert_called_once_with(f"api of {kube.own_path('before')}", "mine", "before")


def test_a_cluster_that_can_t_be_asked_about_jobs(
    others: Mock, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """It may be gone. One whose Ray is ready and does not answer may hold one: it stays, with the line that goes on."""
    with monkeypatch.context() as patch:
        patch.setattr(kube, "own_text", lambda _: None)
        update.refuse_to_end_others("ci", "mine", "ci")
    others.side_effect = KubeError("refused")
    update.refuse_to_end_others("ci", "mine", "ci")
    helps = {
        401: ["pulumi up --target '**pinned-cluster' --stack ci", "./rwi destroy --stack ci"],
        403: ["./rwi destroy --stack ci", "pulumi destroy --stack ci"],
    }
    for status, lines in helps.items():
        others.side_effect = KubeError("forbidden", status)
        with pytest.raises(ToolError, match="forbidden") as refused:
            update.refuse_to_end_others("ci", "mine", "ci")
        assert lines == [line.strip() for line in str(refused.value).splitlines() if line.startswith("  ")]
        wording("stack", str(refused.value), f"HTTP {status}")
    others.side_effect = ray_api.RayError("not known")
    with pytest.raises(ToolError, match=r"ci: .*not known"):
        update.refuse_to_end_others("ci", "mine", "ci")


def test_a_namespace_with_somebody_s_job_is_not_left(others: Mock) -> None:
    """The update would end the job with the Ray cluster there, and the program asks in the new namespace alone."""
    update.refuse_to_move_others("minikube", {"namespace": "here"}, ["here"], "minikube")
    others.assert_not_called()
    with pytest.raises(ToolError) as refused:
        update.refuse_to_move_others("minikube", {"namespace": "there"}, ["here"], "before")
    assert ("here", "before") == others.call_args.args[1:]
    lines = [line.strip() for line in str(refused.value).splitlines() if line.startswith("  ")]
    assert lines == ["./rwi set namespace=here --stack minikube", "./rwi jobs stop train-1 --stack minikube"]
    with pytest.raises(ToolError, match="target local") as refused:
        update.refuse_to_move_others("minikube", {"target": "local"}, ["here"], "minikube")
    assert "./rwi set namespace" not in str(refused.value)
    assert "./rwi jobs stop train-1 --stack minikube" in str(refused.value)


def test_a_namespace_that_can_t_be_asked_is_left_with_make_up(others: Mock) -> None:
    """Its fixing lines are those of an update: those of `destroy` would delete everything."""
    others.side_effect = KubeError("forbidden", 403)

    with pytest.raises(ToolError) as refused:
        update.refuse_to_move_others("minikube", {"namespace": "there"}, ["here"], "minikube")
    assert "destroy" not in str(refused.value)
    assert "./rwi up --stack minikube" in str(refused.value)
