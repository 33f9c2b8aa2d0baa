"""`rwi jobs submit`, `rwi jobs list`: what is refused, and what is said. What Ray does of it: tests/training."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cli.door import parse
from cli.jobs import jobs as tool
from cli.jobs import measuring, request
from cli.look import cluster
from cli.setup.project import ToolError, project_name
from cli.stack import environment
from infra.places.cluster.api import kube
from infra.places.cluster.api.ray_api import ForwardedJobs, RayError
from infra.places.cluster.manifests.ray_cluster import HEAD_LABELS
from tests.golden import Wording
from tests.typed import typed
from tests.unit.kube_api import NAMESPACE, Api, job, pod, serving
from training.launch.ray.other_jobs import mark
from training.workloads.script import source


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """One that somebody has, with data beside it."""
    path = tmp_path / "mine" / "train.py"
    path.parent.mkdir()
    path.write_text("print('trained')\n")
    (path.parent / "rows.csv").write_text("1,2\n")
    return path


def asked(script: Path | str, *words: str) -> request.Request:
    """What these words ask for, on a Ray cluster of three workers."""
    given = parse(["jobs", "submit", str(script), *words]).params
    typed = request.Typed(given["script"], given["arguments"], given["folder"], given["variables"], given["packages"])
    return request.read(3, typed)


def test_a_script_is_started_in_its_folder(script: Path) -> None:
    """By its name there; the folder may be one above it."""
    alone = asked(
        script, *("--env", "A=b", "--env", "C=d e"), *("--", "--num-workers", "{workers}", "--text", "two words")
    )
    above = asked(script, "--folder", str(script.parent.parent))

    assert ("python", "train.py", "--num-workers", "3", "--text", "two words") == alone.command
    assert ("train", {"A": "b", "C": "d e"}, ()) == (alone.name, alone.variables, alone.packages)
    assert ("python", "mine/train.py") == above.command


def test_a_job_imports_the_keras_that_a_measurement_imports(script: Path) -> None:
    """The image has no Keras 3; --env still has the last word."""
    script.write_text("from ray.train.tensorflow import TensorflowTrainer\n")

    assert {"TF_USE_LEGACY_KERAS": "1"} == asked(script).variables
    assert {"TF_USE_LEGACY_KERAS": "0", "A": "b"} == asked(
        script, "--env", "A=b", "--env", "TF_USE_LEGACY_KERAS=0"
    ).variables


def test_a_module_of_another_python_next_to_it_is_no_reason_to_refuse_a_script(script: Path) -> None:
    """The script may catch what its import raises."""
    script.write_text("try:\n    import legacy\nexcept SyntaxError:\n    pass\n")
    (script.parent / "legacy.py").write_text("print 'of Python 2'\n")

    assert {} == asked(script).variables


def test_packages_are_words_or_the_lines_of_a_file(script: Path) -> None:
    """Without what pip leaves out."""
    file = script.parent / "requirements.txt"
    file.write_text("# mine\nrich==14.1.0  # colours\n\ntqdm>=4; python_version > '3'\n")

    assert ("rich==14.1.0", "tqdm") == asked(script, "--pip", "rich==14.1.0", "--pip", "tqdm").packages
    (_, marked) = asked(script, "--pip", str(file)).packages
    assert "tqdm>=4; python_version > '3'" == marked  # not prose: what pip takes


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["{mine}/trian.py"], r"trian.py: there is no such file; there are train.py"),
        (["{mine}"], r"is a folder: name the file in it"),
        (["{mine}/rows.csv"], r"rows.csv is no Python"),
        (["--folder", "{mine}/none"], r"--folder .*none: there is no such folder; without --folder it is the script's"),
        (["--folder", "{mine}/../other"], r"--folder .*other: .*train.py is not in it"),
        (["--", "--out", "{storage}"], r"\{storage\} .* only \{workers\}"),
        (["--pip", "-r more.txt"], r"--pip '-r more.txt' names a file of this machine.*--pip rich"),
        (["--pip", "./wheel.whl"], r"'./wheel.whl' names a file of this machine"),
        (["--pip", "none.txt"], r"--pip none.txt can't be read \(.*: a requirements file, or packages"),
    ],
)
def test_bad_input_is_refused_with_what_is_allowed(script: Path, words: list[str], said: str) -> None:
    """Before a cluster is asked for anything."""
    (script.parent.parent / "other").mkdir()
    (script.parent / "rows.csv").write_text("1 2\n")
    given = [word.replace("{mine}", str(script.parent)) for word in words]

    with pytest.raises(ToolError, match=f"(?s){said}"):
        asked(*(given if given[0][0] != "-" else [script, *given]))


def test_a_folder_over_the_limit_is_refused(script: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording) -> None:
    """With its largest file, and what to do."""
    monkeypatch.setattr(source, "MOST_BYTES", 2**20)
    (script.parent / "weights.bin").write_bytes(b"0" * 2**20)

    with pytest.raises(ToolError, match=r"weights\.bin.* 1 MiB.*--folder") as refused:
        asked(script)
    wording("jobs", str(refused.value))


def test_a_link_out_of_the_folder_is_refused(script: Path, wording: Wording) -> None:
    """The file at its end was not meant to be sent."""
    (script.parent / "data").symlink_to("/etc/hostname")

    with pytest.raises(ToolError, match=r"mine.* data .*/etc/hostname") as refused:
        asked(script).package()
    wording("jobs", str(refused.value))


def test_a_script_that_git_ignores_is_refused(script: Path, wording: Wording) -> None:
    """It would not be on the cluster."""
    subprocess.run(["git", "init", "--quiet", str(script.parent)], check=True)
    (script.parent / ".gitignore").write_text("train.py\n")

    with pytest.raises(ToolError, match=r"check-ignore --verbose train\.py") as refused:
        asked(script)
    wording("jobs", str(refused.value))


@pytest.mark.parametrize("words", [["list"], ["submit", "x.py"], ["logs"], ["stop"]])
def test_on_this_machine_there_is_nothing_to_submit_to(words: list[str]) -> None:
    """One line, with the stacks that have it."""
    said = "stack local has target local, where a Ray starts with each run and ends with it: there is none to submit to"
    with pytest.raises(ToolError, match=rf"^{said}.* \./rwi jobs {words[0]} --stack minikube$"):
        typed("jobs", *words)


@dataclass
class FakeJobs(ForwardedJobs):
    """Of Ray, the jobs; what was asked for that changes something is kept."""

    listed: list[dict[str, Any]] = field(default_factory=list)
    changes: list[tuple[str, str]] = field(default_factory=list)

    def _send(self, method: str, path: str, content: bytes | None = None) -> bytes:
        if method == "GET":
            return json.dumps(self.listed).encode()
        self.changes.append((method, path))
        if path == "/api/jobs/" and content:
            self.listed.append({**json.loads(content), "status": "RUNNING"})
        return b"{}"


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    """The cluster of stack `ci`, on which nothing is measured."""
    with serving(tmp_path) as (served, kubeconfig):
        monkeypatch.setattr(cluster, "connect", lambda _: kube.connect(kubeconfig))
        backend = {"PULUMI_BACKEND_URL": f"file://{tmp_path}"}
        monkeypatch.setattr(environment, "state_variables", lambda _: backend)
        served.put("/api/v1", "pods", pod("head", labels=HEAD_LABELS), NAMESPACE)
        yield served


@pytest.fixture
def ray(api: Api, monkeypatch: pytest.MonkeyPatch) -> FakeJobs:
    """Its Ray."""
    fake = FakeJobs()
    monkeypatch.setattr(tool, "ForwardedJobs", lambda *_: fake)
    return fake


def jobs(*words: str) -> int:
    """`rwi jobs` for stack `ci`."""
    return typed("jobs", *words, "--stack", "ci")


def test_without_a_head_there_is_nothing_to_submit_to(
    api: Api, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """With the command that shows what there is instead."""
    api.put("/api/v1", "pods", pod("head", "Pending", labels=HEAD_LABELS), NAMESPACE)

    with pytest.raises(ToolError, match=r"\./rwi status --stack ci") as refused:
        jobs("list")
    wording("jobs", str(refused.value))


def test_before_the_first_up_there_is_no_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """With the line that makes it."""
    monkeypatch.setattr(cluster, "ROOT", tmp_path)

    with pytest.raises(ToolError, match=r"\.state/kubeconfig/ci .*./rwi up --stack ci") as refused:
        jobs("list")
    wording("jobs", str(refused.value))


@pytest.mark.usefixtures("api")
def test_a_head_that_goes_away_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the question whether it is there and the next."""

    class Gone(FakeJobs):
        def _send(self, method: str, path: str, content: bytes | None = None) -> bytes:
            raise RayError("no head")

    monkeypatch.setattr(tool, "ForwardedJobs", lambda *_: Gone())
    with pytest.raises(ToolError, match=r"no head.*./rwi status --stack ci"):
        jobs("list")


