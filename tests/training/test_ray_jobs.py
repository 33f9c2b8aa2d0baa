"""Ray's own Job Submission API, for real: packages, logs as they grow, stops, and whose a job is. One head for all."""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from socket import create_connection
from typing import Any

import pytest

from cli.look import cluster, update
from cli.setup.project import ToolError
from cli.stack import environment as stack_environment
from infra.places.cluster.api import kube, ray_api
from infra.places.cluster.manifests.ray_cluster import HEAD_LABELS, TOKEN_KEY, TOKEN_SECRET
from tests.golden import Wording
from tests.limits import LONGEST_SECONDS, wait_for
from tests.ray_head import HERE, PYTHON, TOKEN, Head, needed, running
from tests.typed import typed
from tests.unit.kube_api import NAMESPACE, Api, pod, secret, serving
from training.launch.ray import jobs_api, submit
from training.launch.ray.driver import LOOPBACK
from training.launch.ray.jobs_api import JobsApi, SubmitError
from training.launch.ray.other_jobs import is_unfinished, mark
from training.launch.ray.submit import OthersError, Whose
from training.workloads.script import source

pytestmark = [needed, pytest.mark.slow]
CI = Whose("ci", "ci")
SLEEPER = "import time; print('begun', flush=True); time.sleep(600)"


@pytest.fixture(scope="module")
def head() -> Iterator[Head]:
    """A head of this module's own, for all its tests."""
    with running(cpus=1) as started:
        yield started


@pytest.fixture
def api(head: Head, monkeypatch: pytest.MonkeyPatch) -> Iterator[JobsApi]:
    """The head's, which runs nothing before and after."""
    monkeypatch.setattr(jobs_api, "POLL_SECONDS", 0.2)
    monkeypatch.setattr(jobs_api, "PATIENCE_SECONDS", 5.0)
    yield head.api()
    for job in filter(is_unfinished, head.api().jobs()):
        head.api().stop(job["submission_id"])
        wait_for(partial(has_ended, head.api(), job["submission_id"]))


def state(api: JobsApi, name: str) -> str:
    """A job's."""
    return str(api.job(name)["status"])


def has_ended(api: JobsApi, name: str) -> bool:
    """Whether a job has."""
    return not is_unfinished(api.job(name))


def begin(api: JobsApi, name: str, metadata: dict[str, str] | None = None) -> None:
    """A job that does not end by itself, running."""
    api.submit(name, ["python", "-c", SLEEPER], {}, metadata)
    wait_for(lambda: "begun" in api.log(name))


class Counting(JobsApi):
    """Keeps what was sent."""

    def __init__(self, head: Head) -> None:
        super().__init__(f"http://{HERE}:{head.dashboard}", TOKEN)
        self.sent: list[str] = []

    def _send(self, method: str, path: str, content: bytes | None = None) -> bytes:
        self.sent.append(method)
        return super()._send(method, path, content)


LOOK = """
import json, os, sys
names = sorted(name for name in os.listdir() if not name.startswith("."))
from parts import net
seen = {"folder": names, "given": os.environ["GIVEN"], "runs": os.access("start.sh", os.X_OK), "module": net.SIZE}
print("seen", json.dumps({**seen, "arguments": sys.argv[1:]}))
"""
"""What it was started with, as `seen_in` reads it."""


def seen_in(log: str) -> dict[str, Any]:
    """What the script of LOOK saw."""
    (line,) = (line for line in log.splitlines() if line.startswith("seen "))
    return dict(json.loads(line.removeprefix("seen ")))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A script with a module beside it."""
    made = tmp_path / "mine"
    (made / "parts").mkdir(parents=True)
    (made / "look.py").write_text(LOOK)
    (made / "parts" / "net.py").write_text("SIZE = 3\n")
    (made / "start.sh").write_text("#!/bin/sh\n")
    (made / "start.sh").chmod(0o755)
    return made


def test_a_folder_is_sent_once_and_a_job_starts_in_it(
    head: Head, api: JobsApi, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its modules, modes and variables; Ray itself unpacks it. The same content is not sent again, another is."""
    counting = Counting(head)
    uri = counting.upload(source.packed_folder(folder))
    assert ["GET", "PUT"] == counting.sent
    assert uri == counting.upload(source.packed_folder(folder))
    assert ["GET", "PUT", "GET"] == counting.sent

    api.submit("look-1", ["python", "look.py", "--text", "two words"], {"GIVEN": "it is"}, working_dir=uri)
    submit.follow(api, "look-1")
    shown = capsys.readouterr().out
    (folder / "parts" / "net.py").write_text("SIZE = 4\n")

    assert {
        "folder": ["look.py", "parts", "start.sh"],
        "given": "it is",
        "runs": True,
        "module": 3,
        "arguments": ["--text", "two words"],
    } == seen_in(shown)
    assert uri != counting.upload(source.packed_folder(folder))
    assert ["GET", "PUT"] == counting.sent[3:]


