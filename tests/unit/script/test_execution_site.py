"""A script in pods: what its ranks are told, and how what they did comes to the one that gives the result."""

import json
import os
import platform
import socket
import sys
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.golden import Wording
from tests.limits import LONGEST_SECONDS
from tests.ports import free_ports
from training.contract.clock import Phases, Stamp, process_start
from training.contract.provenance import PROJECT
from training.launch import entry, environment
from training.launch.entry import Request
from training.launch.environment import FILES, RAY_JOB, SECRET_FILE, SECRET_NAMES
from training.launch.foreign_command import End
from training.launch.rendezvous import Rendezvous
from training.workloads.script import execution_site, plain, rank_exchange, source
from training.workloads.script.observe import in_pod, state
from training.workloads.script.observe.in_pod import STORE
from training.workloads.script.recipe import ScriptRecipe
from training.workloads.script.recognise import recognise
from training.workloads.script.resolve import ResolvedScript

SECRET = {"TOKEN": "xyzzy"}
OBSERVER = {"PYTHONPATH": "/app/observe", "TRAINING_OBSERVE": "/results/observed"}


@dataclass
class Somewhere:
    """A script, and a request for a run of it in a pod."""

    folder: Path
    text: str = "import tf_keras\nTF_CONFIG = 1\n"
    address: str = ""
    arguments: tuple[str, ...] = field(default=("--epochs", "1"))

    def request(self) -> Request:
        """By the path within the package."""
        recipe = ScriptRecipe(script="train.py", script_arguments=" ".join(self.arguments))
        return Request(
            recipe=recipe,
            result=self.folder / "results" / "result.json",
            dataset_path="",
            storage="",
            bind_cpus=False,
            address=self.address,
            dashboard=False,
            started=Stamp.now(),
            phases=Phases(),
        )

    def packed(self) -> Path:
        """The script in its package."""
        (self.folder / "train.py").write_text(self.text)
        path = self.folder / "files.zip"
        path.write_bytes(source.package_of(recognise(self.folder / "train.py", self.arguments), None).content)
        return path

    def asked(self) -> ResolvedScript:
        """The script, recognised."""
        script = recognise(self.folder / "train.py", self.arguments)
        return ResolvedScript(
            recipe=ScriptRecipe(), script=script, python="python", versions={"ray": "2.60"}, in_pods=True
        )


