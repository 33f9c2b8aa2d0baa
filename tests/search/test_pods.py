"""A search as pods run it, with the processes of this machine: each has a folder of its own, and sees no other's."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.limits import LONGEST_SECONDS
from tests.ports import free_ports
from tests.ray_head import TOKEN
from tests.script.test_pods import ray_head
from tests.search.test_arms import RECIPE, SCRIPT
from training.contract import progress
from training.contract.provenance import PROJECT
from training.contract.result import NAME, TrainingResult, read
from training.launch import entry, environment
from training.launch.environment import FILES, SECRET_NAMES
from training.launch.rendezvous import Rendezvous
from training.workloads.script import source
from training.workloads.script.recognise import Takes, recognise
from training.workloads.search.detail import SearchDetail
from training.workloads.search.plan import TRIALS
from training.workloads.search.recipe import SearchRecipe
from training.workloads.search.same_work import of_results

ARGUMENTS = "--lr {lr} --width {width} --epochs {epochs}"
PASSWORD = "no-log-has-this-word"  # noqa: S105 (that is what is tested)


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    """The plain script in its package, with a module beside it that has the name of this project's own."""
    script = tmp_path / "mine" / "train.py"
    script.parent.mkdir()
    script.write_text(SCRIPT.replace("import argparse", "import training, argparse"), encoding="utf-8")
    (script.parent / "training.py").write_text("", encoding="utf-8")
    path = tmp_path / "files.zip"
    takes = Takes(placeholders=RECIPE.placeholders(), one_process=True)
    path.write_bytes(source.package_of(recognise(script, tuple(ARGUMENTS.split()), "auto", takes), None).content)
    return path


