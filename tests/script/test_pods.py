"""A script as pods run it, with the processes of this machine: ranks of an Indexed Job, and the driver of a Ray job."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tests.limits import LONGEST_SECONDS
from tests.ports import free_ports
from tests.ray_head import PYTHON, TOKEN, end, needed, running
from tests.script.tryout import EXAMPLES, NO_TORCH, NO_TREES, PROJECT
from tests.stacks import TORCH, TREES
from training.contract import result
from training.contract.result import NOT_MEASURED, PROOF, TrainingResult
from training.launch import entry, environment
from training.launch.environment import FILES, SECRET_NAMES
from training.launch.rendezvous import Rendezvous
from training.workloads.script import execution_site, source
from training.workloads.script.recognise import recognise

ARGUMENTS = "--epochs 1 --num-workers {workers} --storage {storage}"
PLAIN = """
import torch
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
rows = torch.randn(256, 16)
model = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(3):
    for batch, labels in DataLoader(TensorDataset(rows, rows.sum(1, keepdim=True)), batch_size=32, shuffle=True):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(batch), labels).backward()
        optimizer.step()
"""
BY_HAND = """
import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(20):
    optimizer.zero_grad()
    model(torch.ones(8, 4)).square().mean().backward()
    optimizer.step()
"""
KERAS = """
import numpy as np
import tensorflow as tf
import tf_keras
tf_keras.utils.set_random_seed(1)
rows = np.random.default_rng(0).normal(size=(256, 8)).astype("float32")
model = tf_keras.Sequential([tf_keras.layers.Dense(4, activation="tanh"), tf_keras.layers.Dense(1)])
model.compile(optimizer=tf_keras.optimizers.SGD(0.01), loss="mse")
model.fit(rows, rows.sum(1, keepdims=True), batch_size=32, epochs=3, verbose=0)
"""
TREES_DATA = """
import numpy as np
rows = np.random.default_rng(0).integers(0, 8, (400, 4)).astype(float)
labels = rows.sum(1)
"""
XGBOOST = f"""
import xgboost
{TREES_DATA}
xgboost.train({{"max_depth": 3}}, xgboost.DMatrix(rows, labels), 15)
"""
LIGHTGBM = f"""
import lightgbm
{TREES_DATA}
lightgbm.train({{"num_leaves": 7, "verbose": -1}}, lightgbm.Dataset(rows, labels), 15)
"""
GIB = 2**30
WATCH = "RAY_memory_monitor_refresh_ms"
PASSWORD = "no-log-has-this-word"  # noqa: S105 (that is what is tested)


def packed(folder: Path, name: str, arguments: str) -> Path:
    """An example in its package, or a script by its whole path."""
    script = recognise(EXAMPLES / name, tuple(arguments.split()))
    path = folder / "files.zip"
    path.write_bytes(source.package_of(script, None).content)
    return path


def start(
    arm: str,
    folder: Path,
    name: str,
    arguments: str,
    variables: dict[str, str],
    *flags: str,
    python: str = sys.executable,
) -> subprocess.Popen[str]:
    """An arm's process in a pod of its own: `folder` is what that has, `python` that of its image."""
    own = {entry.POD: "1", "TRAINING_NODE": f"node-of-{folder.name}", "PYTHONPATH": str(PROJECT)}
    command = [
        *(python, "-P", "-m", f"training.{arm}", "--no-bind-cpus", f"--result={folder / 'result.json'}"),
        *("--workload=script", f"--script={name}", f"--script-arguments={arguments}", "--measure-steps=12", *flags),
    ]
    return subprocess.Popen(
        command,
        cwd=folder,
        env=os.environ | own | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def free_ports_before_another(count: int) -> list[int]:
    """Return so many, with a free one after each."""
    return free_ports(2 * count)[::2]


def assert_two_ranks(found: TrainingResult) -> None:
    """That trained together, with the same weights, and of each its own node."""
    assert (2, 2) == (found.world_size, len(found.workers))
    assert {"weightsEqual": True, "stepsOfRanksEqual": True}.items() <= found.checks.items()
    assert [12, 12] == [rank.steps for rank in found.detail.ranks]
    assert [0, 1] == [worker.rank for worker in found.workers]
    assert all(worker.pod for worker in found.workers)
    assert all(worker.container_cpu for worker in found.workers)


def pods_of_native(
    folder: Path, files: Path, name: str, arguments: str, *flags: str, python: str = sys.executable, waits: bool = False
) -> tuple[TrainingResult, list[str]]:
    """Run two pods, the first one last; return their result, and what each of them printed. `waits`: the other one has
    time to wait for it.

    Both end well, and the first pod alone has the result.
    """
    addresses = [f"127.0.0.1:{port}" for port in free_ports_before_another(2)]
    ranks: list[subprocess.Popen[str]] = []
    for rank in (1, 0):
        (own := folder / f"pod-{rank}").mkdir(exist_ok=True)
        told = Rendezvous(addresses, rank).variable() | {FILES: str(files)}
        ranks.insert(0, start("native", own, name, arguments, told, *flags, python=python))
        if waits:
            time.sleep(2)
    printed = [each.communicate(timeout=LONGEST_SECONDS)[0] for each in ranks]
    assert [0, 0] == [each.returncode for each in ranks], printed[0][-3000:] + printed[1][-3000:]
    found = result.read(folder / "pod-0" / "result.json")
    assert not (folder / "pod-1" / "result.json").exists()
    return found, printed


@pytest.mark.parametrize(
    ("name", "arguments"),
    [pytest.param("keras_tf_config.py", "--epochs 1", marks=pytest.mark.slow), ("keras_ray.py", ARGUMENTS)],
)
def test_each_pod_of_native_is_a_rank_and_the_first_has_the_result(name: str, arguments: str, tmp_path: Path) -> None:
    """Whether the script knows Ray or not: no pod sees another's files."""
    for rank in range(2):
        (tmp_path / f"pod-{rank}/storage").mkdir(parents=True)
        (tmp_path / f"pod-{rank}/storage/mine.txt").write_text("kept")
    found, _ = pods_of_native(tmp_path, packed(tmp_path, name, arguments), name, arguments)

    assert ["storage/mine.txt"] * 2 == [  # what a run makes is gone, and what was there is not
        str(path.relative_to(tmp_path / f"pod-{rank}"))
        for rank in range(2)
        for path in (tmp_path / f"pod-{rank}").glob("[os][bt]*/*")
    ]
    assert_two_ranks(found)
    assert ["node-of-pod-0", "node-of-pod-1"] == [worker.node for worker in found.workers]


@pytest.mark.skipif(not TREES, reason=NO_TREES)
@pytest.mark.parametrize("booster", ["xgboost", "lightgbm"])
def test_pods_of_native_grow_the_same_trees(booster: str, tmp_path: Path) -> None:
    """XGBoost by a tracker beside rank 0, which the other waits for; LightGBM by the addresses of all."""
    arguments = (
        f"--booster {booster} --rounds 12 --num-workers {{workers}} --data {{storage}}/data --storage {{storage}}"
    )
    files = packed(tmp_path, "trees.py", arguments)

    assert_two_ranks(pods_of_native(tmp_path, files, "trees.py", arguments, python=TREES, waits=True)[0])


def plain_script(folder: Path, text: str = PLAIN) -> Path:
    """One that trains in one process, for PyTorch, in its package."""
    path = folder / "plain.py"
    path.write_text(text, encoding="utf-8")
    return packed(folder, str(path), "")


@pytest.mark.parametrize(
    ("text", "python"),
    [
        pytest.param(PLAIN, TORCH, marks=pytest.mark.skipif(not TORCH, reason=NO_TORCH), id="torch"),
        pytest.param(KERAS, sys.executable, marks=pytest.mark.slow, id="keras"),
        pytest.param(
            XGBOOST, TREES, marks=[pytest.mark.skipif(not TREES, reason=NO_TREES), pytest.mark.slow], id="xgboost"
        ),
        pytest.param(LIGHTGBM, TREES, marks=pytest.mark.skipif(not TREES, reason=NO_TREES), id="lightgbm"),
    ],
)
def test_pods_of_native_are_ranks_of_a_plain_script(text: str, python: str, tmp_path: Path) -> None:
    """The first proves for all of them; one pod has the CPUs of one worker for it, and no folder in common."""
    files = plain_script(tmp_path, text)
    found, printed = pods_of_native(tmp_path, files, "plain.py", "", "--workers=2", python=python)

    assert [1, 0] == [each.count(" prove --framework ") for each in printed]
    assert (2, 2) == (found.world_size, len(found.workers)), found.reasons
    assert found.checks["weightsEqual"]
    assert found.did[PROOF]
    assert ["node-of-pod-0", "node-of-pod-1"] == [worker.node for worker in found.workers]


@pytest.mark.skipif(not TORCH, reason=NO_TORCH)
def test_a_script_that_can_t_be_split_is_no_run_of_pods(tmp_path: Path) -> None:
    """Each ends well, the first with a result that says why."""
    files = plain_script(tmp_path, BY_HAND)

    assert pods_of_native(tmp_path, files, "plain.py", "", "--workers=2", python=TORCH)[0].reasons[NOT_MEASURED]


@contextmanager
def limited(memory: int, *, as_a_container: bool = False) -> Iterator[list[str]]:
    """What a command begins with to have so many bytes, and as in a container to see no cgroup but its own; skipped
    where nobody may make a cgroup."""
    top = Path("/sys/fs/cgroup/memory")
    group = top / f"ray-worth-it-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup of version 1 can be made here: {error}")
    try:
        (group / "memory.limit_in_bytes").write_text(str(memory))
        enter = f"echo $$ >{group}/cgroup.procs"
        if as_a_container:
            yield ["unshare", "--mount", "sh", "-c", f'{enter} && mount --bind {group} {top} && exec "$@"', "sh"]
        else:
            yield ["sh", "-c", f'{enter}; exec "$@"', "sh"]
    finally:
        for _ in range(100):
            left = (group / "cgroup.procs").read_text().split()
            for process in left:
                with suppress(ProcessLookupError):
                    os.kill(int(process), signal.SIGKILL)
            if not left:
                break
            time.sleep(0.1)
        group.rmdir()


