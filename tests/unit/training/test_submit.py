"""The submitter against a server that answers as Ray's Job Submission API does."""

import io
import threading
import urllib.error
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import BadStatusLine, IncompleteRead
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.golden import Wording
from tests.unit.fake_ray import TOKEN, FakeRay, serving
from training.contract.clock import Stamp
from training.launch import entry
from training.launch.environment import FILES
from training.launch.ray import jobs_api, submit
from training.launch.ray.jobs_api import JobsApi, SubmitError
from training.launch.ray.other_jobs import mark
from training.launch.ray.submit import OthersError


@pytest.fixture(autouse=True)
def _in_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_api, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(jobs_api, "PATIENCE_SECONDS", 1.0)
    monkeypatch.setattr("signal.signal", lambda *_: None)


def test_a_run_is_submitted_and_followed_to_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    """Under the Job's name, with the flags as they are; its log is printed once."""
    ray = FakeRay(logs={"job-1": "one\ntwo\n"}, submitted=["PENDING", "RUNNING", "SUCCEEDED"])
    with serving(ray) as address:
        api = JobsApi(address, TOKEN)
        api.submit("job-1", ["python", "-m", "training.launch.pod.run", "ray", "--epochs=1"], {"A": "b"})
        submit.follow(api, "job-1")

    (_, _, body) = ray.requests[0]
    assert "python -m training.launch.pod.run ray --epochs=1" == body["entrypoint"]
    assert {"env_vars": {"A": "b"}} == body["runtime_env"]
    assert "one\ntwo\n" == capsys.readouterr().out


@contextmanager
def elsewhere() -> Iterator[tuple[str, list[str]]]:
    """A server of somebody else's that answers everything, and what it was told by whom."""
    told: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            told.append(f"{self.command} {self.path} {self.headers.get('Authorization')}")
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        do_GET = do_POST = do_PUT = do_CONNECT = handle_any  # noqa: N815 (the names are the library's)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://localhost:{server.server_address[1]}", told
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_the_token_goes_to_no_host_that_an_answer_names(status: int) -> None:
    """It runs code on the cluster. A request that is sent on is a refusal."""
    ray = FakeRay({"job-1": ["SUCCEEDED"]})
    with elsewhere() as (theirs, told), serving(ray, sends_to=(status, theirs)) as address:
        api = JobsApi(address, TOKEN)
        for ask in (api.jobs, api.version, lambda: api.upload(b"package"), lambda: api.stop("job-1")):
            with pytest.raises(urllib.error.HTTPError):
                ask()
        with pytest.raises(urllib.error.HTTPError):
            api.submit("job-2", ["python"], {})

    assert [] == told


def test_an_answer_without_end_is_not_read(monkeypatch: pytest.MonkeyPatch, wording: Wording) -> None:
    """Ray gives the log of a job whole, whatever that printed."""
    monkeypatch.setattr(jobs_api, "MOST_ANSWER_BYTES", 0)

    with serving(FakeRay()) as address, pytest.raises(SubmitError) as refused:
        JobsApi(address, TOKEN).version()

    wording("run", str(refused.value))


def test_the_token_of_a_ray_of_this_machine_goes_to_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor that of the cluster that a pod is in, which is behind none; others may be reached by one alone."""
    ray = FakeRay()
    with elsewhere() as (proxy, told), serving(ray) as address:
        monkeypatch.setenv("http_proxy", proxy)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        assert [] == JobsApi(address, TOKEN).jobs()
        with pytest.raises(urllib.error.URLError):
            JobsApi("http://head.invalid:8265", TOKEN, direct=True).version()
        assert [] == told
        with pytest.raises(KeyError):
            JobsApi("http://head.invalid:8265", TOKEN).version()

    assert [f"GET http://head.invalid:8265/api/version Bearer {TOKEN}"] == told  # not prose: a request


def test_a_pod_asks_its_cluster_by_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its environment names for the script."""
    made: list[bool] = []
    monkeypatch.setattr(submit, "JobsApi", lambda *_, direct=False: made.append(direct))
    monkeypatch.setattr(submit, "run", lambda *_: None)
    monkeypatch.setenv(jobs_api.TOKEN, TOKEN)
    flags = ["--address=http://head:8265", "--submission-id=a", "--stack=ci", "--", "--epochs=1"]
    monkeypatch.setattr("sys.argv", ["submit", *flags])

    submit.main()

    assert [True] == made


