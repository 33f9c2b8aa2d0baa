"""A comparison on an MLflow server: there whole and once, or said to be not there, whatever the server does."""

import io
import json
import subprocess
import uuid
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from compare.comparison import compare
from compare.schema import Comparison
from report import tracking
from report.__main__ import main
from report.tracking import describe
from tests.slow import slow_but
from tests.tracking import servers
from tests.tracking.servers import Server, metrics, params, tags
from tests.unit.results import RUN, make_context, make_result, written_run
from tests.unreachable import WAYS, address

PARENT = "mlflow.parentRunId"
SECRETS = {"MLFLOW_TRACKING_TOKEN": "hunter2-token", "PULUMI_CONFIG_PASSPHRASE": "hunter2-passphrase"}


@pytest.fixture
def stack() -> str:
    """One of its own, which is an experiment of its own."""
    return f"stack-{uuid.uuid4().hex[:8]}"


@dataclass
class Project:
    """A folder with runs and results."""

    folder: Path
    monkeypatch: pytest.MonkeyPatch

    def measured(self, server: str, **settings: str) -> Comparison:
        """A comparison whose settings name the server."""
        runs = [written_run(self.folder, make_result(arm), 1) for arm in RUN]
        return compare(runs, make_context(repeats=1, settings={"trackingUri": server, **settings}))

    def publish(self, comparison: Comparison, stack: str = "local") -> Path:
        """As `rwi up` and `rwi report open` do: the folder, which is there whatever the server does."""
        self.monkeypatch.setattr("sys.stdin", io.StringIO(comparison.to_json()))
        assert 0 == main(["publish", "--stack", stack, "--project", str(self.folder)])
        folder = (self.folder / "results" / stack / "latest").resolve()
        assert comparison == Comparison.from_json((folder / "comparison.json").read_text())
        return folder


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """An empty one."""
    return Project(tmp_path, monkeypatch)