@pytest.fixture
def pod(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Somewhere:
    """An environment as a pod has it."""
    made = Somewhere(tmp_path)
    for name, value in {
        entry.POD: "1", FILES: str(made.packed()), SECRET_NAMES: "TOKEN", "TOKEN": "xyzzy", "TRAINING_NODE": "one",
        "PYTHONPATH": f"{PROJECT}:/company:/ray/thirdparty_files", "RAY_AUTH_TOKEN": "of the cluster",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    return made


def given_to(found: ResolvedScript, arm: str, own_ray: Path, **needed: str) -> execution_site.Invocation:
    """What an arm is started with."""
    command = found.arms({})[arm]
    return execution_site.Invocation(
        resolved=found, command=command, needed=needed, observer=OBSERVER, own_ray=own_ray, storage=""
    )


def test_on_this_machine_nothing_is_a_pod_s(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its script is where it is, and its CPUs are bound."""
    monkeypatch.delenv(entry.POD, raising=False)

    assert type(execution_site.here(Somewhere(tmp_path).request())) is execution_site.Machine


def test_a_pod_unpacks_its_own_copy(pod: Somewhere) -> None:
    """Which a script may write beside; an earlier one is gone."""
    there = pod.folder / "results" / "script"
    there.mkdir(parents=True)
    (there / "old.py").touch()

    place = execution_site.here(pod.request())
    path = Path(place.recipe(ScriptRecipe(script="train.py")).script)

    assert SECRET == place.secret  # known by its names, so that no log has it
    assert there / "train.py" == path
    assert pod.text == path.read_text()
    assert not (there / "old.py").exists()


def test_one_process_has_the_pod_s_environment_and_a_ray_of_its_own(pod: Somewhere, tmp_path: Path) -> None:
    """Not the cluster's, which another arm is measured on; of this project's variables and folders the node's alone."""
    found = pod.asked()
    place = execution_site.here(pod.request())
    given = place.variables(given_to(found, "baseline", tmp_path / "ray", A="b"))

    assert {"A": "b", "TOKEN": "xyzzy", "TRAINING_NODE": "one", "OMP_NUM_THREADS": "1"}.items() <= given.items()
    assert ("/app/observe:/company", str(tmp_path / "ray")) == (given["PYTHONPATH"], given["RAY_TMPDIR"])
    assert "of the cluster" != given["RAY_AUTH_TOKEN"]
    assert {"TRAINING_NODE", "TRAINING_OBSERVE"} == {name for name in given if name.startswith("TRAINING_")}
    assert 0 == place.cpus(found.arms({})["baseline"])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "import tf_keras\nTF_CONFIG = 1\n",
            {"TF_CONFIG": '{"cluster": {"worker": ["a:2222", "b:2222"]}, "task": {"type": "worker", "index": 1}}'},
        ),
        (
            "import torch.distributed\n",
            {"MASTER_ADDR": "a", "MASTER_PORT": "2222", "RANK": "1", "LOCAL_RANK": "0", "GROUP_RANK": "1"},
        ),
    ],
)
def test_a_rank_is_told_of_the_others_as_its_kind_asks(
    pod: Somewhere, tmp_path: Path, text: str, told: dict[str, str]
) -> None:
    """And has no launcher: each rank is a pod, and the only one of its machine."""
    (pod.folder / "train.py").write_text(text)
    found = pod.asked()
    place = execution_site.RankPod(pod.request(), Rendezvous(["a:2222", "b:2222"], 1))
    command = place.command(found, tmp_path, "native")

    assert told.items() <= place.variables(replace(given_to(found, "native", tmp_path), command=command)).items()
    assert [str(pod.folder / "train.py"), "--epochs", "1"] == list(command.command[1:])


def test_a_rank_of_a_plain_script_is_told_of_the_others(pod: Somewhere, tmp_path: Path) -> None:
    """By what is around it, with its plan beside its own files; LightGBM wants addresses instead of names."""
    (pod.folder / "train.py").write_text("import torch\n")
    found = pod.asked()
    found = replace(found, recipe=replace(found.recipe, workers=2))
    place = execution_site.RankPod(pod.request(), Rendezvous(["localhost:2222", "127.0.0.1:2"], 1))
    command = place.command(found, tmp_path / "storage", "native")
    given = place.variables(replace(given_to(found, "native", tmp_path), command=command))
    proof = place.proof(found, tmp_path / "storage", tmp_path / "proof.json")
    alone = place.unobserved(proof, {"A": "b"}, tmp_path)

    assert ("member", str(tmp_path / plain.PLAN)) == command.command[2:4]
    assert {"addresses": ["127.0.0.1:2222", "127.0.0.1:2"], "rank": 1, "tracker": None} == json.loads(
        given["TRAINING_CLUSTER"]
    )
    assert command.command[0] == proof.command[0] == sys.executable
    assert ("b", "/company") == (alone["A"], alone["PYTHONPATH"])
    assert not {"TRAINING_CLUSTER", "TRAINING_OBSERVE"} & alone.keys()


