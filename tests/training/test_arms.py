"""The entry points of all arms, for real: what a run of each leaves behind."""

import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from training.contract import provenance, result
from training.contract.arms import ARMS
from training.launch.environment import variables
from training.workloads.cnn.detail import detail_of
from training.workloads.cnn.recipe import CnnRecipe
from training.workloads.cnn.workload import WORKLOAD

PROJECT = Path(__file__).resolve().parents[2]
FLAGS = [
    "--dataset=synthetic", "--train-images=230", "--model=cnn-half", "--epochs=2", "--global-batch-size=50",
    "--warmup-steps=2", "--save-model=true", "--learning-rate-schedule=cosine",
]  # fmt: skip
"""207 images train in five steps, the last of seven."""
CPUS = provenance.allowed_cpus()
needs_two_cpus = pytest.mark.skipif(len(CPUS) < 2, reason="two workers need two CPUs")
WORKER = "ray::RayTrainWorker"
LEFT_OUT = r"Autoscaling|autoscaler|dashboard\.py|PlacementGroup|PreemptionWatcher"
"""Processes that tuned Ray does without."""
FOREIGN = {
    "RAY_ADDRESS": "10.255.255.1:6379",
    "TF_CONFIG": '{"cluster": {"worker": ["10.255.255.1:1", "x:1"]}, "task": {"type": "worker", "index": 1}}',
    "PULUMI_ACCESS_TOKEN": "secret",
    "HOME": "/proc/nowhere",
}
"""What a user's environment may have, and changes nothing: every run here has it."""


def command(arm: str, folder: Path, flags: list[str]) -> list[str]:
    """What the program starts an arm with."""
    return [sys.executable, "-m", f"training.{arm}", "--result", str(folder / "result.json"), *flags]


ENVIRONMENT = os.environ | FOREIGN | {"OMP_DYNAMIC": "0"}


def run_arm(arm: str, folder: Path, flags: list[str]) -> subprocess.CompletedProcess[str]:
    """An entry point as the program starts it."""
    return subprocess.run(
        command(arm, folder, flags), cwd=PROJECT, env=ENVIRONMENT, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip


class Process(NamedTuple):
    """One that an arm started: its command, less the method that an actor runs just then, and its scheduling."""

    name: str
    nice: int
    policies: set[int]
    """Of its threads."""


class Ended(NamedTuple):
    """A finished run, and all processes that it had when training began."""

    folder: Path
    processes: list[Process]


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ended]:
    """A finished run of each arm, in a project that has the files of its code hash and no other."""
    return {arm: _observed(arm, tmp_path_factory.mktemp(arm), tmp_path_factory.mktemp("project")) for arm in ARMS}


def with_modules_of(arm: str, project: Path) -> None:
    """What a run of the arm can import, at the same places as in the project, and the lock that it is recorded with."""
    for path in (*provenance.modules_of_run(arm, "cnn"), PROJECT / "uv.lock"):
        copy = project / path.relative_to(PROJECT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())


