"""Keys of earlier versions: a stack that still has one is refused with the line that sets what took its place."""

import hashlib
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from cli.setup.project import ToolError
from cli.stack import change
from cli.sweep.plan import parse_axes
from infra.settings.removed import REMOVED, REPLACEMENTS, Replacement
from infra.settings.table import every_key
from tests.unit.settings_machine import applied, machine, only_problem, problems, settings

FORMER = {
    "baseImage": "python:3.11",
    "kuberayChart": "charts/kuberay.tgz",
    "kuberayChartDigest": "sha256:" + "0" * 64,
    "kuberayRepository": "https://charts.example.com/",
    "minikubeAddons": "none",
    "minikubeCni": "kindnet",
    "preloadImages": "a:1, b:2",
    "dashboardNodePort": "30300",
    "nodeSelector": '{"pool": "training"}',
    "tolerations": '[{"key": "dedicated", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]',
    "imagePullSecrets": "one, two",
    "tunedRay": "true",
    "kubernetesVersion": "v1.33.1",
}
"""A value of each removed key that a stack of an earlier version may have."""


OF_PODS = {
    "nodeSelector": {"pool": "training"},
    "tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
    "imagePullSecrets": [{"name": "one"}, {"name": "two"}],
}
"""What three of them say, as a pod's spec has it."""


def test_a_removed_key_is_no_key_any_more() -> None:
    """Each has a value here, so that none is left untested."""
    assert not REMOVED.keys() & every_key().keys()
    assert REMOVED.keys() == FORMER.keys()


@pytest.mark.parametrize("replacement", REPLACEMENTS, ids=lambda replacement: replacement.keys[0])
def test_a_removed_key_is_refused_with_what_to_set_instead(replacement: Replacement, tmp_path: Path) -> None:
    """Keys that one key replaced are one problem, and its line leaves none of them."""
    former = {key: FORMER[key] for key in replacement.keys}
    for name in ("stacks", "charts"):
        (tmp_path / name).mkdir()
    (tmp_path / "charts/kuberay.tgz").touch()
    refusal = only_problem(machine(folder=tmp_path), **former)

    assert all(f"{key} = " in refusal for key in former)
    assert not former.keys() & applied(former, refusal.fixes[0], tmp_path).keys()


def test_the_file_in_place_of_three_keys_says_the_same(tmp_path: Path) -> None:
    """The line writes it for the stack, in a shell; a value that was never allowed is not carried over."""
    refusal = problems(machine(folder=tmp_path), target="minikube", **{key: FORMER[key] for key in OF_PODS})[0]
    write = refusal.fixes[0].partition(" && ")[0]
    (tmp_path / "stacks").mkdir()
    subprocess.run(["sh", "-c", write], cwd=tmp_path, check=True)

    assert OF_PODS == yaml.safe_load((tmp_path / "stacks/pods.local.yaml").read_text(encoding="utf-8"))["spec"]
    (wrong,) = problems(nodeSelector="{")
    assert ("pulumi config rm nodeSelector",) == wrong.fixes


def test_the_folder_in_place_of_seven_keys_says_the_same(tmp_path: Path) -> None:
    """Its commands are typed into a shell; the digest that was set is the one that the chart must have."""
    keys = REMOVED["baseImage"].keys
    (tmp_path / "charts").mkdir()
    (tmp_path / "charts/kuberay.tgz").write_bytes(b"a chart")
    (tmp_path / "cni.yaml").touch()
    former = {key: FORMER[key] for key in keys} | {"target": "minikube", "minikubeCni": "cni.yaml"}
    facts = machine(folder=tmp_path)
    after = applied(former, problems(facts, **former)[0].fixes[0], tmp_path)
    supplies = settings(facts, **after).of_cluster.offline

    assert ("python:3.11", ("a:1", "b:2"), ()) == (supplies.base_image, supplies.images, supplies.addons)
    assert ("0" * 64, "offline/local/network.yaml") == (supplies.chart_digest, supplies.network)
    assert "offline/local/kuberay-operator-1.6.2.tgz" == supplies.chart
    del former["kuberayChartDigest"]
    shutil.rmtree(tmp_path / "offline")
    applied(former, problems(facts, **former)[0].fixes[0], tmp_path)
    assert hashlib.sha256(b"a chart").hexdigest() in (tmp_path / "offline/local/SHA256SUMS").read_text()


