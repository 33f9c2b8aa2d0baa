"""`pulumi up` on a Ray cluster that exists, for real: the head is the tests', its jobs are the runs. One for all."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.limits import wait_for
from tests.program.conftest import NewProject
from tests.program.engine import ROOT, Project
from tests.ray_head import PYTHON, TOKEN, Head, needed, running
from training.launch.ray.other_jobs import is_of_measurement, is_unfinished, job_name

pytestmark = [needed, pytest.mark.slow]
PASSWORD = "no-log-has-this-word"  # noqa: S105 (that is what is tested)
SAYS_IT = 'import os\nprint("the password:", os.environ["PASSWORD"], flush=True)\n'
HAS_TORCH = subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode == 0
EXAMPLE = "torch_ddp.py" if HAS_TORCH else "keras_tf_config.py"
SLEEPS = "import os, time, {}\nos.environ.get({!r})\ntime.sleep(300)\n".format(
    *(("torch", "WORLD_SIZE") if HAS_TORCH else ("tensorflow", "TF_CONFIG"))
)
"""Of the example's kind; trains nothing."""


@pytest.fixture(scope="module")
def head() -> Iterator[Head]:
    """With a CPU for each of two workers."""
    with running(cpus=2) as started:
        yield started


@pytest.fixture
def project(new_project: NewProject, head: Head) -> Project:
    """A stack of that cluster; the example prints a password that it is given, in each of its processes."""
    made = new_project(stub=False)
    script = made.folder.parent / "mine" / EXAMPLE
    script.parent.mkdir()
    first, rest = (ROOT / "examples" / EXAMPLE).read_text().split("\nimport ", 1)
    script.write_text(f"{first}\n{SAYS_IT}import {rest}")
    made.create_stack(
        target="ray",
        rayAddress=head.url,
        workload="script",
        script=f"../mine/{EXAMPLE}",
        scriptArguments="--epochs 1",
        repeats="1",
        wideArm="true",
        runTimeoutMinutes="5",
    )
    made.pulumi("config", "set", "--secret", "rayToken", TOKEN)
    made.pulumi("config", "set", "--secret", "secretEnvironment", f"PASSWORD={PASSWORD}")
    return made


@pytest.fixture(autouse=True)
def _nothing_runs_afterwards(head: Head) -> Iterator[None]:
    yield
    for job in filter(is_unfinished, head.api().jobs()):
        head.api().stop(job["submission_id"])
    wait_for(lambda: not any(map(is_unfinished, head.api().jobs())))


def files_below(*folders: Path) -> str:
    """All that is written there, but for what a run was sent, and what a script itself prints in a worker of Ray's."""
    paths = (path for folder in folders for path in folder.rglob("*") if path.is_file())
    read = (path for path in paths if "runtime_resources" not in path.parts and "worker-" not in path.name)
    return "".join(path.read_text(errors="replace") for path in read)


def test_a_script_is_measured_as_jobs_of_the_cluster(project: Project, head: Head) -> None:
    """In every arm, each a job that is told from others'; a preview makes none, and a second `up` nothing. Secrets are
    in no log, in no result and not in the state; destroyed, the stack leaves the cluster as it is."""
    assert ["create"] * 4 == list(project.preview().values())
    assert [] == head.api().jobs()
    up = project.up()

    found = project.comparison()
    assert {"baseline": 1, "wide": 1, "native": 2, "ray": 2} == {
        name: arm["worldSize"] for name, arm in found["arms"].items()
    }
    assert "not comparable" != found["answer"].lower(), found["verdict"]
    assert {"stepsOfRanksEqual": True, "weightsEqual": True}.items() <= found["checks"].items()
    assert found["checks"]["cpusAsAsked"] is None
    runs = [job for job in head.api().jobs() if "-look-" not in job_name(job)]
    assert ["baseline-1", "native-1", "ray-1", "wide-1"] == sorted(
        "-".join(job_name(job).split("-")[1:3]) for job in runs
    )
    assert all(map(is_of_measurement, runs))
    assert {} == project.preview()

    written = files_below(project.folder / "runs", head.folder) + up + str(project.state()) + str(head.api().jobs())
    assert PASSWORD not in written
    assert TOKEN not in files_below(project.folder / "runs") + up + str(project.state())
    assert 4 == sum("the password: [secret]" in path.read_text() for path in project.folder.glob("runs/*/*/log.txt"))
    project.configure(workers="1")
    assert {"replace"} <= set(project.preview().values())
    project.pulumi("destroy", "--yes")
    assert 5 == len(head.api().jobs())


def test_nobody_else_s_job_is_stopped(project: Project, head: Head) -> None:
    """The update is refused before it makes anything, with the line that ends it; a wrong token likewise."""
    head.api().submit("theirs", ["sleep", "300"], {})
    wait_for(lambda: head.api().job("theirs")["status"] == "RUNNING")
    refused = project.up(ok=False)

    assert "theirs (sleep 300)" in refused
    assert "./rwi jobs stop theirs" in refused
    assert "RUNNING" == head.api().job("theirs")["status"]
    project.pulumi("config", "set", "--secret", "rayToken", "f" * 64)
    refused = project.up(ok=False)
    assert "(HTTP 403)" in refused
    assert "pulumi config set --secret rayToken" in refused
    assert {} == project.ids()


def test_a_killed_update_leaves_no_job_running(project: Project, head: Head) -> None:
    """Whatever is killed of it: the process that follows the job stops it."""
    (project.folder.parent / "mine" / EXAMPLE).write_text(SLEEPS)
    project.pulumi("config", "rm", "secretEnvironment")
    project.configure(scriptKind="torchrun" if HAS_TORCH else "tf-config")

    def begun() -> list[str]:
        return [
            job_name(job) for job in head.api().jobs() if job["status"] == "RUNNING" and "baseline-1" in job_name(job)
        ]

    with project.running_up() as up:
        wait_for(begun, "the first run's job runs")
        (name,) = begun()
        up.kill()
        for process in project.processes("pulumi.dynamic"):
            process.kill()
        wait_for(lambda: not is_unfinished(head.api().job(name)), "its job was stopped")

    assert "STOPPED" == head.api().job(name)["status"]
    time.sleep(1)
    assert not any(map(is_unfinished, head.api().jobs()))
