"""A run as a job of a Ray cluster: what is sent, what it reserves, its command. What Ray does of it: tests/training."""

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from infra.places.ray import jobs, owner, run_job
from tests.unit.fake_ray import TOKEN, FakeRay, serving
from tests.unit.results import make_result
from training.contract.codec import ResultError
from training.contract.recipe import Recipe, canonical
from training.launch.pod import log_result
from training.launch.ray import job_entry, jobs_api, submit
from training.launch.ray.jobs_api import JobsApi
from training.launch.ray.other_jobs import mark
from training.workloads.cnn.recipe import CnnRecipe
from training.workloads.script.recipe import ScriptRecipe

SCRIPT = ScriptRecipe(script="examples/torch_ddp.py", workers=2, worker_cpus=2)
CNN = CnnRecipe(workers=3, worker_cpus=1, dataset="digits")


def sent(arm: str, recipe: Recipe, secret: Mapping[str, str] | None = None) -> dict[str, zipfile.ZipInfo]:
    """What the package of a run holds, by name."""
    with zipfile.ZipFile(io.BytesIO(jobs.job(arm, recipe, secret or {}, "run").package)) as archive:
        return {entry.filename: entry for entry in archive.infolist()}


@pytest.mark.parametrize(
    ("arm", "recipe", "cpus"),
    [("baseline", SCRIPT, 2), ("wide", SCRIPT, 4), ("native", SCRIPT, 4), ("ray", SCRIPT, 0), ("native", CNN, 3)],
)
def test_a_job_reserves_what_its_own_processes_have(arm: str, recipe: Recipe, cpus: float) -> None:
    """All of an arm's ranks are on that node but Ray's, which Ray places and reserves for."""
    assert cpus == jobs.job(arm, recipe, {}, "run").cpus


def test_the_project_s_modules_stand_where_ray_s_workers_find_them() -> None:
    """Beside a script in a folder of their own: it may have a folder `training`. Of a workload of ours in the job's
    folder: Ray puts that on its workers' path, and nothing below it."""
    names, of_cnn = set(sent("ray", SCRIPT)), set(sent("ray", CNN))
    command = jobs.job("ray", SCRIPT, {}, "run").command

    assert {"torch_ddp.py", ".ray-worth-it/training/ray.py", ".ray-worth-it/training/launch/pod/run.py"} <= names
    assert ".ray-worth-it/training/workloads/script/observe/path/sitecustomize.py" in names
    assert {"torch_ddp.py", submit.OF_RUN} == {name for name in names if not name.startswith(".ray-worth-it/")}
    assert ("env", "PYTHONPATH=.ray-worth-it", "python", "-P", "-m", jobs.ENTRY, "ray", "--address=auto") == command[:8]
    assert "--script=torch_ddp.py" in command
    assert {"training/ray.py", "training/workloads/cnn/train.py", "uv.lock"} <= of_cnn
    assert "PYTHONPATH=." == jobs.job("ray", CNN, {}, "run").command[1]


def test_a_secret_is_a_file_that_its_owner_alone_reads() -> None:
    """Ray writes a job's variables into its logs, and shows them on its pages."""
    job = jobs.job("ray", SCRIPT, {"HF_TOKEN": "xyzzy"}, "run")
    entry = sent("ray", SCRIPT, {"HF_TOKEN": "xyzzy"})[job_entry.SECRET]

    assert 0o600 == entry.external_attr >> 16
    assert "xyzzy" not in " ".join(job.command)
    assert job_entry.SECRET not in sent("ray", SCRIPT)


def test_no_two_runs_share_a_folder() -> None:
    """Ray unpacks what has the same content once, and a run would find what another one wrote."""
    assert jobs.job("ray", SCRIPT, {}, "one").package != jobs.job("ray", SCRIPT, {}, "two").package
    assert jobs.job("ray", SCRIPT, {}, "one").package == jobs.job("ray", SCRIPT, {}, "one").package


def result_of(arm: str, recipe: CnnRecipe) -> str:
    """What a job's log ends with."""
    return f"a line\n{log_result.MARKER}\n{canonical(make_result(arm, 1, recipe).to_dict())}\n"


def test_a_run_is_submitted_and_its_result_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Under its folder's name, as the measurement's own; the log is shown without the result."""
    monkeypatch.setattr(jobs_api, "POLL_SECONDS", 0.01)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    folder = _made(tmp_path, "baseline-1-20260101T000000Z-abcdef")
    name = f"theirs-{folder.name}"
    ray = FakeRay(logs={name: result_of("baseline", CNN)}, submitted=["PENDING", "RUNNING", "SUCCEEDED"])
    with serving(ray) as address:
        found = run_job.run(JobsApi(address, TOKEN), "baseline", CNN, "theirs", folder)

    (body,) = [body for method, path, body in ray.requests if (method, path) == ("POST", "/api/jobs/")]
    assert "baseline" == found.arm
    assert (name, mark(owner.of("theirs")), 1.0) == (
        body["submission_id"],
        body["metadata"],
        body["entrypoint_num_cpus"],
    )
    assert 1 == len(ray.packages)
    assert "a line\n" == capsys.readouterr().out
    (line,) = (folder / "progress.jsonl").read_text().splitlines()
    assert {"event": "line", "text": "a line"} == json.loads(line)


def _made(tmp_path: Path, name: str) -> Path:
    folder = tmp_path / name
    folder.mkdir()
    return folder


def test_the_result_of_another_run_is_none() -> None:
    """Whatever a job prints."""
    other = make_result("wide", 1, CNN)

    with pytest.raises(ResultError, match="wide"):
        run_job.checked(other, "baseline", CNN)