def _observed(arm: str, folder: Path, project: Path) -> Ended:
    with_modules_of(arm, project)
    processes: list[Process] = []
    with (
        (project / "stderr.txt").open("w+") as log,
        subprocess.Popen(
            command(arm, folder, FLAGS), cwd=project, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=log
        ) as running,
    ):
        while not (folder / "progress.jsonl").exists() and running.poll() is None:
            time.sleep(0.05)
        for process in psutil.Process(running.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # it ended meanwhile, or is dead and only not waited for
                processes.append(_seen(process))
        assert 0 == running.wait(300), log.seek(0) or log.read()[-3000:]
    return Ended(folder, processes)


def _seen(process: psutil.Process) -> Process:
    name = " ".join(process.cmdline()).strip()
    policies = {os.sched_getscheduler(thread.id) for thread in process.threads()}
    return Process(re.sub(rf"^{WORKER}\..*", WORKER, name), process.nice(), policies)


@pytest.fixture(scope="module")
def folders(ended: dict[str, Ended]) -> dict[str, Path]:
    """Their folders."""
    return {arm: run.folder for arm, run in ended.items()}


@pytest.fixture(scope="module")
def results(folders: dict[str, Path]) -> dict[str, result.TrainingResult]:
    """Their results."""
    return {arm: result.read(folder / "result.json") for arm, folder in folders.items()}


def test_every_arm_trains_with_the_same_recipe_data_and_code(results: dict[str, result.TrainingResult]) -> None:
    """Rules 1 and 8."""
    first, *others = results.values()

    for other in others:
        assert first.recipe == other.recipe
        assert first.provenance.dataset_hash == other.provenance.dataset_hash
        assert first.provenance.dependencies_hash == other.provenance.dependencies_hash
        assert (first.work["parameters"], first.work["layers"], first.steps.per_epoch) == (
            other.work["parameters"], other.work["layers"], other.steps.per_epoch,
        )  # fmt: skip
    assert {arm: provenance.code_hash(arm, "cnn") for arm in ARMS} == {
        a: r.provenance.code_hash for a, r in results.items()
    }


@pytest.mark.parametrize("arm", ARMS)
def test_a_code_hash_has_what_a_run_loads_and_nothing_of_another_workload(ended: dict[str, Ended], arm: str) -> None:
    """Each arm above ran in a project without any other file; and what is left out is what other arms alone have."""
    files = {str(path.relative_to(PROJECT)) for path in provenance.modules_of_run(arm, "cnn")}
    workloads = {path.split("/")[2] for path in files if path.count("/") > 2}
    other_launchers = {"alone": "peers", "peers": "ray_driver", "ray": "peers"}[ARMS[arm].start]

    assert (ended[arm].folder / "result.json").exists()
    assert {"cnn"} == workloads - {"__init__.py"}
    assert f"training/launch/{other_launchers}.py" not in files


@pytest.mark.parametrize("arm", ["ray", "tuned"])
def test_workers_that_ray_starts_learn_the_same_to_the_last_digit(
    results: dict[str, result.TrainingResult], arm: str
) -> None:
    """The difference between the arms is orchestration, and nothing else."""
    native, ray = results["native"], results[arm]

    assert [(e.loss, e.accuracy, e.validation_loss) for e in native.detail.history] == [
        (e.loss, e.accuracy, e.validation_loss) for e in ray.detail.history
    ]
    assert native.scores["testAccuracy"] == ray.scores["testAccuracy"]


@needs_two_cpus
def test_one_wide_process_is_a_baseline_with_the_cpus_of_all_workers(
    results: dict[str, result.TrainingResult], tmp_path: Path
) -> None:
    """To the last digit, which the number of threads alone changes: sums come in another order."""
    ended = run_arm("baseline", tmp_path, [*FLAGS, "--worker-cpus=2"])
    baseline, wide = result.read(tmp_path / "result.json"), results["wide"]

    assert 0 == ended.returncode
    assert [epoch.loss for epoch in baseline.detail.history] == [epoch.loss for epoch in wide.detail.history]
    assert [worker.affinity for worker in baseline.workers] == [worker.affinity for worker in wide.workers]


@pytest.mark.parametrize("arm", ARMS)
def test_tensorflow_saw_as_many_replicas_as_there_are_workers(
    results: dict[str, result.TrainingResult], arm: str
) -> None:
    """A strategy that saw one replica would be N baselines beside each other."""
    world = 1 if arm in ("baseline", "wide") else 2
    assert world == results[arm].world_size == len(results[arm].workers)
    assert list(range(world)) == [worker.rank for worker in results[arm].workers]


@pytest.mark.parametrize("arm", ARMS)
def test_what_was_verified_in_the_run_held(results: dict[str, result.TrainingResult], arm: str) -> None:
    """Shards cover the data set, weights are equal, threads and replicas are as asked for."""
    assert {True} == set(results[arm].checks.values())


@needs_two_cpus
@pytest.mark.parametrize("arm", ARMS)
def test_a_worker_has_cpus_of_its_own_and_a_thread_for_each(
    results: dict[str, result.TrainingResult], arm: str
) -> None:
    """Rule 4, for the baseline too; one wide process has those of both workers. It is what each process reports."""
    count = 2 if arm == "wide" else 1
    workers = results[arm].workers
    bound = [worker.affinity or [] for worker in workers]

    assert [count] * len(workers) == [len(cpus) for cpus in bound]
    assert count * len(workers) == len({cpu for cpus in bound for cpu in cpus})
    for worker in workers:
        assert worker.bound
        assert count == worker.compute_threads
        assert worker.mean_cpus is not None
        assert worker.mean_cpus < count + 0.1


@pytest.mark.skipif((psutil.cpu_count(logical=False) or 1) < 2, reason="two workers need two physical cores")
@needs_two_cpus
@pytest.mark.parametrize("arm", ["native", "ray", "tuned"])
def test_workers_are_on_different_physical_cores(results: dict[str, result.TrainingResult], arm: str) -> None:
    """As the system itself lists the threads of a core."""
    siblings = {
        Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text()
        for worker in results[arm].workers
        for cpu in worker.affinity or []
    }

    assert 2 == len(siblings)
    assert [worker.affinity for worker in results[arm].workers] == [
        [place.cpu for place in worker.cpus or []] for worker in results[arm].workers
    ]


@pytest.mark.parametrize("arm", ARMS)
def test_every_rank_says_what_it_ran_with(results: dict[str, result.TrainingResult], arm: str) -> None:
    """Installed versions, the hash of its code, and the steering variables; nothing of what was foreign to it."""
    for worker in results[arm].workers:
        assert {"python", "ray", "numpy", "tf-keras"} <= set(worker.software.versions)
        assert provenance.code_hash(arm, "cnn") == worker.software.code_hash
        assert ("2" if arm == "wide" else "1") == worker.software.environment["OMP_NUM_THREADS"]
        assert "0" == worker.software.environment["OMP_DYNAMIC"]
        assert not FOREIGN.keys() & worker.software.environment.keys()


@pytest.mark.parametrize("arm", ARMS)
def test_a_worker_says_where_it_ran(results: dict[str, result.TrainingResult], arm: str) -> None:
    """Each rank for itself: outside of pods this machine, with its CPU model."""
    here = (platform.node(), provenance.host().cpu_model, None)

    assert {here} == {(worker.node, worker.cpu_model, worker.pod) for worker in results[arm].workers}


@pytest.mark.parametrize("arm", ARMS)
def test_only_steps_after_warm_up_are_timed(results: dict[str, result.TrainingResult], arm: str) -> None:
    """Rule 6: of five steps an epoch, two warm up; the phases and the rest are reported by themselves.

    The phases are all of the start-up, but for what lies between them; with Ray, between its processes, too.
    """
    found = results[arm]
    between = 0.1 if ARMS[arm].start == "ray" else 0.05

    history = detail_of(found).history
    assert [3, 5] == [epoch.timed_steps for epoch in history]
    assert [107, 207] == [epoch.timed_images for epoch in history]
    assert 8 == found.steps.timed == len(found.steps.trace)
    assert found.seconds.train == pytest.approx(sum(epoch.train_seconds for epoch in history))
    assert found.seconds.train == pytest.approx(sum(found.steps.trace), rel=0.1)
    assert {"process", "tensorflow", "data", "model", "tracing"} <= set(found.seconds.phases)
    assert found.seconds.train is not None
    assert found.seconds.startup is not None
    assert found.seconds.evaluation is not None
    assert found.seconds.warmup is not None
    accounted = found.seconds.startup + found.seconds.warmup + found.seconds.train + found.seconds.evaluation
    assert found.seconds.wall > accounted
    assert 0 <= found.seconds.startup - sum(found.seconds.phases.values()) <= between * found.seconds.startup


@pytest.mark.parametrize("arm", ARMS)
def test_images_are_counted_by_who_processed_them(results: dict[str, result.TrainingResult], arm: str) -> None:
    """Rule 2: over two epochs of 207 images."""
    assert 2 * 207 == sum(worker.amount or 0 for worker in results[arm].workers)


@pytest.mark.parametrize("arm", ARMS)
def test_a_number_that_was_not_measured_is_null_with_a_reason(
    results: dict[str, result.TrainingResult], arm: str
) -> None:
    """Rule 9."""
    data = results[arm].to_dict()

    for name in ("seconds.train", "seconds.report", "amount.perSecond", "steps.seconds", "allReduce", "ray"):
        part, _, inner = name.partition(".")
        value = data[part][inner] if inner else data[part]
        assert (value is None) == (name in data["reasons"]), name


def test_ray_says_what_cluster_it_had(results: dict[str, result.TrainingResult]) -> None:
    """One node here, with a CPU a worker."""
    ray = results["ray"].ray

    assert ray is not None
    assert (1, 2.0) == (ray.nodes, ray.cpus)


def test_ray_leaves_no_process_and_no_temporary_file(folders: dict[str, Path]) -> None:
    """Everything is shut down at the end; what is dead and only not yet waited for by the system does not count."""
    session = os.getsid(0)
    left = [
        process.info["name"]
        for process in psutil.process_iter(["name", "status"])
        if _session_of(process.pid) == session and process.info["status"] != psutil.STATUS_ZOMBIE
    ]

    assert [] == [name for name in left if name and name.startswith(("ray::", "raylet", "gcs_server"))]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a scheduling policy for what may wait")
def test_tuned_ray_s_own_processes_are_few_and_wait_for_training(ended: dict[str, Ended]) -> None:
    """Nothing that only polls is started, and what Ray needs runs when no training thread wants the CPU."""
    seen = ended["tuned"].processes

    names = {name for name, _, _ in seen}
    assert {WORKER, "ray::TrainController.run"} <= names
    assert [] == [name for name in names if re.search(LEFT_OUT, name)]
    assert {os.SCHED_IDLE} == {policy for name, _, policies in seen for policy in policies if name != WORKER}
    assert {os.SCHED_IDLE, os.SCHED_OTHER} == {p for name, _, policies in seen for p in policies if name == WORKER}
    assert {os.nice(0)} == {nice for name, nice, _ in seen if name == WORKER}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a scheduling policy for what may wait")
def test_documented_ray_has_all_that_ray_starts_at_the_priority_that_ray_gives_it(ended: dict[str, Ended]) -> None:
    """Nobody is demoted, nothing left out; workers at niceness 15, as Ray has it."""
    seen = ended["ray"].processes

    names = {name for name, _, _ in seen}
    assert {WORKER, "ray::TrainController.run"} <= names
    assert 2 <= sum(1 for name in names if re.search(LEFT_OUT, name))
    assert {os.SCHED_OTHER} == {policy for _, _, policies in seen for policy in policies}
    assert {min(19, os.nice(0) + 15)} == {nice for name, nice, _ in seen if name == WORKER}


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


JUDGING = """
import json, sys
import numpy as np, tensorflow as tf
from training.workloads.cnn import dataset
recipe = json.loads(sys.argv[1])
test = dataset.load(recipe["dataset"], recipe["trainImages"], "").test
for path in sys.argv[2:]:
    logits = tf.keras.models.load_model(path).predict(test.images / np.float32(255), verbose=0)
    print((logits.argmax(axis=1) == test.labels).mean())
"""


def test_saved_models_have_the_accuracy_of_their_results(
    folders: dict[str, Path], results: dict[str, result.TrainingResult]
) -> None:
    """Loaded elsewhere, that of each arm classifies the test set as its run said."""
    saved = {arm: detail_of(found).saved_model for arm, found in results.items()}
    paths = [folders[arm] / model.path for arm, model in saved.items() if model]
    recipe = json.dumps(results["baseline"].recipe)

    judged = subprocess.run(
        [sys.executable, "-c", JUDGING, recipe, *map(str, paths)],
        cwd=PROJECT, env=os.environ | {"TF_USE_LEGACY_KERAS": "1"}, capture_output=True, text=True, timeout=300,
        check=True,
    )  # fmt: skip

    assert [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths] == [
        model and model.sha256 for model in saved.values()
    ]
    assert [found.scores["testAccuracy"] for found in results.values()] == pytest.approx(
        [float(line) for line in judged.stdout.split()]
    )


@pytest.mark.parametrize("arm", ARMS)
def test_progress_is_written_as_it_happens(folders: dict[str, Path], arm: str) -> None:
    """A start and a line an epoch."""
    events = [json.loads(line) for line in (folders[arm] / "progress.jsonl").read_text().splitlines()]

    assert ["start", "epoch", "epoch"] == [event["event"] for event in events]


@pytest.mark.parametrize(
    ("arm", "flags", "said"),
    [
        ("baseline", ["--epochs=0"], "'0' is not allowed; allowed is a whole number from 1"),
        ("baseline", ["--learning-rate=nan"], "'nan' is not allowed"),
        ("baseline", ["--dataset=mnist"], "one of digits, cifar10, synthetic"),
        ("baseline", ["--dataset=cifar10", "--dataset-path=/nowhere"], "/nowhere: there is no such folder"),
        ("native", ["--workers=3", "--global-batch-size=2"], "must be at least 3"),
        ("native", ["--dataset=cifar10", "--dataset-path=/nowhere"], "/nowhere: there is no such folder"),
        ("ray", ["--dataset=cifar10", "--dataset-path=/nowhere"], "/nowhere: there is no such folder"),
    ],
)
def test_a_bad_command_line_says_what_is_wrong_and_leaves_no_result(
    arm: str, flags: list[str], said: str, tmp_path: Path
) -> None:
    """What was given, what is allowed; the exit code says that it failed."""
    ended = run_arm(arm, tmp_path, flags)

    assert ended.returncode != 0
    assert said in ended.stderr
    assert not (tmp_path / "result.json").exists()


@pytest.mark.parametrize("arm", ARMS)
def test_help_names_every_setting_of_the_recipe(arm: str, tmp_path: Path) -> None:
    """`--help` is the documentation of the command line."""
    said = run_arm(arm, tmp_path, ["--help"]).stdout

    for name in CnnRecipe().to_dict():
        assert "--" + "".join(f"-{c.lower()}" if c.isupper() else c for c in name) in said


def test_no_container_is_read_where_cpus_are_bound(results: dict[str, result.TrainingResult]) -> None:
    """A run on this machine shares its cgroup, if it has one, with everything else."""
    assert [None] * 8 == [worker.container_cpu for one in results.values() for worker in one.workers]
    assert results["ray"].ray_head is None


COLLECTING = """
import gc, sys
from training.launch import entry; from training.workloads.cnn import train
made = train.set_up
train.set_up = lambda *given: print("setting up, collecting:", gc.isenabled()) or made(*given)
asked = entry.parse("baseline", None)
entry.take_part(asked, "baseline", report=lambda _: print("collecting:", gc.isenabled(), gc.get_freeze_count() > 9999))
"""


def test_garbage_is_collected_while_training_and_not_before(tmp_path: Path) -> None:
    """What imports and tracing made is never looked at again; what training leaves is."""
    flags = ["--result", str(tmp_path / "result.json"), "--no-bind-cpus", *FLAGS]
    ended = subprocess.run(
        [sys.executable, "-c", COLLECTING, *flags],
        cwd=PROJECT,
        env=os.environ | variables(WORKLOAD, 1),
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )

    said = [line for line in ended.stdout.splitlines() if "collecting" in line]
    assert ["setting up, collecting: False", "collecting: True True", "collecting: True True"] == said