def test_what_is_there_is_the_comparison(
    server: Server, stack: str, project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every number, parameter and tag, with the runs inside it and the files as they are here."""
    comparison = project.measured(server.url)
    folder = project.publish(comparison, stack)
    wanted = describe(comparison, folder, stack, project.folder)

    said = capsys.readouterr()
    runs = server.runs(f"ray-worth-it/{stack}")
    (whole,) = [run for run in runs if PARENT not in tags(run)]
    inner = {run["info"]["run_name"]: run for run in runs if PARENT in tags(run)}

    assert f"MLflow: {server.url}/#/experiments/" in said.err
    assert said.err.strip().endswith(whole["info"]["run_id"])
    assert f"{folder}\n" == said.out
    for run, asked in [(whole, wanted.whole), *((inner[each.name], each) for each in wanted.runs)]:
        assert asked.name == run["info"]["run_name"]
        assert "FINISHED" == run["info"]["status"]
        assert asked.params == params(run)
        assert asked.tags.items() <= tags(run).items()
        assert {each.name: each.value for each in asked.metrics} == pytest.approx(metrics(run))
        assert (round(1000 * asked.started), round(1000 * asked.ended)) == tuple(
            int(run["info"][key]) for key in ("start_time", "end_time")
        )
    assert {whole["info"]["run_id"]} == {tags(run)[PARENT] for run in inner.values()}
    assert [(1, 1.2), (2, 0.6), (3, 0.4)] == [
        (step, round(value, 4)) for step, value in server.history(inner["ray-1"], "loss/training")
    ]
    for name in ("comparison.json", "report.txt", "report.html"):
        assert (folder / name).read_text() == server.file(whole, name)


def test_publishing_again_writes_nothing(server: Server, stack: str, project: Project) -> None:
    """A second `up`, or `rwi report open`, of the same measurement."""
    with servers.before(server) as gate:
        comparison = project.measured(gate.url)
        project.publish(comparison, stack)
        first, gate.changes = server.runs(f"ray-worth-it/{stack}"), 0
        project.publish(comparison, stack)

        assert 0 == gate.changes
    assert first == server.runs(f"ray-worth-it/{stack}")


def test_the_same_runs_compared_anew_replace_what_is_there(server: Server, stack: str, project: Project) -> None:
    """With a price set since: one measurement on the server, the newer; the one before is in its trash."""
    comparison = project.measured(server.url)
    priced = replace(comparison, settings={**comparison.settings, "priceCpuHour": "0.05"})
    for each in (comparison, priced):
        project.publish(each, stack)

    runs = server.runs(f"ray-worth-it/{stack}")
    (whole,) = [run for run in runs if PARENT not in tags(run)]

    assert "0.05" == params(whole)["priceCpuHour"]
    assert 1 + len(RUN) == len(runs) == len(server.runs(f"ray-worth-it/{stack}", view="DELETED_ONLY"))


@pytest.mark.parametrize("changes", [1, *(pytest.param(number, marks=pytest.mark.slow) for number in (5, 15))])
def test_what_broke_off_is_whole_the_next_time(
    changes: int,
    server: Server,
    stack: str,
    project: Project,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The server dies after so many changes: the result is here, the message says what to type, and nothing doubles."""
    with servers.before(server) as gate:
        comparison = project.measured(gate.url)
        gate.dies_after = changes
        folder = project.publish(comparison, stack)
        said = capsys.readouterr().err
        gate.dies_after = None
        project.publish(comparison, stack)

    assert said.startswith("warning: ")
    assert str(folder) in said
    assert "does not answer" in said
    assert f"./rwi report open --stack {stack}" in said
    runs = server.runs(f"ray-worth-it/{stack}")
    assert 1 + len(RUN) == len(runs)
    assert {"FINISHED"} == {run["info"]["status"] for run in runs}
    assert 1 == len({tags(run)[PARENT] for run in runs if PARENT in tags(run)})


@pytest.mark.parametrize("way", slow_but(["refused"], WAYS))
def test_a_server_that_is_not_there_is_a_warning_in_time(
    way: str, project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    """MLflow's own client would try for minutes; 10 seconds a request are 3 here."""
    project.monkeypatch.setitem(tracking.ENVIRONMENT, "MLFLOW_HTTP_REQUEST_TIMEOUT", "3")
    with address(way) as nowhere:
        project.publish(project.measured(nowhere.replace("https", "http")))

    assert "does not answer" in capsys.readouterr().err


def test_a_server_that_never_ends_its_answer_is_left(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """All of it together has a limit, too."""
    project.monkeypatch.setattr(tracking, "LIMIT_SECONDS", 20)
    with servers.that_trickles() as slow:
        project.publish(project.measured(slow))

    assert "longer than 20 s" in capsys.readouterr().err  # not prose: a number


@pytest.mark.parametrize(
    ("status", "answer", "said"),
    [
        (401, b"You are not authenticated. Please see https://www.mlflow.org/", "export MLFLOW_TRACKING_USERNAME="),
        (403, b"Permission\ndenied", "'Permission denied'"),
        (200, b"<html>welcome</html>", "not as MLflow does"),
        (400, {"error_code": "INVALID_PARAMETER_VALUE", "message": "\x1b[31m" + "a" * 5000}, "aaa…"),
    ],
)
def test_a_server_that_refuses_is_quoted_with_what_helps(
    status: int,
    answer: bytes | servers.JSON,
    said: str,
    project: Project,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Three lines at most, and none that moves the cursor."""
    with servers.that_says(status, answer) as refusing:
        project.publish(project.measured(refusing))

    message = capsys.readouterr().err
    assert said in message
    assert len(message.splitlines()) <= 3
    assert len(message) < 1500
    assert "\x1b" not in message


def test_nothing_secret_reaches_the_server_but_what_lets_in(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    """MLflow's own variables do; no request has them in its body, and no message."""
    for name, value in SECRETS.items():
        project.monkeypatch.setenv(name, value)
    seen: list[str] = []
    with servers.in_memory() as memory, servers.before(memory) as gate:
        project.publish(project.measured(gate.url))
        assert gate.requests
        assert b"hunter2" not in b"".join(gate.requests)
    with servers.that_says(403, {"error_code": "PERMISSION_DENIED", "message": "no"}, seen) as refusing:
        project.publish(project.measured(refusing))

    assert {"Bearer hunter2-token"} == set(seen)
    assert "hunter2" not in capsys.readouterr().err


def test_a_store_on_the_server_s_own_disk_gets_no_files_of_this_one(project: Project) -> None:
    """MLflow's client would make that path here; numbers, parameters and tags are there."""
    elsewhere = project.folder / "of-the-server"
    project.monkeypatch.setattr(servers, "STORE", str(elsewhere))
    with servers.in_memory() as memory:
        project.publish(project.measured(memory.url))

        assert 1 + len(RUN) == len(memory.runs("ray-worth-it/local"))
    assert not elsewhere.exists()


def test_a_sweep_s_point_is_written_by_the_line_that_needs_no_stack(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its stack is gone when the sweep ends."""
    with address("refused") as nowhere:
        folder = project.publish(project.measured(nowhere.replace("https", "http")), "sweep-local")

    line = f"-m report publish --stack sweep-local < {folder}/comparison.json"
    assert line in capsys.readouterr().err


def test_a_client_that_is_gone_since_is_named(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """`uv sync` by hand takes it away."""
    project.monkeypatch.setattr(tracking, "find_spec", lambda _: None)
    project.publish(project.measured("http://unused"))

    assert "`uv sync --frozen --inexact --extra tracking`" in capsys.readouterr().err


def test_without_the_key_no_process_is_started(project: Project) -> None:
    """Off by default."""
    project.monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("a process"))
    comparison = replace(project.measured("http://unused"), settings={})

    project.publish(comparison)

    assert json.loads(comparison.to_json())["settings"] == {}