def refused(ray: FakeRay, match: str | None = None, error: type[Exception] = OthersError) -> str:
    """Why a run of the stack `ci` was refused, or has failed."""
    with serving(ray) as address, pytest.raises(error, match=match) as why:
        submit.run(JobsApi(address, TOKEN), "new", ["ray"], {}, "ci")
    return str(why.value)


def changes(ray: FakeRay) -> list[str]:
    """What was asked for that changes something."""
    return [path for method, path, _ in ray.requests if method != "GET"]


def test_what_an_interrupted_measurement_left_is_stopped_first() -> None:
    """It would share the workers' CPUs with this run. What others ran before has ended, and is nobody's concern."""
    ray = FakeRay({"old": ["RUNNING"], "done": ["SUCCEEDED"], "theirs": ["FAILED"]}, marks={"old": mark("ci")})
    with serving(ray) as address:
        submit.run(JobsApi(address, TOKEN), "new", ["ray"], {}, "ci")

    assert ["/api/jobs/old/stop", "/api/jobs/"] == changes(ray)
    assert mark("ci") == ray.marks["new"]


DRIVER = {
    "job_id": "03000000", "submission_id": None, "status": "RUNNING", "metadata": {}, "entrypoint": "python -i",
    "driver_info": {"id": "03000000", "node_ip_address": "10.244.0.7", "pid": "214"},
}  # fmt: skip
"""What `ray.init(address="auto")` in a shell of the head is to Ray."""


@pytest.mark.parametrize("state", ["PENDING", "RUNNING"])
def test_a_run_of_somebody_else_s_measurement_is_never_stopped(wording: Wording, state: str) -> None:
    """On a Ray cluster that others measure on, too, where a stack's name tells nothing. It is waited for."""
    ray = FakeRay({"theirs": [state], "old": ["RUNNING"]}, marks={"old": mark("ci"), "theirs": mark("ci-of-another")})
    wording("ray-cluster", refused(ray, r"(?s)\n  theirs .*./rwi jobs stop theirs"))

    assert [] == changes(ray)


@pytest.mark.parametrize("state", ["PENDING", "RUNNING"])
def test_somebody_else_s_job_is_never_stopped(state: str) -> None:
    """The run is refused with the line that ends the job; also beside one that a measurement left."""
    ray = FakeRay({"theirs": [state], "old": ["RUNNING"]}, marks={"old": mark("ci"), "theirs": {"by": "me"}})
    why = refused(ray)

    assert [] == changes(ray)
    assert "stack ci" in why
    assert "theirs (python theirs.py)" in why
    assert why.endswith(":\n  ./rwi jobs stop theirs --stack ci")


def test_a_driver_that_connected_by_itself_is_somebody_else_s_too() -> None:
    """Ray stops none of those: it is said where it runs."""
    ray = FakeRay(drivers=[DRIVER])
    refused(ray, r"03000000 is a driver .*process 214 at 10\.244\.0\.7")

    assert [] == changes(ray)