def test_a_log_is_shown_as_it_grows(api: JobsApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The job goes on when its first line has been read, and its last comes after that. Each is shown once."""
    go = tmp_path / "go"
    begins = "import os, time\nprint('first', flush=True)\n"
    wait = f"{begins}while not os.path.exists({str(go)!r}): time.sleep(.1)\nprint('last')"
    seen: list[str] = []

    def meanwhile() -> None:
        seen.append(capsys.readouterr().out)
        if "first\n" in "".join(seen):
            go.touch()

    api.submit("grows", ["python", "-c", wait], {})
    submit.follow(api, "grows", meanwhile)
    seen.append(capsys.readouterr().out)
    lines = "".join(seen).splitlines()

    assert (1, 1) == (lines.count("first"), lines.count("last"))
    assert lines.index("first") < lines.index("last")


def test_a_job_that_fails_says_why_once(api: JobsApi, capsys: pytest.CaptureFixture[str], wording: Wording) -> None:
    """Ray's message repeats the log, which was shown."""
    api.submit("fails", ["python", "-c", "raise SystemExit('no such data')"], {})
    with pytest.raises(SubmitError) as failed:
        submit.follow(api, "fails")

    assert "no such data" in capsys.readouterr().out
    assert "no such data" not in str(failed.value)
    wording("ray-jobs", str(failed.value))


def test_a_measurement_stops_its_own_and_no_other(head: Head, api: JobsApi, wording: Wording) -> None:
    """What `ray job submit` made runs on beside a refused run; without it what a measurement left is ended."""
    address = f"http://{HERE}:{head.dashboard}"
    by_hand = [PYTHON, "-m", "ray.scripts.scripts", "job", "submit", f"--address={address}", "--no-wait",
               "--submission-id=theirs", "--", "sleep", "600"]  # fmt: skip
    done = subprocess.run(
        by_hand, env=head.environment, capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False
    )
    assert 0 == done.returncode, done.stderr
    wait_for(lambda: state(api, "theirs") == "RUNNING")
    begin(api, "left", mark("ci"))
    begin(api, "measured-elsewhere", mark("another"))
    with pytest.raises(OthersError, match=r"(?s)theirs \(sleep 600\).*./rwi jobs stop theirs --stack ci"):
        submit.run(api, "measured", ["ray"], {}, "ci")
    assert ("RUNNING", "RUNNING") == (state(api, "theirs"), state(api, "left"))
    assert "measured" not in {job["submission_id"] for job in api.jobs()}

    api.stop("theirs")
    wait_for(lambda: state(api, "theirs") == "STOPPED")
    with pytest.raises(OthersError, match=r"\./rwi jobs stop measured-elsewhere --stack ci") as refused:
        submit.stop_unfinished(api, CI)
    wording("ray-jobs", str(refused.value))
    assert ("RUNNING", "RUNNING") == (state(api, "measured-elsewhere"), state(api, "left"))

    api.stop("measured-elsewhere")
    wait_for(lambda: state(api, "measured-elsewhere") == "STOPPED")
    submit.stop_unfinished(api, CI)
    assert "STOPPED" == state(api, "left")


def test_a_driver_that_connects_by_itself_is_seen(head: Head, api: JobsApi, wording: Wording) -> None:
    """As from a shell of the head's pod. It is nobody's job, and shares the CPUs all the same."""
    program = f"import ray, sys; ray.init({head.address!r}); print('in', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [PYTHON, "-c", program], env=head.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as driver:  # fmt: skip
        assert driver.stdout is not None
        assert b"in\n" == driver.stdout.readline()
        with pytest.raises(OthersError, match=rf" {driver.pid} at {LOOPBACK}") as refused:
            submit.stop_unfinished(api, CI)
        driver.communicate()
    wait_for(lambda: submit.stop_unfinished(api, CI))
    line = re.sub(r"\b0\w{7}\b", "JOB", str(refused.value).splitlines()[-1])
    wording("ray-jobs", line.replace(f" {driver.pid} ", " PID "))


def test_a_wrong_token_is_refused_by_ray(head: Head, wording: Wording) -> None:
    """For an upload as for a question."""
    wrong = head.api("f" * 64)
    for ask in (wrong.jobs, lambda: wrong.upload(b"x")):
        with pytest.raises(SubmitError, match=r"HTTP 40[13]") as refused:
            jobs_api.patiently(ask, "ask")
        wording("ray-jobs", str(refused.value).partition(" (HTTP")[0])


@pytest.fixture
def kubernetes(head: Head, api: JobsApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    """The API server of a cluster of stack `ci`, whose head is this one; nothing is measured there."""

    @contextmanager
    def connection(*_: Any) -> Iterator[Any]:
        with create_connection((HERE, head.dashboard)) as connected:
            yield connected

    with serving(tmp_path) as (served, kubeconfig):
        monkeypatch.setattr(cluster, "connect", lambda _: kube.connect(kubeconfig))
        monkeypatch.setattr(kube, "own_path", lambda _: str(kubeconfig))
        monkeypatch.setattr(ray_api, "connection", connection)
        backend = {"PULUMI_BACKEND_URL": f"file://{tmp_path}"}
        monkeypatch.setattr(stack_environment, "state_variables", lambda _: backend)
        served.put("/api/v1", "pods", pod("head", labels=HEAD_LABELS), NAMESPACE)
        served.put("/api/v1", "secrets", secret(TOKEN_SECRET, {TOKEN_KEY: TOKEN}), NAMESPACE)
        yield served


def jobs(*words: str) -> int:
    """`rwi jobs` for stack `ci`."""
    return typed("jobs", *words, "--stack", "ci")


@pytest.mark.usefixtures("kubernetes")
def test_the_commands_from_a_script_to_its_end(
    api: JobsApi,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    wording: Wording,
) -> None:
    """Submitted and followed; listed; its log again; another that is left running, and stopped."""
    script = (folder / "look.py").rename(folder / "my look.py")
    given = (str(script), "--env", "GIVEN=a word")
    assert 0 == typed("jobs", "submit", *given, "--stack", "ci", "--", "--num-workers", "{workers}")
    shown = capsys.readouterr()
    seen = seen_in(shown.out)
    assert ("a word", True, 3) == (seen["given"], seen["runs"], seen["module"])
    assert ["--num-workers", "2"] == seen["arguments"]
    wording("ray-jobs", shown.err, "submitted")

    script.write_text(SLEEPER)
    assert 0 == typed("jobs", "submit", *given, "--detach", "--stack", "ci", "--", "--num-workers", "{workers}")
    assert capsys.readouterr().err.startswith("my-look-2: submitted")
    assert 0 == jobs("list")
    listed = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "succeeded" in listed["my-look-1"]
    whose, command = re.split("  +", listed["my-look-1"])[-2:]
    assert "submitted" == whose
    assert "python 'my look.py' --num-workers 2" == command  # not prose: a command
    assert 0 == jobs("stop", "my-look-2")
    wording("ray-jobs", capsys.readouterr().err, "stopped")
    assert "STOPPED" == state(api, "my-look-2")
    assert 0 == jobs("stop", "my-look-2")
    wording("ray-jobs", capsys.readouterr().err, "stopped twice")
    assert 0 == jobs("logs", "my-look-1")
    assert seen == seen_in(capsys.readouterr().out)
    with pytest.raises(ToolError, match=r"no job x.*my-look-1.* \./rwi jobs logs \S+ --stack ci"):
        jobs("logs", "x")


@pytest.mark.usefixtures("kubernetes")
def test_ctrl_c_leaves_the_job_running(
    api: JobsApi, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], wording: Wording
) -> None:
    """And says so, with the lines that follow it again and end it."""
    begin(api, "stays")
    seen = ray_api.jobs_of_others(cluster.connect(cluster.find("ci", {})), NAMESPACE, "ci")
    assert ["stays"] == [job["submission_id"] for job in seen]
    with pytest.raises(ToolError) as refused:
        update.refuse_to_end_others("ci", NAMESPACE, "ci")
    assert str(refused.value).endswith("\n  ./rwi jobs stop stays --stack ci")

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        jobs("logs", "stays")
    monkeypatch.undo()
    said = capsys.readouterr()

    assert "begun\n" in said.out
    assert "  ./rwi jobs logs stays --stack ci\n" in said.err
    assert said.err.endswith("  ./rwi jobs stop stays --stack ci\n")
    wording("ray-jobs", str(refused.value), "destroy")
    wording("ray-jobs", said.err, "Ctrl-C")
    assert "RUNNING" == state(api, "stays")


@pytest.mark.usefixtures("kubernetes")
def test_nothing_is_submitted_beside_what_a_measurement_left(
    api: JobsApi, folder: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """With the line that ends that, which does."""
    begin(api, "ray-1-left", mark("ci"))
    with pytest.raises(ToolError, match=r"\./rwi jobs stop ray-1-left --stack ci") as refused:
        jobs("submit", str(folder / "look.py"))
    assert ["ray-1-left"] == [job["submission_id"] for job in filter(is_unfinished, api.jobs())]
    assert 0 == jobs("stop", "ray-1-left")

    assert "STOPPED" == state(api, "ray-1-left")
    wording("ray-jobs", str(refused.value))


def test_a_token_that_was_changed_afterwards_is_said_so(
    kubernetes: Api, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """With the line that starts Ray with what the Secret holds now."""
    kubernetes.put("/api/v1", "secrets", secret(TOKEN_SECRET, {TOKEN_KEY: "f" * 64}), NAMESPACE)

    with pytest.raises(ToolError, match=r"HTTP 40[13]") as refused:
        jobs("list")
    assert str(refused.value).endswith(" delete pods --selector=ray.io/cluster=ray-training-cluster")
    wording("ray-jobs", re.sub(r" \(HTTP .*?\);", ";", str(refused.value)))
