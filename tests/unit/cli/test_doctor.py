"""`rwi doctor`: found against minimum for each thing that a stack needs, and the fix of what is missing."""

import re
from pathlib import Path

import pytest

from cli.look import doctor
from cli.stack import settings as stack_settings
from infra.doctor import Finding
from infra.places.local import place as local_place
from infra.programs import ProgramError
from tests.golden import Wording
from tests.unit.kube_api import node, serving, trust_without_certificate


def findings(stack: str, **overrides: str) -> dict[str, Finding]:
    """What a stack needs, by name."""
    return {one.name: one for one in doctor.findings(stack_settings.load(stack, overrides))}


@pytest.fixture(autouse=True)
def _cli(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether this machine has a Pulumi CLI is another test's business."""
    monkeypatch.setattr(doctor, "path_additions", list)


def test_the_table_ends_with_the_fix_of_each_that_is_missing(wording: Wording) -> None:
    """And of nothing else."""
    text = doctor.table(
        [Finding("a", "1", "2", False, "get another a"), Finding("b", "in a long place", "b", True, "none needed")]
    )

    assert ["NO", "ok"] == [line.split()[0] for line in text.splitlines()[1:3]]
    assert text.endswith("\n\na: get another a")  # not prose: of this test
    wording("doctor", text)


def test_memory_that_the_workers_lack_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """What they are said to need is set, and the status says so, for scripts. No cluster's programs are needed here."""
    found = findings("local", workerMemory="4Ti")
    monkeypatch.setattr(doctor, "findings", lambda settings: [*found.values()])

    assert {"Python", "Pulumi CLI", "CPUs", "memory", "network", "disk"} == found.keys()
    assert not found["memory"].ok
    assert found["memory"].needed.startswith("8192.0 GiB")
    assert 1 == doctor.examine("local", {})


@pytest.mark.parametrize(
    ("reason", "found"),
    [
        ("", "a run's own: no other machine reaches it"),
        ("it has none", "other machines reach a run's ports: it has none"),
    ],
)
def test_ports_that_others_reach_are_said(monkeypatch: pytest.MonkeyPatch, reason: str, found: str) -> None:
    """With the system's reason, and without a no: runs do without."""
    monkeypatch.setattr(local_place, "NETWORK_PROBE", ("-ISc", f"print({reason!r}, end='')"))
    finding = local_place.network()

    assert (found, True) == (finding.present, finding.ok)


def test_a_minikube_stack_needs_all_of_it_whatever_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has its line, also when the first one is not there."""

    def fail(*_: object, **__: object) -> str:
        raise ProgramError("docker is not installed, or not on PATH")

    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    monkeypatch.setattr("infra.places.minikube.doctor.run", fail)
    found = findings("ci", workers="50", globalBatchSize="50")

    wanted = {"Python", "Pulumi CLI", "plugin command", "plugin kubernetes", "docker", "minikube", "CPUs", "memory"}
    assert wanted | {"disk", "nodes", "fit"} == found.keys()
    assert ("not installed", False) == (found["minikube"].present, found["minikube"].ok)
    assert ("50 workers" in found["fit"].fix, False) == (True, found["fit"].ok)


def test_an_existing_cluster_is_asked_what_up_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that holds the measurement, and one that is not there."""
    trust_without_certificate(monkeypatch)
    with serving(tmp_path) as (api, kubeconfig):
        for name in ("one", "two"):
            api.put("/api/v1", "nodes", node(name))
        fits = findings("kubernetes", kubeContext="test", kubeconfig=kubeconfig)
        crowded = findings("kubernetes", kubeContext="test", kubeconfig=kubeconfig, workers="9")
    gone = findings("kubernetes", kubeContext="test", kubeconfig=kubeconfig)

    assert [True, False, False] == [found["cluster"].ok for found in (fits, crowded, gone)]
    assert "pulumi config set workers" in crowded["cluster"].fix
    assert "curl " in gone["cluster"].fix


@pytest.mark.parametrize(("percent", "cpus_used"), [(3.0, []), (60.0, ["1.2 of 2"])])
def test_a_machine_that_computes_already_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], percent: float, cpus_used: list[str]
) -> None:
    """How much of it; no fault, so the exit code is that of what is missing."""
    monkeypatch.setattr("psutil.cpu_percent", lambda _: percent)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr(doctor, "findings", lambda _: [Finding("a", "1", "1", True)])

    assert 0 == doctor.examine("local", {})
    assert cpus_used == re.findall(r"[0-9.]+ of \d", capsys.readouterr().out)