def start(
    arm: str,
    folder: Path,
    variables: dict[str, str],
    *flags: str,
    recipe: SearchRecipe = RECIPE,
    inside: Path | None = None,
    arguments: str = ARGUMENTS,
) -> subprocess.Popen[str]:
    """An arm's process in a pod of its own, whose files are in `folder`; it is started there, or inside another."""
    folder.mkdir(exist_ok=True)
    own = {entry.POD: "1", progress.ECHO: "1", "TRAINING_NODE": f"node-of-{folder.name}", "PYTHONPATH": str(PROJECT)}
    recipe = replace(recipe, script="train.py", script_arguments=arguments)
    command = [
        *(sys.executable, "-P", "-m", f"training.{arm}", "--no-bind-cpus", f"--result={folder / NAME}"),
        *recipe.flags(), *flags,
    ]  # fmt: skip
    return subprocess.Popen(
        command, cwd=inside or folder, env=os.environ | own | variables,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def addresses() -> list[str]:
    """Of two pods: the first one's port, and the next, are free."""
    return [f"127.0.0.1:{free_ports(2)[0]}"] * 2


def start_members(folder: Path, packed: Path, recipe: SearchRecipe = RECIPE) -> list[subprocess.Popen[str]]:
    """Two pods of Optuna's processes. No trial trains before each pod has one."""
    together = f"{ARGUMENTS} --meet {folder}/trials --together 2"
    meeting, files = addresses(), {FILES: str(packed)}
    pods = {folder / f"pod-{rank}": {**Rendezvous(meeting, rank).variable(), **files} for rank in range(2)}
    return [start("native", pod, variables, recipe=recipe, arguments=together) for pod, variables in pods.items()]


def detail_of(result: TrainingResult) -> SearchDetail:
    """Its trials."""
    assert isinstance(result.detail, SearchDetail)
    return result.detail


def test_processes_of_optuna_s_in_two_pods_make_every_trial_once(tmp_path: Path, packed: Path) -> None:
    """The first pod serves the study and has the result; the other pod's trials are in it, and in no folder of its."""
    (tmp_path / "alone").mkdir()
    alone = start("baseline", tmp_path / "alone", {FILES: str(packed)})
    of_alone = alone.communicate(timeout=LONGEST_SECONDS)[0]
    assert alone.returncode == 0, of_alone
    members = start_members(tmp_path, packed)
    printed = [each.communicate(timeout=LONGEST_SECONDS)[0] for each in members]

    assert [each.returncode for each in members] == [0, 0], printed
    assert not (tmp_path / "pod-1" / NAME).exists()
    result = read(tmp_path / "pod-0" / NAME)
    assert [trial.state for trial in detail_of(result).trials] == ["finished"] * 6
    made = [{int(path.name) for path in (tmp_path / f"pod-{rank}" / TRIALS).iterdir()} for rank in range(2)]
    assert made[0] | made[1] == set(range(6))
    assert all(made)
    assert not made[0] & made[1]
    assert sum(worker.amount or 0 for worker in result.workers) == 6
    known = of_results([read(tmp_path / "alone" / NAME), result])
    assert (known["configurations"][0], known["epochs"][0]) == (True, True)
    assert "6 of 6" in printed[0] + printed[1]


def test_a_pod_that_dies_leaves_no_result(tmp_path: Path, packed: Path) -> None:
    """The other waits for it, until Kubernetes ends it with the Job, and leaves nothing."""
    members = start_members(tmp_path, packed, replace(RECIPE, epochs=400))
    while not all(list((tmp_path / f"pod-{rank}" / TRIALS).glob("*/log.txt")) for rank in range(2)):
        assert [each.poll() for each in members] == [None, None]
    below = psutil.Process(members[1].pid).children(recursive=True)
    driver = next(each for each in below if "training.workloads.search.driver" in each.cmdline())
    driver.kill()
    printed = members[1].communicate(timeout=LONGEST_SECONDS)[0]
    of_first = psutil.Process(members[0].pid).children(recursive=True)
    members[0].send_signal(signal.SIGTERM)
    members[0].communicate(timeout=LONGEST_SECONDS)

    assert members[1].returncode == 1, printed
    assert "signal 9" in printed
    assert members[0].returncode not in (0, None)
    assert not list(tmp_path.glob(f"*/{NAME}"))
    _, alive = psutil.wait_procs([*below, *of_first], timeout=LONGEST_SECONDS)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.slow
def test_stopping_and_an_algorithm_work_through_the_served_study(tmp_path: Path, packed: Path) -> None:
    """The pods' members see each other's reports, and choose by them."""
    recipe = replace(RECIPE, epochs=20, search_scheduler="asha", search_reduction=2, search_algorithm="tpe")
    members = start_members(tmp_path, packed, recipe)
    printed = [each.communicate(timeout=LONGEST_SECONDS)[0] for each in members]

    assert [each.returncode for each in members] == [0, 0], printed
    search = read(tmp_path / "pod-0" / NAME).search
    assert search is not None
    assert search.stopped > 0
    assert search.finished + search.stopped == 6


KEYS = """
import sys, ray
from ray.experimental.internal_kv import _internal_kv_list, _internal_kv_put
ray.init(log_to_driver=False)
for key in sys.argv[1:]:
    _internal_kv_put(key, b"left")
print(b" ".join(_internal_kv_list("ray-worth-it")).decode())
"""
"""Puts keys into the store of a Ray, and prints those that it then has of ours."""


def keys(address: str, *more: str) -> list[str]:
    """Ours in the store of a Ray, with those that are put there before."""
    variables = {"RAY_ADDRESS": address, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN}
    command = [sys.executable, "-c", KEYS, *more]
    done = subprocess.run(
        command, env=os.environ | variables, stdout=subprocess.PIPE, text=True, check=True, timeout=LONGEST_SECONDS
    )
    return done.stdout.split()


@contextmanager
def on_ray(
    folder: Path, packed: Path, recipe: SearchRecipe = RECIPE, left: str = ""
) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """The driver of the arm ray on a head that is there before it, as a job of it; and the folder of its pod. `left`: a
    key that an earlier search left in the head's store. In the end none of its keys is left."""
    pod, job = folder / "head", folder / "job"
    pod.mkdir()
    source.unpack(packed.read_bytes(), job)
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as short, ray_head(Path(short)) as address:
        variables = {
            "RAY_ADDRESS": address, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN,
            environment.JOB_CONFIG: json.dumps({"runtime_env": {"working_dir": str(job)}}),
            SECRET_NAMES: "PASSWORD", "PASSWORD": PASSWORD,
        }  # fmt: skip
        if left:
            assert [left] == keys(address, left)
        driver = start("ray", pod, variables, "--address=auto", recipe=recipe, inside=job)
        try:
            yield driver, pod
        finally:
            driver.kill()
        assert [] == keys(address)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_search_that_is_ended_leaves_nothing_in_ray_s_store(
    tmp_path: Path, packed: Path, number: signal.Signals
) -> None:
    """Nor what one before left there whose driver was killed; Ray's pods outlive both."""
    recipe = replace(RECIPE, epochs=2000, search_algorithm="tpe")
    with on_ray(tmp_path, packed, recipe, left="ray-worth-it/search-before/number/0") as (driver, pod):
        while not list(_actors_of(pod)):
            assert driver.poll() is None, driver.communicate()[0]
        (of_tune,) = (
            each
            for each in psutil.Process(driver.pid).children(recursive=True)
            if "training.workloads.search.driver" in each.cmdline()
        )
        of_tune.send_signal(number)
        printed = driver.communicate(timeout=LONGEST_SECONDS)[0]

    assert driver.returncode == 1, printed[-4000:]
    assert not list(pod.glob(NAME))


@pytest.mark.slow
def test_tune_s_trials_come_back_through_ray_s_own_store(tmp_path: Path, packed: Path) -> None:
    """From workers of other pods; one of them is killed, and is a trial that failed."""
    with on_ray(tmp_path, packed, replace(RECIPE, epochs=60)) as (driver, pod):
        while not (actors := list(_actors_of(pod))):
            assert driver.poll() is None, driver.communicate()[0]
        actors[0].kill()
        printed = driver.communicate(timeout=LONGEST_SECONDS)[0]

    assert driver.returncode == 0, printed[-4000:]
    assert PASSWORD not in printed
    result = read(pod / NAME)
    assert result.search is not None
    assert (result.search.finished, result.search.failed) == (5, 1)
    assert (result.workers[0].node, result.workers[0].amount) == ("a-node", 5)
    assert result.ray_head is not None
    assert not list(pod.glob("trials"))


@pytest.mark.slow
def test_trials_that_tune_has_stopped_come_back_too(tmp_path: Path, packed: Path) -> None:
    """They end after Tune has their last report, and their numbers are taken in the store."""
    recipe = replace(RECIPE, epochs=20, search_scheduler="asha", search_reduction=2, search_algorithm="tpe")
    with on_ray(tmp_path, packed, recipe) as (driver, pod):
        printed = driver.communicate(timeout=LONGEST_SECONDS)[0]

    assert driver.returncode == 0, printed[-4000:]
    search = read(pod / NAME).search
    assert search is not None
    assert search.stopped > 0
    assert (search.finished + search.stopped, search.failed) == (6, 0)


def _actors_of(pod: Path) -> Iterator[psutil.Process]:
    """The processes of Ray's in which a trial of this run is."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if f"{pod}/search-" in " ".join(process.cmdline()):
                yield from (each for each in process.parents() if each.name().startswith("ray::Resource"))
