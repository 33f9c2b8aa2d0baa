"""The entry points of all arms, for real: what a run of each leaves behind."""

import hashlib
import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from report.pictures import PHASES
from tests.limits import LONGEST_SECONDS
from tests.training.conftest import Arms
from tests.training.looked_at import FLAGS, FOREIGN, PROJECT, WORKER, run_arm
from tests.unit.results import COMPARED
from training.contract import provenance, result
from training.contract.arms import ARMS
from training.workloads.cnn.detail import detail_of

CPUS = provenance.allowed_cpus()
needs_two_cpus = pytest.mark.skipif(len(CPUS) < 2, reason="two workers need two CPUs")
Results = dict[str, result.TrainingResult]
"""By arm."""
NO_FOLDER = "/nowhere: there is no such folder"
HELPERS = r"Autoscaling|autoscaler|dashboard\.py|PlacementGroup|PreemptionWatcher"
"""Processes that Ray starts beside the workers."""


@pytest.fixture(scope="module")
def folders(ended: Arms) -> dict[str, Path]:
    """Their folders."""
    return {arm: ended[arm].folder for arm in COMPARED}


@pytest.fixture(scope="module")
def results(folders: dict[str, Path]) -> Results:
    """Their results."""
    return {arm: result.read(folder / "result.json") for arm, folder in folders.items()}


def test_every_arm_trains_with_the_same_recipe_data_and_code(results: Results) -> None:
    """Rules 1 and 8."""
    first, *others = results.values()

    for other in others:
        assert first.recipe == other.recipe
        assert first.provenance.dataset_hash == other.provenance.dataset_hash
        assert first.provenance.dependencies_hash == other.provenance.dependencies_hash
        assert (first.work["parameters"], first.work["layers"], first.steps.per_epoch) == (
            other.work["parameters"], other.work["layers"], other.steps.per_epoch,
        )  # fmt: skip
    assert {arm: provenance.code_hash(arm, "cnn") for arm in COMPARED} == {
        a: r.provenance.code_hash for a, r in results.items()
    }


@pytest.mark.parametrize("arm", COMPARED)
def test_a_code_hash_has_what_a_run_loads_and_nothing_of_another_workload(ended: Arms, arm: str) -> None:
    """Each arm above ran in a project without any other file; and what is left out is what other arms alone have."""
    files = {str(path.relative_to(PROJECT)) for path in provenance.modules_of_run(arm, "cnn")}
    workloads = {path.split("/")[2] for path in files if path.startswith("training/workloads/")}
    other_launchers = {"alone": "peers", "peers": "ray/driver", "ray": "peers"}[ARMS[arm].start]

    assert (ended[arm].folder / "result.json").exists()
    assert {"cnn"} == workloads - {"__init__.py"}
    assert f"training/launch/{other_launchers}.py" not in files


def test_workers_that_ray_starts_learn_the_same_to_the_last_digit(results: Results) -> None:
    """The difference between the arms is orchestration, and nothing else."""
    native, ray = results["native"], results["ray"]

    assert [(e.loss, e.accuracy, e.validation_loss) for e in native.detail.history] == [
        (e.loss, e.accuracy, e.validation_loss) for e in ray.detail.history
    ]
    assert native.scores["testAccuracy"] == ray.scores["testAccuracy"]


@needs_two_cpus
def test_one_wide_process_is_a_baseline_with_the_cpus_of_all_workers(results: Results, tmp_path: Path) -> None:
    """To the last digit, which the number of threads alone changes: sums come in another order."""
    ended = run_arm("baseline", tmp_path, [*FLAGS, "--worker-cpus=2"])
    baseline, wide = result.read(tmp_path / "result.json"), results["wide"]

    assert 0 == ended.returncode
    assert [epoch.loss for epoch in baseline.detail.history] == [epoch.loss for epoch in wide.detail.history]
    assert [worker.affinity for worker in baseline.workers] == [worker.affinity for worker in wide.workers]


@pytest.mark.parametrize("arm", COMPARED)
def test_workers_share_the_work_as_was_asked_for(results: Results, arm: str) -> None:
    """What was verified in the run held: shards cover the data set, weights are equal, threads and replicas are as
    asked for. A strategy that saw one replica would be N baselines beside each other; rule 2: images are counted by who
    processed them, here 207 in each of two epochs."""
    found, world = results[arm], 1 if arm in ("baseline", "wide") else 2

    assert {True} == set(found.checks.values())
    assert world == found.world_size
    assert list(range(world)) == [worker.rank for worker in found.workers]
    assert 2 * 207 == sum(worker.amount or 0 for worker in found.workers)


@needs_two_cpus
@pytest.mark.parametrize("arm", COMPARED)
def test_a_worker_has_cpus_of_its_own_and_a_thread_for_each(results: Results, arm: str) -> None:
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
@pytest.mark.parametrize("arm", ["native", "ray"])
def test_workers_are_on_different_physical_cores(results: Results, arm: str) -> None:
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