@contextmanager
def ray_head(folder: Path, limit: Sequence[str] = (), python: str = sys.executable, **variables: str) -> Iterator[str]:
    """A Ray that is there before the run, as a cluster's: its address."""
    (port,) = free_ports_before_another(1)
    ray = str(Path(python).with_name("ray"))
    own = os.environ | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN, "RAY_USAGE_STATS_ENABLED": "0"}
    own |= {"TRAINING_NODE": "a-node", "PASSWORD": PASSWORD, **variables}
    command = [
        *(*limit, ray, "start", "--head", f"--port={port}", "--num-cpus=2", "--include-dashboard=false"),
        *("--min-worker-port=0", "--max-worker-port=0", "--node-ip-address=127.0.0.1", f"--temp-dir={folder}"),
        *("--disable-usage-stats", "--block"),
    ]
    head = subprocess.Popen(command, env=own, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert head.stdout
        said = ""
        while "Ray runtime started" not in said:
            line = head.stdout.readline()
            assert line, said
            said += line
        yield f"127.0.0.1:{port}"
    finally:
        end(head)
        head.communicate()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "arguments", "python"),
    [
        ("keras_tf_config.py", "--epochs 1", sys.executable),
        ("keras_ray.py", ARGUMENTS, sys.executable),
        pytest.param("plain.py", "", TORCH, marks=pytest.mark.skipif(not TORCH, reason=NO_TORCH)),
    ],
)
def test_the_driver_of_a_ray_job_has_what_its_workers_did(
    name: str, arguments: str, python: str, tmp_path: Path
) -> None:
    """By Ray's own store: a worker of another pod writes no file that the driver sees."""
    folder = tmp_path / "head"
    folder.mkdir()
    files = plain_script(tmp_path) if name == "plain.py" else packed(tmp_path, name, arguments)
    source.unpack(files.read_bytes(), folder)
    with (
        tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as short,
        ray_head(Path(short), python=python) as address,
    ):
        variables = {
            "RAY_ADDRESS": address,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": TOKEN,
            environment.JOB_CONFIG: json.dumps({"runtime_env": {"env_vars": {"A": "b"}}, "metadata": {"x": "y"}}),
            SECRET_NAMES: "PASSWORD",
            "PASSWORD": PASSWORD,
            "TMPDIR": short,
        }
        more = ("--address=auto", "--environment=COLOUR=red", "--workers=2")
        driver = start("ray", folder, name, arguments, variables, *more, python=python)
        try:
            printed = driver.communicate(timeout=LONGEST_SECONDS)[0]
        finally:
            driver.kill()

    assert 0 == driver.returncode, printed[-4000:]
    assert PASSWORD not in printed
    found = result.read(folder / "result.json")
    assert_two_ranks(found)
    assert {"a-node"} == {worker.node for worker in found.workers}
    assert found.ray_head is not None
    assert found.seconds.startup is not None
    assert found.seconds.startup < found.seconds.wall