def beginning(ray: FakeRay, state: str) -> None:
    """Have somebody else's job come between when this run is asked for the first time."""
    answer = ray.answer

    def later(method: str, path: str, body: Any) -> tuple[int, Any]:
        if path.endswith("/new/logs"):
            ray.states.setdefault("theirs", [state])
        return answer(method, path, body)

    ray.answer = later  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("state", "said"),
    [("RUNNING", "./rwi jobs stop theirs --stack ci"), ("SUCCEEDED", "have ended since: theirs. Measure again")],
)
def test_a_run_beside_which_somebody_s_job_began_does_not_count(
    state: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ended by then or not: nothing of the measurement goes on, and theirs is left alone."""
    monkeypatch.setattr(submit, "LOOK_SECONDS", 0.0)
    ray = FakeRay(submitted=["RUNNING"])
    beginning(ray, state)
    refused(ray, f"(?s)does not count.*{said}")

    assert ["/api/jobs/", "/api/jobs/new/stop"] == changes(ray)


def test_a_job_that_began_at_the_very_end_is_seen_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """However seldom the head is asked meanwhile."""
    monkeypatch.setattr(submit, "LOOK_SECONDS", 1000.0)
    ray = FakeRay()
    beginning(ray, "RUNNING")
    refused(ray, "theirs")


@pytest.mark.parametrize(("heard", "said"), [(True, ""), (False, "./rwi jobs stop new --stack ci")])
def test_a_job_that_can_t_be_followed_any_more_is_ended(
    heard: bool, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would keep the CPUs of a cluster that others use, too; where the head hears nothing, the line does it."""
    monkeypatch.setattr(jobs_api, "PATIENCE_SECONDS", 0.05)
    ray = FakeRay(submitted=["RUNNING"])
    answer = ray.answer

    def silent(method: str, path: str, body: Any) -> tuple[int, Any]:
        hears = not path.endswith("/logs") and (heard or not path.endswith("/stop"))
        return answer(method, path, body) if hears else (503, "")

    ray.answer = silent  # type: ignore[method-assign]
    why = refused(ray, "503", SubmitError)

    assert why.endswith(said)
    assert ("jobs stop" in why) is not heard
    assert ["STOPPED" if heard else "RUNNING"] == ray.states["new"][-1:]


def test_a_run_told_to_end_ends_by_its_signal_whatever_the_head_answers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A proxy before it may answer with a page."""
    monkeypatch.setattr(JobsApi, "_send", lambda *_: b"<html>")
    codes: list[int] = []
    monkeypatch.setattr("os._exit", codes.append)

    submit._Stop(JobsApi("http://x", TOKEN), "job-1")(15, None)

    assert [143] == codes
    assert "job-1" in capsys.readouterr().err


def test_a_package_over_the_limit_is_not_sent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Ray's dashboard would refuse it after it was sent; bytes and a file alike."""
    monkeypatch.setattr(jobs_api, "MOST_PACKAGE_BYTES", 2**20)
    large = tmp_path / "large.zip"
    large.write_bytes(b"0" * (2 * 2**20))
    ray = FakeRay()
    with serving(ray) as address:
        for package in (large, large.read_bytes()):
            with pytest.raises(SubmitError, match=r" 2 MiB.* 1 MiB.*\.gitignore"):  # not prose: a pattern
                JobsApi(address, TOKEN).upload(package)

    assert [] == ray.requests


@pytest.mark.parametrize("state", ["FAILED", "STOPPED"])
def test_a_run_that_did_not_succeed_says_how_it_ended(state: str) -> None:
    """With Ray's own message."""
    with serving(FakeRay({"job-1": [state]})) as address, pytest.raises(SubmitError, match=f"{state}: it broke"):
        submit.follow(JobsApi(address, TOKEN), "job-1")


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("it ended with code 1, last available logs (truncated to 20,000 chars):\nloss 3", "it ended with code 1"),
        (
            "set-up failed\nof node\n" + "  deep\n" * 50 + "No module named pip",
            r"set-up failed\nof node\n…\n.*named pip",
        ),
    ],
)
def test_why_a_job_failed_is_said_shortly(message: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log was printed already, and a traceback's reason stands at its end."""
    ray = FakeRay({"job-1": ["FAILED"]})
    monkeypatch.setattr(JobsApi, "job", lambda *_: {"status": "FAILED", "message": message})
    with (
        serving(ray) as address,
        pytest.raises(SubmitError, match=f"(?s)job-1.* FAILED: {said}$") as why,
    ):
        submit.follow(JobsApi(address, TOKEN), "job-1")

    assert submit.MOST_LINES + 1 >= len(str(why.value).splitlines())


def test_a_wrong_token_is_refused_at_once() -> None:
    """Asking again would not help."""
    ray = FakeRay()
    with serving(ray) as address, pytest.raises(SubmitError, match="token was refused"):
        submit.run(JobsApi(address, "guess"), "job-1", ["ray"], {}, "ci")

    assert [] == ray.requests


def test_a_head_that_was_restarted_has_forgotten_the_run() -> None:
    """Its jobs are in its memory alone."""
    with serving(FakeRay()) as address, pytest.raises(SubmitError, match="it was restarted"):
        submit.follow(JobsApi(address, TOKEN), "job-1")


def test_a_busy_head_is_asked_again(capsys: pytest.CaptureFixture[str]) -> None:
    """With a line for each time."""
    with serving(FakeRay({"job-1": ["SUCCEEDED"]}, failures=2)) as address:
        submit.follow(JobsApi(address, TOKEN), "job-1")

    assert 2 == capsys.readouterr().err.count("trying again")


@pytest.mark.parametrize("error", [IncompleteRead(b"a log", 100), BadStatusLine("x"), ConnectionRefusedError("x")])
def test_an_answer_that_breaks_off_or_is_no_http_is_asked_for_again(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a head that went away, also while it sent a log; if it stays so, the run has failed, without a traceback,
    and is not waited for for ever."""
    answers: list[str | Exception] = [error, "the log"]

    def ask() -> str:
        answer = answers.pop(0) if answers else error
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert "the log" == jobs_api.patiently(ask, "read the log")
    monkeypatch.setattr(jobs_api, "PATIENCE_SECONDS", 0.05)
    with pytest.raises(SubmitError, match="did not answer"):
        jobs_api.patiently(ask, "read the log")


def test_without_the_cluster_s_token_it_is_said_that_the_cluster_is_gone(
    wording: Wording,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the lines that make it again: the token goes with a RayCluster that somebody deletes."""
    monkeypatch.delenv(jobs_api.TOKEN, raising=False)
    flags = ["--address=http://127.0.0.1:9", "--submission-id=a", "--stack=ci", "--", "--epochs=1"]
    monkeypatch.setattr("sys.argv", ["submit", *flags])

    lines = r"(?s)RayCluster.*\n  pulumi refresh --yes\n  pulumi up"
    with pytest.raises(SystemExit, match=lines) as refused:
        submit.main()
    wording("ray-cluster", str(refused.value))


def in_zip(content: bytes) -> list[tuple[str, bytes]]:
    """Names and contents."""
    with zipfile.ZipFile(io.BytesIO(content)) as files:
        return [(name, files.read(name)) for name in files.namelist()]


def test_each_run_has_a_package_of_its_own(tmp_path: Path) -> None:
    """Ray unpacks one once for all jobs: what a script writes beside itself would be there for the next run."""
    with zipfile.ZipFile(tmp_path / "files.zip", "w") as files:
        files.writestr("train.py", "pass")
    content = (tmp_path / "files.zip").read_bytes()
    first, second = (submit.package_of_run(content, name) for name in ("ray-1", "ray-2"))

    assert first != second
    assert first == submit.package_of_run(content, "ray-1")


def test_a_run_with_files_begins_when_they_are_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """They are its folder; what the user calls `training` in it stands before nothing of ours."""
    monkeypatch.setenv(FILES, str(tmp_path / "files.zip"))
    monkeypatch.setenv("PYTHONPATH", "/app:/company")
    with zipfile.ZipFile(tmp_path / "files.zip", "w") as files:
        files.writestr("train.py", "pass")
    done: list[Any] = []

    class Recorded(JobsApi):
        def upload(self, package: bytes | Path) -> str:
            assert isinstance(package, bytes)
            done.append(package)
            return "gcs://_ray_pkg_x.zip"

        def submit(self, *given: Any, **more: Any) -> None:
            done.append((*given, more))

    early = entry.pass_on_start(Stamp.now().later(-60.0))
    submit._submit_with_files(
        Recorded("http://x", TOKEN), "job-1", ["-m", "training.launch.pod.run", "ray"], early, "ci"
    )
    content, (name, command, environment, _, more) = done

    assert ("job-1", {"working_dir": "gcs://_ray_pkg_x.zip"}) == (name, more)
    assert [("train.py", b"pass"), (submit.OF_RUN, b"job-1")] == in_zip(content)
    assert ["env", "PYTHONPATH=/app:/company", "python", "-P", "-m", "training.launch.pod.run", "ray"] == command
    assert early != environment
    assert early.keys() == environment.keys()
