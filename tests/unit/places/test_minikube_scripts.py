"""What is done to a Minikube cluster, and what never: the programs are replaced by a record of their command lines."""

import json
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from infra import doctor as machine_doctor
from infra.places.minikube import command as minikube
from infra.places.minikube import doctor
from infra.places.minikube.spec import Cluster, unchangeable
from infra.programs import ProgramError
from tests.golden import Wording

CLUSTER = Cluster(
    stack="minikube",
    profile="ray-worth-it-minikube",
    kubeconfig=".state/kubeconfig/minikube",
    nodes=2,
    cpus=4,
    memory_mib=6144,
    version="v1.34.4",
    cni="calico",
    addons=("metrics-server",),
    images=(),
)


class Machine:
    """Minikube and Docker as far as the scripts ask them."""

    def __init__(self, folder: Path) -> None:
        self.profiles: set[str] = set()
        self.commands: list[str] = []
        self.broken_starts = 0
        self.nodes: list[str] = []
        self.nodes_of_a_start = CLUSTER.nodes
        self._folder = folder

    def run(self, *command: str, environment: Mapping[str, str] | None = None, **_: object) -> str:
        """Note a command, and answer as the program would."""
        line = " ".join(command)
        if "profile list" in line:
            return json.dumps({"valid": [{"Name": name} for name in self.profiles], "invalid": []})
        if command[:2] == ("minikube", "start"):
            return self._start(line, command[command.index("--profile") + 1])
        if command[:2] == ("minikube", "delete"):
            self.profiles.discard(command[-1])
            self.nodes = []
        if line.endswith(" ip"):
            return "192.168.49.2\n"
        if "container inspect" in line:
            return "true\n"
        if "network" in line:
            return ""
        if line.endswith("node add"):
            self.nodes.append(f"another of {(environment or {}).get('MINIKUBE_MEMORY')}")
        self.commands.append(line)
        return ""

    def _start(self, line: str, profile: str) -> str:
        self.commands.append(line)
        self.profiles.add(profile)
        while len(self.nodes) < self.nodes_of_a_start:
            self.nodes.append(f"{profile}-m{len(self.nodes) + 1:02}")
        if self.broken_starts:
            self.broken_starts -= 1
            raise ProgramError("half made")
        path = self._folder / CLUSTER.kubeconfig
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("keys")
        path.chmod(0o644)
        return ""

    def said(self, word: str) -> list[str]:
        """The commands with this word."""
        return [line for line in self.commands if f" {word} " in f" {line} "]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine with no profile, on which every check passes."""
    made = Machine(tmp_path)
    monkeypatch.setattr(minikube, "run", made.run)
    monkeypatch.setattr(minikube, "nodes", lambda _: made.nodes)
    monkeypatch.setattr(minikube, "load_images", lambda *_: None)
    monkeypatch.setattr(minikube, "PROJECT", tmp_path)
    monkeypatch.setattr(doctor, "refuse", lambda _: None)
    want(CLUSTER, monkeypatch)
    return made


def want(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pass a cluster as Pulumi does."""
    for name, value in cluster.environment().items():
        monkeypatch.setenv(name, value)


def test_the_environment_carries_the_whole_cluster() -> None:
    """One value, quoted by nobody. Addons, images and more nodes can be had in place."""
    assert CLUSTER == Cluster.from_environment(CLUSTER.environment())
    assert [] == unchangeable(CLUSTER, replace(CLUSTER, nodes=3, addons=(), images=("a:1",)))


def test_a_cluster_is_marked_before_it_is_started(machine: Machine, tmp_path: Path) -> None:
    """An `up` that is killed in the start must know its own profile again."""
    machine.broken_starts = 2
    with pytest.raises(ProgramError):
        minikube.create()

    marker = json.loads((tmp_path / ".state/minikube/ray-worth-it-minikube.json").read_text())
    assert ("minikube", False) == (marker["stack"], marker["started"])