def test_a_chart_of_a_mirror_is_pulled_into_the_folder() -> None:
    """By Helm, which also reads oci://."""
    (refused,) = problems(kuberayRepository="https://charts.example.com/", kuberayVersion="1.5.1")
    pull = shlex.split(refused.fixes[0].split(" && ")[1])

    assert pull[:5] == ["helm", "pull", "kuberay-operator", "--repo", "https://charts.example.com/"]
    assert pull[5:] == ["--version", "1.5.1", "--destination", "offline/local"]


def test_a_refused_value_is_in_no_command_line() -> None:
    """The default takes its place: somebody pastes the line into a shell."""
    values = {"kuberayRepository": "https://charts.example.com/", "kuberayVersion": "1.6.2; touch /tmp/x"}
    (refused,) = [problem for problem in problems(**values) if problem.what.startswith("kuberayRepository")]
    pull = shlex.split(refused.fixes[0].split(" && ")[1])

    assert pull[5:] == ["--version", "1.6.2", "--destination", "offline/local"]
    assert "touch" not in refused.fixes[0]


SET_ALREADY = {"podTemplate": {"nodeSelector": '{"pool": "training"}'}, "offline": {"baseImage": "python:3.11"}}


@pytest.mark.parametrize("key", SET_ALREADY)
def test_a_key_that_is_set_stays_as_it_is(key: str, tmp_path: Path) -> None:
    """Its file is the user's: what to add is in words, and the line only removes."""
    former = SET_ALREADY[key]
    (problem,) = [
        refusal
        for refusal in problems(machine(folder=tmp_path), target="minikube", **{key: "mine"}, **former)
        if refusal.what.startswith(next(iter(former)))
    ]

    assert (f"pulumi config rm {next(iter(former))}",) == problem.fixes
    assert f"{key} = mine" in problem.allowed
    assert "training" in problem.allowed or "python:3.11" in problem.allowed


@pytest.mark.parametrize(("key", "place"), [("podTemplate", "stacks/pods.local.yaml"), ("offline", "offline/local")])
def test_a_file_that_is_there_is_not_written_over(key: str, place: str, tmp_path: Path) -> None:
    """Though no key names it yet."""
    (tmp_path / place).mkdir(parents=True)
    (former,) = SET_ALREADY[key]
    problem = problems(machine(folder=tmp_path), target="minikube", **SET_ALREADY[key])[0]

    assert (f"pulumi config set {key} {place} && pulumi config rm {former}",) == problem.fixes


def test_a_removed_secret_is_not_shown() -> None:
    """Neither in the refusal nor in the line that fixes it."""
    (problem,) = problems(machine(secret=frozenset({"dashboardNodePort"})), dashboardNodePort="hunter2")

    assert "hunter2" not in str(problem)


@pytest.mark.parametrize("key", REMOVED)
def test_set_refuses_a_removed_key(key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what takes its place, as a sweep does; one that stands in a stack's file can be removed from it."""
    (tmp_path / "Pulumi.mine.yaml").write_text(f"config:\n  {key}: '1'\n", encoding="utf-8")
    (tmp_path / "Pulumi.other.yaml").write_text("config: {}\n", encoding="utf-8")
    monkeypatch.setattr("cli.setup.project.STACKS", tmp_path)

    with pytest.raises(ToolError) as refused:
        change.checked("mine", {key: FORMER[key]})
    assert REMOVED[key].instead in str(refused.value)
    with pytest.raises(ToolError) as unset:
        change.checked("other", {key: ""})
    assert REMOVED[key].instead in str(unset.value)
    with pytest.raises(ToolError) as swept:
        parse_axes({key: "1 2"})
    assert REMOVED[key].instead in str(swept.value)
    assert {key: None} == change.checked("mine", {key: ""})
