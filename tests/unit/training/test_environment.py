"""What of a caller's environment reaches a run, and what of it is recorded and hashed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra import storage as storage_of
from infra.places.local import run as local_run
from infra.settings.storage import Storage
from tests.limits import LONGEST_SECONDS
from training.contract.provenance import PROJECT
from training.launch import entry, environment, peers
from training.machine import isolation, machine_lock
from training.workloads.cnn.workload import WORKLOAD
from training.workloads.script.commands import ArmCommand
from training.workloads.script.environment import variables_of

FOREIGN = {
    "PULUMI_ACCESS_TOKEN": "pul-secret",
    "PULUMI_CONFIG_PASSPHRASE": "secret",
    "RAY_ADDRESS": "10.0.0.1:6379",
    "RAY_AUTH_TOKEN": "secret",
    "RAY_JOB_CONFIG_JSON_ENV_VAR": "{}",
    "TF_CONFIG": '{"cluster": {"worker": ["10.0.0.1:1", "10.0.0.2:1"]}, "task": {"type": "worker", "index": 1}}',
    "TF_VAR_password": "secret",
    "TF_VAR_PASSWORD": "secret",
    "TF_TOKEN_app_terraform_io": "secret",
    "TF_DATA_DIR": "/terraform",
    "TF_ENCRYPTION": "secret",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "PYTHONPATH": "/somewhere",
    "PYTHONSAFEPATH": "1",
    "KERAS_BACKEND": "jax",
}
"""What users have in their environments and no training may."""
DOWNLOADING = {"http_proxy": "http://user:secret@proxy:3128", "NO_PROXY": "localhost", "SSL_CERT_FILE": "/ca.pem"}
STEERING = {
    "TF_ENABLE_ONEDNN_OPTS": "0",
    "TF_XLA_FLAGS": "--tf_xla_auto_jit=2",
    "OMP_PROC_BIND": "true",
    "KMP_BLOCKTIME": "0",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_CORETYPE": "Haswell",
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "1",
    "RAY_worker_niceness": "5",
    "LD_PRELOAD": "/usr/lib/libjemalloc.so.2",
    "MALLOC_ARENA_MAX": "2",
}
SYSTEM = {
    "PATH": "/usr/bin",
    "HOME": "/home/me",
    "TMPDIR": "/home/me/tmp",
    "LC_ALL": "C.UTF-8",
    "LANG": "C",
    "TZ": "UTC",
}


def test_a_run_gets_what_is_on_the_list_and_nothing_else() -> None:
    """What finds programs and folders, what steers frameworks, and what this project's processes tell each other."""
    may = SYSTEM | STEERING | DOWNLOADING | {entry.STARTED: "1,2,boot"}

    assert may == environment.allowed(FOREIGN | may)


def test_credentials_are_of_a_run_alone_that_keeps_something_over_a_network() -> None:
    """Not of one with a folder; and they are in no result."""
    own = {"AWS_SECRET_ACCESS_KEY": "secret", "AWS_PROFILE": "mine", "GOOGLE_APPLICATION_CREDENTIALS": "/key.json"}

    for storage in ("", "/mnt/kept"):
        assert SYSTEM == environment.allowed(SYSTEM | own, storage)
    assert SYSTEM | own == environment.allowed(SYSTEM | own, "s3://bucket/prefix")
    assert {} == environment.steering(own)
    assert {"AWS_SECRET_ACCESS_KEY": "secret"} == environment.secrets_of(own)


def test_other_credentials_are_not_mixed_with_the_caller_s() -> None:
    """A key without a session beside somebody's session token is refused by S3."""
    caller = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_SESSION_TOKEN": "c", "AWS_REGION": "here"}
    given = {"AWS_ACCESS_KEY_ID": "d", "AWS_SECRET_ACCESS_KEY": "e"}

    assert {"AWS_REGION": "here", **given} == environment.let_in(caller, given)
    assert caller == environment.let_in(caller, {})


def test_a_run_on_this_machine_has_the_credentials_that_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of its stack, and where its storage is; not its caller's."""
    monkeypatch.setenv("AWS_SESSION_TOKEN", "the caller's")
    props = {
        "storage": "s3://bucket/prefix",
        "storageEnvironment": '{"AWS_ENDPOINT_URL_S3": "http://there"}',
        "storageCredentials": '{"AWS_ACCESS_KEY_ID": "d", "AWS_SECRET_ACCESS_KEY": "e"}',
    }
    found = local_run._variables(props)

    assert ("http://there", "e") == (found["AWS_ENDPOINT_URL_S3"], found["AWS_SECRET_ACCESS_KEY"])
    assert "AWS_SESSION_TOKEN" not in found


def test_what_steers_frameworks_is_told_apart() -> None:
    """And nothing of it is a secret: it is recorded in results."""
    secret = {"RAY_auth_token": "a", "OMP_SECRET_KEY": "b", "RAY_TRAIN_TOKEN": "c", "TF_API_KEY": "d"}
    assert STEERING == environment.steering(FOREIGN | SYSTEM | STEERING | DOWNLOADING | secret)