def test_its_address_is_all_that_reaches_the_state(
    machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Stdout is kept by Pulumi; keys stand in a file that only the user can read."""
    minikube.create()

    assert "192.168.49.2\n" == capsys.readouterr().out
    assert 0o600 == (tmp_path / CLUSTER.kubeconfig).stat().st_mode & 0o777


def test_a_profile_of_another_is_never_touched(machine: Machine, wording: Wording) -> None:
    """The message gives both ways out."""
    machine.profiles = {CLUSTER.profile}

    refusals = []
    for change in (minikube.create, minikube.delete):
        with pytest.raises(ProgramError) as error:
            change()
        refusals.append(str(error.value))

    assert all(way in refusals[0] for way in ("pulumi config set minikubeProfile", "minikube delete"))
    wording("minikube", refusals[0], "creating over a profile of another")
    wording("minikube", refusals[1], "deleting a profile of another")
    assert [] == machine.commands


def test_a_half_made_cluster_is_made_anew(machine: Machine) -> None:
    """Started again, Minikube keeps the nodes there are and makes no others, or waits for one for minutes."""
    machine.broken_starts = machine.nodes_of_a_start = 1
    with pytest.raises(ProgramError):
        minikube.create()
    machine.nodes_of_a_start = 2
    minikube.create()
    assert 1 == len(machine.said("delete"))
    assert 2 == len(machine.nodes)


def test_a_cluster_that_was_whole_is_taken_up_and_never_deleted(machine: Machine) -> None:
    """As when the stack's state was lost: a start that fails, or is killed, says nothing of what is kept in it."""
    minikube.create()
    machine.broken_starts = 1
    with pytest.raises(ProgramError, match=f"KUBECONFIG=.* minikube --profile {CLUSTER.profile} delete"):
        minikube.create()
    assert minikube.started(CLUSTER.profile)
    minikube.create()
    assert [] == machine.said("delete")


def test_a_node_that_was_deleted_by_other_means_is_named(machine: Machine, wording: Wording) -> None:
    """Pods would wait for it until their deadline."""
    minikube.create()
    machine.nodes.pop()
    wording("minikube", minikube.trouble(CLUSTER.profile))


def test_nodes_are_added_in_place(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """One call a node, beside those there are, with the memory of the others: Minikube would give a default."""
    minikube.create()
    want(replace(CLUSTER, nodes=4), monkeypatch)
    minikube.update()

    assert 2 == len(machine.said("add"))
    assert ["another of 6144mb"] * 2 == machine.nodes[2:]


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"nodes": 1}, "minikubeNodes 2 → 1"),
        ({"cpus": 2}, "minikubeCpus 4 → 2"),
        ({"version": "v1.35.0"}, "Kubernetes v"),
    ],
)
def test_what_minikube_can_t_change_is_refused(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, change: dict[str, int], key: str
) -> None:
    """With what to do; the cluster goes on as it is. One that is taken up is changed no more than by an update, and
    refused before it is started."""
    minikube.create()
    before = list(machine.commands)
    want(replace(CLUSTER, **change), monkeypatch)  # type: ignore[arg-type]

    with pytest.raises(ProgramError, match=f"(?s){key}.*pulumi destroy && pulumi up"):
        minikube.update()
    with pytest.raises(ProgramError, match=key.replace(" → ", r"\b.* ")):
        minikube.create()

    assert before == machine.commands


def test_a_cluster_deleted_by_other_means_is_named(machine: Machine) -> None:
    """With the way out: what was in it went with it."""
    minikube.create()
    assert "" == minikube.trouble(CLUSTER.profile)
    machine.profiles.clear()

    assert "pulumi destroy && pulumi up" in minikube.trouble(CLUSTER.profile)
    with pytest.raises(ProgramError, match=r"pulumi destroy && pulumi up"):
        minikube.update()


def test_a_stopped_cluster_is_named(machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With the line that starts it, which leaves the user's own kubeconfig alone; one that was never made is no
    trouble."""
    assert "" == minikube.trouble(CLUSTER.profile)
    minikube.create()
    monkeypatch.setattr(minikube, "_runs", lambda _: False)

    line = minikube.trouble(CLUSTER.profile).splitlines()[-1]
    own = tmp_path / CLUSTER.kubeconfig
    assert ["env", f"KUBECONFIG={own}", "minikube", "--profile", CLUSTER.profile, "start"] == shlex.split(f"env {line}")


def test_deleting_what_is_gone_is_no_error(machine: Machine, tmp_path: Path) -> None:
    """`destroy` ends well, and leaves no file."""
    minikube.create()
    machine.profiles.clear()
    minikube.delete()

    assert [] == [path for path in (tmp_path / ".state").rglob("*") if path.is_file()]


def test_a_cluster_of_another_machine_is_not_forgotten(machine: Machine, tmp_path: Path) -> None:
    """`destroy` elsewhere, on the same backend, says what to do: with the line that it shows the state is cleared."""
    with pytest.raises(ProgramError, match="nothing was deleted") as refused:
        minikube.delete()
    subprocess.run(["sh", "-euc", str(refused.value).splitlines()[-1]], cwd=tmp_path, check=True)
    minikube.delete()

    assert [] == machine.said("delete")
    assert [] == [path for path in (tmp_path / ".state").rglob("*") if path.is_file()]


def test_a_check_that_fails_is_said_with_its_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one, before anything is started."""
    monkeypatch.setattr("shutil.which", lambda _: None)

    with pytest.raises(ProgramError, match=r"(?s)docker: not installed.*docs\.docker\.com"):
        doctor.refuse(CLUSTER)


@pytest.mark.parametrize(
    ("said", "fix"),
    [
        ("permission denied while trying to connect to the Docker daemon socket", "usermod -aG docker"),
        ("Cannot connect to the Docker daemon", "systemctl start docker"),
    ],
)
def test_docker_s_refusals_have_different_fixes(monkeypatch: pytest.MonkeyPatch, said: str, fix: str) -> None:
    """A daemon that is stopped and one that refuses this user look alike to a script."""

    def fail(*_: object, **__: object) -> str:
        raise ProgramError(said)

    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(machine_doctor, "run", fail)

    assert fix in machine_doctor.docker().fix