def test_the_driver_of_a_job_tells_ray_what_its_workers_get(
    pod: Somewhere, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Observer, threads and variables, beside what the job had; no secret goes through Ray, which shows it."""
    monkeypatch.delenv(FILES)
    given = {"runtime_env": {"working_dir": "gcs://x.zip", "env_vars": {"B": "c"}}, "metadata": {"who": "we"}}
    monkeypatch.setenv(environment.JOB_CONFIG, json.dumps(given))
    pod.address, found = "auto", pod.asked()
    place = execution_site.here(pod.request())

    variables = place.variables(given_to(found, "ray", tmp_path, **SECRET, A="b"))
    config = json.loads(variables[environment.JOB_CONFIG])
    workers = config["runtime_env"]["env_vars"]

    assert "gcs://x.zip" == config["runtime_env"]["working_dir"]
    assert {"who": "we"} == config["metadata"]
    assert {
        "A": "b",
        "B": "c",
        "OMP_NUM_THREADS": "1",
        "TRAINING_OBSERVE": "/results/observed",
    }.items() <= workers.items()
    assert f"/app/observe:{pod.folder}:/company" == workers["PYTHONPATH"]
    assert "/app/observe:/company" == variables["PYTHONPATH"]
    assert workers[STORE] == variables[STORE]
    assert workers["HOME"] == variables["HOME"] != os.environ["HOME"]
    assert workers["HOME"] != place.variables(given_to(found, "ray", tmp_path))["HOME"]
    assert "xyzzy" not in variables[environment.JOB_CONFIG]
    assert ("xyzzy", "of the cluster", "1") == (
        variables["TOKEN"], variables["RAY_AUTH_TOKEN"], variables[environment.OVERRIDE]
    )  # fmt: skip


def test_a_ray_run_begins_with_its_submission(pod: Somewhere, monkeypatch: pytest.MonkeyPatch) -> None:
    """Less what this process itself took before the script."""
    pod.address = "auto"
    request = pod.request()
    place = execution_site.HeadPod(request)
    own = process_start()
    monkeypatch.setattr(execution_site, "process_start", lambda: own)
    place._request = Request(**{**vars(request), "started": own.later(-3.0)})

    ended = place.ended(End(code=0, began=100.0, ended=130.0, left=0, processes=1))

    assert 97.0 == pytest.approx(ended.began)


def did(rank: int, world: int) -> dict[str, Any]:
    """What the observer writes of a rank with two steps."""
    made = state.State()
    made.rank, made.world, made.step_ends = rank, world, [1.0, 2.0]
    return made.to_dict()


def test_rank_0_has_what_all_ranks_did(pod: Somewhere) -> None:
    """Whoever is first waits; the others have no result of their own."""
    addresses = [f"127.0.0.1:{free_ports(2)[0]}", "127.0.0.1:1", "127.0.0.1:2"]
    seen: dict[int, object] = {}

    def be(rank: int) -> None:
        folder = pod.folder / f"rank-{rank}"
        folder.mkdir()
        (folder / f"rank-{rank}-7.json").write_text(json.dumps(did(rank, 3)))
        seen[rank] = execution_site.RankPod(pod.request(), Rendezvous(addresses, rank)).seen(folder)

    ranks = [threading.Thread(target=be, args=(rank,)) for rank in (2, 0, 1)]
    for each in ranks:
        each.start()
    for each in ranks:
        each.join(LONGEST_SECONDS)

    first = seen[0]
    assert isinstance(first, list)
    assert [0, 1, 2] == [one.rank for one in first]
    assert (None, None) == (seen[1], seen[2])


@pytest.mark.parametrize(
    "stranger_says",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"[" * 100_000,
        b"[1]",
        b'{"rank": 1}',
        b'{"rank": [], "observations": []}',
        b'{"rank": 1, "observations": [' + b" " * 999,
    ],
)
def test_a_rank_that_says_nothing_is_named(
    wording: Wording, pod: Somewhere, monkeypatch: pytest.MonkeyPatch, stranger_says: bytes
) -> None:
    """Whatever somebody else says at that port, and however much."""
    monkeypatch.setattr(rank_exchange, "WAIT_SECONDS", 0.5)
    monkeypatch.setattr(rank_exchange, "MOST_BYTES", 500)
    port = free_ports(2)[0]
    place = execution_site.RankPod(pod.request(), Rendezvous([f"127.0.0.1:{port - 1}", "x:1"], 0))
    with socket.create_connection(("127.0.0.1", port)) as stranger:
        stranger.sendall(stranger_says)

    with pytest.raises(rank_exchange.ApartError, match=r"^rank 1 ") as refused:
        place.seen(pod.folder)
    wording("script", str(refused.value))


def test_a_rank_that_did_too_much_says_so(pod: Somewhere, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 0 would never take it, and both would wait."""
    monkeypatch.setattr(rank_exchange, "MOST_BYTES", 500)
    (pod.folder / "rank-1-7.json").write_text(json.dumps(did(1, 2)))

    with pytest.raises(rank_exchange.ApartError, match=r"\brank 1 .* 500$"):  # not prose: a pattern
        execution_site.RankPod(pod.request(), Rendezvous(["127.0.0.1:1", "127.0.0.1:2"], 1)).seen(pod.folder)


@pytest.fixture
def job(pod: Somewhere, monkeypatch: pytest.MonkeyPatch) -> Somewhere:
    """An environment as a job of a Ray cluster has it, in its own folder."""
    for name in (FILES, "TRAINING_NODE"):
        monkeypatch.delenv(name)
    given = {
        RAY_JOB: "1",
        SECRET_FILE: "/job/secret.json",
        environment.JOB_CONFIG: "{}",
        "RAY_ADDRESS": "10.0.0.1:6379",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(pod.folder)
    return pod


def test_a_job_of_a_ray_cluster_is_in_its_own_folder(job: Somewhere) -> None:
    """Which Ray unpacked; all ranks of native are started there, by what starts them on this machine."""
    place = execution_site.here(job.request())

    assert str(job.folder / "train.py") == place.recipe(ScriptRecipe(script="train.py")).script
    found = replace(job.asked(), in_pods=False)
    assert "processes.py" in " ".join(place.command(found, job.folder, "native").command)
    assert 0 == place.cpus(place.command(found, job.folder, "native"))
    assert place.head() is None
    assert {"workers.affinity", "workers.cpus"} == place.reasons().keys()


def test_nothing_leads_another_arm_s_job_to_the_cluster(job: Somewhere, tmp_path: Path) -> None:
    """A script that calls `ray.init()` starts a Ray of its own; its ranks say which node they are on."""
    place = execution_site.here(job.request())
    given = place.variables(given_to(job.asked(), "baseline", tmp_path / "ray", A="b"))

    assert not {"RAY_ADDRESS", environment.JOB_CONFIG} & given.keys()
    assert "of the cluster" != given["RAY_AUTH_TOKEN"]
    assert {"A": "b", "TOKEN": "xyzzy", RAY_JOB: "1"}.items() <= given.items()
    assert SECRET_FILE not in given


def test_ray_s_workers_read_secrets_from_a_file(job: Somewhere, tmp_path: Path) -> None:
    """What they are told otherwise Ray logs; HOME is the node's own, which is not ours to change."""
    place = execution_site.here(replace(job.request(), address="auto"))
    given = place.variables(given_to(job.asked(), "ray", tmp_path / "ray", A="b", **SECRET))
    told = json.loads(given[environment.JOB_CONFIG])["runtime_env"]["env_vars"]

    assert {"A": "b", RAY_JOB: "1", SECRET_FILE: "/job/secret.json"}.items() <= told.items()
    assert not {"TOKEN", "HOME"} & told.keys()
    assert ("xyzzy", "10.0.0.1:6379") == (given["TOKEN"], given["RAY_ADDRESS"])


def test_a_worker_finds_its_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the script's first line."""
    file = tmp_path / "secret.json"
    file.write_text(json.dumps(SECRET))
    monkeypatch.setattr(os, "environ", {SECRET_FILE: str(file)})
    in_pod.tell_secret()

    assert "xyzzy" == os.environ["TOKEN"]


def test_ranks_of_a_ray_cluster_name_their_node_and_no_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several may be on one, which is no fault there; a node's count of CPU time is of more than a rank."""
    monkeypatch.delenv("TRAINING_NODE", raising=False)
    monkeypatch.setenv(RAY_JOB, "1")
    told = in_pod.Pod().to_dict()

    assert told is not None
    assert (platform.node(), None, None) == (told["node"], told["name"], told["containerCpu"])