@pytest.mark.slow
def test_a_worker_of_ray_that_the_system_ended_for_its_memory_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its own pod's count; Ray's own watch over memory, which may be slower, is off."""
    with ExitStack() as held:
        limit = held.enter_context(limited(2 * GIB))
        short = held.enter_context(tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp"))
        address = held.enter_context(ray_head(Path(short), limit, **{WATCH: "0"}))
        failed, found = memory_kills(sys.executable, address, tmp_path, monkeypatch)

    assert "unexpectedly" in failed
    assert [2 * GIB] == list(found.values())


@pytest.mark.slow
@needed
def test_a_worker_that_ray_ended_for_its_memory_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the list of workers that its dashboard has. Ray watches its own cgroup, whatever else runs on the machine."""
    watch = {WATCH: "100", "RAY_memory_usage_threshold": "0.5"}
    with limited(4 * GIB, as_a_container=True) as limit, running(2, limit, **watch) as head:
        failed, found = memory_kills(PYTHON, head.address, tmp_path, monkeypatch)

    assert "low on memory" in failed
    assert [4 * GIB] == list(found.values())


def memory_kills(
    python: str, address: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, Mapping[str, int | None]]:
    """A task needs more memory than Ray's 2 GiB: what its driver prints, and which workers are named, once."""
    needs = (
        "import ray, time; ray.init(address='auto')\n"
        "@ray.remote(max_retries=0)\n"
        "def much():\n"
        "    held = [(bytearray(2**26), time.sleep(0.1)) for _ in range(64)]\n"
        "ray.get(much.remote())\n"
    )
    ray = {"RAY_ADDRESS": address, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN}
    for name, value in {**ray, "PYTHONPATH": str(PROJECT)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "executable", python)
    pod = object.__new__(execution_site.HeadPod)

    before = pod.workers_without_memory()
    failed = subprocess.run([python, "-c", needs], cwd=folder, stderr=subprocess.PIPE, text=True, check=False)
    found, again = pod.workers_without_memory(), pod.workers_without_memory()

    assert 0 != failed.returncode
    assert ({}, {}) == (before, again)
    return failed.stderr, found