def test_nothing_is_submitted_while_pulumi_works_on_the_stack(
    ray: FakeJobs, script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """The process is named. Nothing was sent."""
    lock = tmp_path / f".pulumi/locks/organization/{project_name()}/ci/1.json"
    lock.parent.mkdir(parents=True)
    pulumi = subprocess.Popen([sys.executable, "-c", "print(flush=True); input()", "pulumi"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE)  # fmt: skip
    assert pulumi.stdout is not None
    pulumi.stdout.readline()
    lock.write_text(json.dumps({"pid": pulumi.pid, "hostname": socket.gethostname()}))
    try:
        with pytest.raises(ToolError, match=rf"\b{pulumi.pid}\b.*`./rwi status --watch --stack ci`") as refused:
            jobs("submit", str(script))
        wording("jobs", str(refused.value).replace(str(pulumi.pid), "NUMBER"))
    finally:
        pulumi.communicate()

    assert [] == ray.changes


def test_nothing_is_submitted_while_a_run_goes_on(
    api: Api, ray: FakeJobs, script: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """Of whatever stack in the namespace, made on whatever machine."""
    api.put("/apis/batch/v1", "jobs", job("native-1-x", "native-1", stack="other", active=1), NAMESPACE)

    with pytest.raises(ToolError, match=r"native-1-x .*\bother\b") as refused:
        jobs("submit", str(script))
    wording("jobs", str(refused.value))

    assert [] == ray.changes


def test_a_job_gives_way_to_a_measurement_that_began_meanwhile(
    api: Api, ray: FakeJobs, script: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """Between the question and the answer an `up` may have begun."""
    reasons = iter(("", "a reason"))
    monkeypatch.setattr(measuring, "update_or_run", lambda *_: next(reasons))

    with pytest.raises(ToolError, match=r"train-1 .*a reason") as refused:
        jobs("submit", str(script))
    wording("jobs", str(refused.value))

    assert ("POST", "/api/jobs/train-1/stop") == ray.changes[-1]


def test_a_run_that_is_measured_is_not_stopped_by_hand(
    api: Api, ray: FakeJobs, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """It ends with its measurement."""
    api.put("/apis/batch/v1", "jobs", job("ray-1-x", "ray-1", stack="ci", active=1), NAMESPACE)
    ray.listed.append({"submission_id": "ray-1-x", "status": "RUNNING", "metadata": mark("ci")})

    with pytest.raises(ToolError, match="ray-1-x ") as refused:
        jobs("stop", "ray-1-x")
    wording("jobs", str(refused.value))

    assert [] == ray.changes


DRIVER = {
    "submission_id": None, "job_id": "02000000", "status": "RUNNING", "metadata": {}, "entrypoint": "python -i",
    "start_time": 1, "driver_info": {"pid": "7", "node_ip_address": "10.0.0.1"},
}  # fmt: skip


@pytest.mark.parametrize("verb", ["stop", "logs"])
def test_a_driver_that_connected_by_itself_is_shown_and_left(
    verb: str, ray: FakeJobs, capsys: pytest.CaptureFixture[str], wording: Wording
) -> None:
    """Ray's API ends only what it started."""
    ray.listed.append(DRIVER)
    jobs("list")
    assert "02000000  running" in capsys.readouterr().out

    with pytest.raises(ToolError, match=r"7 at 10\.0\.0\.1") as refused:
        jobs(verb, "02000000")
    wording("jobs", str(refused.value))


@pytest.mark.parametrize(("given", "verb"), [([], "stop"), (["x"], "logs")], ids=["none", "unknown"])
def test_an_unknown_job_is_answered_with_those_there_are(
    given: list[str], verb: str, ray: FakeJobs, wording: Wording
) -> None:
    """And with a line that works."""
    with pytest.raises(ToolError) as refused:
        jobs(verb, *given)
    wording("jobs", str(refused.value), "without a job")
    ray.listed.append({"submission_id": "train-1", "status": "SUCCEEDED"})

    with pytest.raises(ToolError, match=rf"\./rwi jobs {verb} train-1 --stack ci") as refused:
        jobs(verb, *given)
    wording("jobs", str(refused.value), "with one")


@pytest.mark.usefixtures("ray")
def test_no_job_yet_is_said_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], wording: Wording
) -> None:
    """With the line that submits one."""
    assert 0 == jobs("list")
    said = capsys.readouterr().err
    assert "./rwi jobs submit SCRIPT --stack ci" in said
    wording("jobs", said)


def test_the_next_number_is_taken_by_name(ray: FakeJobs, script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside jobs of other scripts, ended ones too."""
    ray.listed += [{"submission_id": name, "status": "SUCCEEDED"} for name in ("train-1", "train-2", "other-3")]
    jobs("submit", str(script), "--detach", "--pip", "rich")

    assert "train-3" == ray.listed[-1]["submission_id"]
    assert ["rich"] == ray.listed[-1]["runtime_env"]["pip"]
    assert ray.listed[-1]["runtime_env"]["working_dir"].startswith("gcs://_ray_pkg_")
    assert not ray.listed[-1]["metadata"]