def test_proxies_end_with_the_fetching_of_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything trains: a run holds this machine by then, and no pod comes here."""
    monkeypatch.setattr(os, "environ", dict(SYSTEM | STEERING | DOWNLOADING))

    environment.end_downloading()

    assert SYSTEM | STEERING == os.environ


def test_who_trusts_storage_s_server_does_so_to_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its certificate may be of a company's authority. What `up` asks with is what runs and scripts have."""
    address, arm = "s3://bucket/prefix", ArmCommand(arm="baseline", command=("python",))
    trusting = {"SSL_CERT_FILE": "/ca.pem"}
    monkeypatch.setattr(os, "environ", dict(SYSTEM | DOWNLOADING))
    asking = storage_of._variables(Storage(address=address), 60)
    of_script = [variables_of(arm, {}, tmp_path, kept) for kept in (address, "/mnt/kept", "")]

    environment.end_downloading(address)

    assert SYSTEM | trusting == asking == os.environ
    assert [trusting, {}, {}] == [{key: found[key] for key in DOWNLOADING if key in found} for found in of_script]


def test_a_local_run_s_process_sees_nothing_foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of the process that a run's provider starts, as that process sees it."""
    for name, value in (FOREIGN | STEERING).items():
        monkeypatch.setenv(name, value)
    program = "import json, os; print(json.dumps(dict(os.environ)))"
    command = [sys.executable, "-c", program]
    monkeypatch.delenv("LD_PRELOAD")

    with local_run._guarded(command, tmp_path, local_run._variables({"storage": ""})) as running:
        running.wait(LONGEST_SECONDS)

    seen = json.loads((tmp_path / "log.txt").read_text())
    assert not FOREIGN.keys() & seen.keys()
    assert STEERING.keys() - {"LD_PRELOAD"} <= seen.keys()
    assert "1" == seen["PYTHONUNBUFFERED"]


ENTERED = """
import os, sys
from training.launch import entry
entry.begin(sys.argv.pop(1), None)
print(dict(os.environ))
"""


@pytest.mark.parametrize("arm", ["baseline", "native", "ray"])
def test_an_entry_point_called_by_hand_drops_what_is_foreign(arm: str, tmp_path: Path) -> None:
    """Before it starts anything: whoever calls it, the run has the same list."""
    command = [sys.executable, "-c", ENTERED, arm, "--result", str(tmp_path / "result.json")]
    foreign = {key: value for key, value in FOREIGN.items() if not key.startswith("PYTHON")}
    given = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ} | foreign
    said = subprocess.run(command, cwd=PROJECT, env=given, capture_output=True, text=True, check=True).stdout

    assert [] == [name for name in foreign if name in said]


def test_in_a_pod_the_environment_is_that_of_its_specification(tmp_path: Path) -> None:
    """Ray's driver there finds its cluster by RAY_ADDRESS and its token."""
    command = [sys.executable, "-c", ENTERED, "ray", "--result", str(tmp_path / "result.json")]
    given = dict(os.environ) | {"RAY_ADDRESS": "head:6379", entry.POD: "1"}
    said = subprocess.run(command, cwd=PROJECT, env=given, capture_output=True, text=True, check=True).stdout

    assert "head:6379" in said


def test_somebody_else_s_tf_config_makes_no_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Native's launcher stays one: its own processes are told by a variable of ours."""
    launched: list[bool] = []
    monkeypatch.setenv("TF_CONFIG", FOREIGN["TF_CONFIG"])
    monkeypatch.setattr(peers, "launch_workers", lambda *_: launched.append(True))
    monkeypatch.setattr(entry, "begin", lambda *_: entry.parse("native", None, ["--result", str(tmp_path / "x.json")]))
    monkeypatch.setattr(entry, "on_this_machine", lambda request: request)

    peers.main("native", None)

    assert [True] == launched


@pytest.mark.parametrize(("flags", "left"), [([], set()), (["--storage", "s3://bucket/run"], {"SSL_CERT_FILE"})])
def test_a_run_on_this_machine_trains_without_a_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str], left: set[str]
) -> None:
    """From when it has the machine and its network to itself."""
    monkeypatch.setattr(machine_lock, "hold", lambda _: None)
    monkeypatch.setattr(isolation, "enter", lambda: "")
    monkeypatch.setattr(os, "environ", dict(SYSTEM | DOWNLOADING))

    entry.on_this_machine(entry.parse("baseline", None, ["--result", str(tmp_path / "result.json"), *flags]))

    assert left == DOWNLOADING.keys() & os.environ.keys()


def test_a_process_has_what_its_workload_asks_for() -> None:
    """Its threads, no GPU, and the variables without which its framework is another."""
    given = environment.variables(WORKLOAD, 3)

    assert {"OMP_NUM_THREADS": "3", "CUDA_VISIBLE_DEVICES": "-1", "TF_USE_LEGACY_KERAS": "1"}.items() <= given.items()


@pytest.mark.parametrize(("python", "told"), [("/a/bin/python", None), ("/my own/bin/python", "'/my own/bin/python'")])
def test_workers_of_ray_find_an_interpreter_on_a_path_with_a_blank(python: str, told: str | None) -> None:
    """Ray puts what it is told into a line of bash; what bash takes as it is, it is not told."""
    given = environment.for_workers_of_ray(python).get(environment.JOB_CONFIG, "{}")

    assert told == json.loads(given).get("runtime_env", {}).get("py_executable")