@pytest.mark.parametrize("arm", COMPARED)
def test_every_rank_says_where_and_with_what_it_ran(results: Results, arm: str) -> None:
    """Outside of pods this machine, with its CPU model; installed versions, the hash of its code, and the steering
    variables. Nothing of what was foreign to it."""
    here = (platform.node(), provenance.host().cpu_model, None)
    for worker in results[arm].workers:
        assert here == (worker.node, worker.cpu_model, worker.pod)
        assert {"python", "ray", "numpy", "tf-keras"} <= set(worker.software.versions)
        assert provenance.code_hash(arm, "cnn") == worker.software.code_hash
        assert ("2" if arm == "wide" else "1") == worker.software.environment["OMP_NUM_THREADS"]
        assert "0" == worker.software.environment["OMP_DYNAMIC"]
        assert not FOREIGN.keys() & worker.software.environment.keys()


@pytest.mark.parametrize("arm", COMPARED)
def test_only_steps_after_warm_up_are_timed(results: Results, arm: str) -> None:
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


def test_ray_train_imports_tensorflow_with_the_functions_that_it_sends_to_workers() -> None:
    """They run before the workers' function is called: so that import is in the phase `rayWorkers`, and the report's
    words for it say so."""
    code = "import sys, ray.train.tensorflow.config; print('tensorflow' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "True" == found.stdout.strip()
    assert "import" in PHASES["rayWorkers"]  # not prose: which phase has the import


@pytest.mark.parametrize("arm", COMPARED)
def test_a_number_that_was_not_measured_is_null_with_a_reason(results: Results, arm: str) -> None:
    """Rule 9."""
    data = results[arm].to_dict()

    for name in ("seconds.train", "seconds.report", "amount.perSecond", "steps.seconds", "ray"):
        part, _, inner = name.partition(".")
        value = data[part][inner] if inner else data[part]
        assert (value is None) == (name in data["reasons"]), name


def test_ray_says_what_cluster_it_had(results: Results) -> None:
    """One node here, with a CPU a worker. No container is read: a run on this machine shares its cgroup, if it has one,
    with everything else."""
    ray = results["ray"].ray

    assert ray is not None
    assert (1, 2.0) == (ray.nodes, ray.cpus)
    assert [None] * 6 == [worker.container_cpu for one in results.values() for worker in one.workers]
    assert results["ray"].ray_head is None


@pytest.mark.parametrize("arm", COMPARED)
def test_an_arm_leaves_its_progress_and_no_process(ended: Arms, arm: str) -> None:
    """A start and a line an epoch. Everything is shut down at its end; what is dead and only not yet waited for by the
    system does not count."""
    events = [json.loads(line) for line in (ended[arm].folder / "progress.jsonl").read_text().splitlines()]

    assert ["start", "epoch", "epoch"] == [event["event"] for event in events]
    assert [] == ended[arm].outlived


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a scheduling policy for what may wait")
def test_documented_ray_has_all_that_ray_starts_at_the_priority_that_ray_gives_it(ended: Arms) -> None:
    """Nobody is demoted, nothing left out; workers at niceness 15, as Ray has it."""
    seen = ended["ray"].processes

    names = {process.name for process in seen}
    assert {WORKER, "ray::TrainController.run"} <= names
    assert 2 <= sum(1 for name in names if re.search(HELPERS, name))
    assert {os.SCHED_OTHER} == set().union(*(process.policies for process in seen))
    assert {min(19, os.nice(0) + 15)} == {process.nice for process in seen if process.name == WORKER}


JUDGING = """
import json, sys
import numpy as np, tensorflow as tf
from training.workloads.cnn import dataset
from training.workloads.cnn.recipe import CnnRecipe
from training.workloads.cnn.shapes import Share
test = dataset.load(CnnRecipe.from_dict(json.loads(sys.argv[1])), "", Share()).test
for path in sys.argv[2:]:
    logits = tf.keras.models.load_model(path).predict(test.images / np.float32(255), verbose=0)
    print((logits.argmax(axis=1) == test.labels).mean())
"""


def test_saved_models_have_the_accuracy_of_their_results(folders: dict[str, Path], results: Results) -> None:
    """Loaded elsewhere, that of each arm classifies the test set as its run said."""
    saved = {arm: detail_of(found).saved_model for arm, found in results.items()}
    paths = [folders[arm] / model.path for arm, model in saved.items() if model]
    recipe = json.dumps(results["baseline"].recipe)

    judged = subprocess.run(
        [sys.executable, "-c", JUDGING, recipe, *map(str, paths)],
        cwd=PROJECT, env=os.environ | {"TF_USE_LEGACY_KERAS": "1"}, capture_output=True, text=True,
        timeout=LONGEST_SECONDS, check=True,
    )  # fmt: skip

    assert [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths] == [
        model and model.sha256 for model in saved.values()
    ]
    assert [found.scores["testAccuracy"] for found in results.values()] == pytest.approx(
        [float(line) for line in judged.stdout.split()]
    )


@pytest.mark.parametrize("arm", ["baseline", "native", "ray"])
def test_data_that_is_not_there_is_named_and_leaves_no_result(arm: str, tmp_path: Path) -> None:
    """By whichever process looks for it first; the exit code says that it failed."""
    ended = run_arm(arm, tmp_path, ["--dataset=cifar10", "--dataset-path=/nowhere"])

    assert ended.returncode != 0
    assert NO_FOLDER in ended.stderr
    assert not (tmp_path / "result.json").exists()
