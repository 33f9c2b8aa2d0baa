"""GPUs of workers: what is refused at preview, with what helps."""

from pathlib import Path

import pytest

from infra.places.cluster.fit import GIB, Measurement, Size, cluster_fit, gpu_lines, gpu_shortage
from infra.settings.settings import Settings
from tests import nvml
from tests.golden import Wording
from tests.unit.settings_machine import machine, only_problem, parse, problems
from tests.unit.settings_values import EXISTING
from training.machine import gpus
from training.workloads.script import python_environment, ray_layer

TRAIN = dict.fromkeys(ray_layer.OF_TRAIN, "1.0")
"""Packages of an environment whose Ray has Ray Train."""
TORCHRUN = """
import os
import torch.distributed as dist
dist.init_process_group("nccl" if os.environ.get("WORLD_SIZE") else "gloo")
"""
RAY = """
from ray.train import ScalingConfig
from ray.train.torch import TorchTrainer
TorchTrainer(print, scaling_config=ScalingConfig(num_workers=int(input()), {})).fit()
"""
TENSORFLOW = "import tensorflow as tf\ntf.distribute.MultiWorkerMirroredStrategy()\n"


def asked(folder: Path, text: str = TORCHRUN, **more: str) -> dict[str, str]:
    """The settings of a stack whose script has this text, with a GPU for each worker."""
    script = folder / "train.py"
    script.write_text(text)
    arguments = {"scriptArguments": "--num-workers {workers}"}
    return {**EXISTING, "workload": "script", "script": str(script), "workerGpus": "1", **arguments, **more}


def accepted(values: dict[str, str]) -> Settings:
    """The settings, on a machine that has room."""
    return parse(values, machine(cores=64, gib=256))


@pytest.mark.parametrize("text", [TORCHRUN, RAY.format("use_gpu=True"), RAY.format("use_gpu=flag")])
def test_a_script_with_pytorch_may_have_gpus(tmp_path: Path, text: str) -> None:
    """Also one that has `use_gpu=True` written into it: here Ray has what it waits for."""
    assert 1 == accepted(asked(tmp_path, text)).recipe.worker_gpus


def test_without_gpus_a_script_that_asks_for_one_is_refused(tmp_path: Path) -> None:
    """Ray would wait for ever."""
    values = asked(tmp_path, RAY.format("use_gpu=True"))
    del values["workerGpus"]

    assert [("script",)] == [(problem.what.split()[0],) for problem in problems(machine(64, 256), **values)]


@pytest.mark.parametrize(
    "text",
    [TENSORFLOW, RAY.format("resources_per_worker={'CPU': 1}")],
    ids=["tensorflow", "without use_gpu"],
)
def test_a_script_that_would_leave_them_idle_is_refused(tmp_path: Path, text: str, wording: Wording) -> None:
    """TensorFlow's wheel is the CPU's; and Ray hides GPUs from workers that ask for none."""
    refused = only_problem(**asked(tmp_path, text))

    assert ("workerGpus", ("pulumi config rm workerGpus",)) == (refused.key, refused.fixes)
    wording("settings", str(refused).replace(str(tmp_path), "/mine"))


@pytest.mark.parametrize(
    ("key", "values"),
    [
        # The CNN has none
        ("workerGpus", {"workerGpus": "1"}),
        # The baseline is one process, and a process uses one
        ("workerGpus", {"workerGpus": "0.5"}),
        # It would be believed to be in the cost
        ("priceGpuHour", {"priceGpuHour": "2.5"}),
    ],
    ids=["the CNN", "half a GPU", "a price"],
)
def test_what_nobody_has_is_refused(tmp_path: Path, key: str, values: dict[str, str], wording: Wording) -> None:
    """It says why, and what has."""
    (problem,) = problems(**(asked(tmp_path) | values if "0.5" in values.values() else values))

    assert (f"pulumi config rm {key}",) == problem.fixes
    wording("settings", str(problem))


def test_pytorch_without_cuda_is_refused(tmp_path: Path, wording: Wording) -> None:
    """Every arm would train on CPUs, beside GPUs that are paid for."""
    (tmp_path / "requirements.txt").write_text("torch==2.9.1+cpu\n")
    values = asked(tmp_path, image="", imageRegistry="registry.example.com/a")
    refused = only_problem(**values, requirements=str(tmp_path / "requirements.txt"))

    assert "workerGpus" == refused.key
    wording("settings", str(refused))


@pytest.mark.parametrize(("arm", "value", "instead"), [("wideArm", "true", "auto"), ("nativeArm", "false", "true")])
def test_arms_with_gpus_are_what_one_would_use(
    tmp_path: Path, arm: str, value: str, instead: str, wording: Wording
) -> None:
    """One process uses one GPU, so `wide` is absent; and `native` is the alternative to Ray."""
    assert "wide" in accepted(asked(tmp_path)).absent_arms
    refused = only_problem(**asked(tmp_path, **{arm: value}))

    assert (f"pulumi config set {arm} {instead}", "pulumi config rm workerGpus") == refused.fixes
    wording("settings", str(refused))


@pytest.mark.parametrize("torch", ["2.9.1", "2.9.1+cpu"])
def test_this_machine_has_gpus_for_all_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording, torch: str
) -> None:
    """Those that NVIDIA's library names; a preview warns, and an update is refused."""
    values = {key: value for key, value in asked(tmp_path).items() if key not in EXISTING} | {"workers": "3"}
    python = {"versions": {"python": "3.11.7", "torch": torch, "ray": "2.60.0"}, "modules": ["torch", "ray"]}
    monkeypatch.setattr(python_environment, "_probed", lambda _: python | {"packages": TRAIN})
    if "+cpu" in torch:
        assert "workerGpus" == only_problem(machine(64, 256), **values).key
        return
    nothing = parse(values, machine(64, 256))
    monkeypatch.setattr(gpus, "LIBRARY", str(nvml.library()))
    two, enough = parse(values, machine(64, 256)), parse({**values, "workers": "2"}, machine(64, 256))

    assert () == enough.refused_at_up
    assert "pulumi config set workers 2" in two.refused_at_up[0]
    wording("settings", two.refused_at_up[0], "two")
    wording("settings", nothing.refused_at_up[0], "none")


@pytest.mark.parametrize(
    ("visible", "hidden"),
    [(None, []), ("0,1", []), ("1, 0", []), (f"{nvml.uuid(2)[:-1]},{nvml.uuid(1)}", []), ("0", [2]), ("7,1", [1]),
     ("", [1, 2]), ("-1", [1, 2])],
)  # fmt: skip
def test_gpus_that_this_environment_hides_are_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording, visible: str | None, hidden: list[int]
) -> None:
    """On a machine that is shared they are somebody else's; an update is refused."""
    values = {key: value for key, value in asked(tmp_path).items() if key not in EXISTING} | {"workers": "2"}
    python = {"versions": {"python": "3.11.7", "torch": "2.9.1", "ray": "2.60.0"}, "modules": ["torch", "ray"]}
    monkeypatch.setattr(python_environment, "_probed", lambda _: python | {"packages": TRAIN})
    monkeypatch.setattr(gpus, "LIBRARY", str(nvml.library()))
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    refused = parse(values, machine(64, 256)).refused_at_up

    assert hidden == [number for number in (1, 2) if any(nvml.uuid(number) in text for text in refused)]
    assert len(refused) == bool(hidden)
    if visible == "0":
        wording("settings", refused[0])


@pytest.mark.parametrize("key", ["gpuResource", "runtimeClass", "gpuNodeSelector", "gpuTolerations"])
def test_keys_of_gpus_mean_something_with_gpus_alone(tmp_path: Path, key: str) -> None:
    """A selector that selects nothing would be believed."""
    values = {"gpuResource": "amd.com/gpu", "runtimeClass": "nvidia", "gpuNodeSelector": "a=b", "gpuTolerations": "a"}
    settings = asked(tmp_path, **{key: values[key]})

    assert accepted(settings).absent_arms
    assert key == only_problem(**settings | {"workerGpus": ""}).key


def on_minikube(folder: Path, **more: str) -> dict[str, str]:
    """The same on a Minikube cluster of one large node."""
    (folder / "requirements.txt").write_text("torch==2.9.1\n")
    size = {"minikubeNodes": "1", "minikubeCpus": "16", "minikubeMemory": "24Gi"}
    values = asked(folder, requirements=str(folder / "requirements.txt"), **size, **more)
    return {key: value for key, value in values.items() if key not in EXISTING} | {"target": "minikube"}


def test_the_gpus_of_each_moment_fit_minikube_s_node(tmp_path: Path, wording: Wording) -> None:
    """The idle Ray cluster holds its own: two workers need four at the same time, and the lines of the message work."""
    facts = machine(cores=64, gib=256, stack="minikube")
    values = on_minikube(tmp_path, minikubeGpus="3")
    enough, short = (parse({**values, "minikubeGpus": number}, facts) for number in ("4", "3"))

    assert () == enough.refused_at_up
    (refused,) = short.refused_at_up
    assert "native 4" in refused
    assert "pulumi config set minikubeGpus 4" in refused
    assert () == parse({**values, "workers": "1"}, facts).refused_at_up
    assert "pulumi config set workers 1" in refused
    wording("settings", refused)


def test_two_minikube_nodes_would_offer_each_gpu_twice(tmp_path: Path, wording: Wording) -> None:
    """Minikube gives every node all of them."""
    values = on_minikube(tmp_path, minikubeGpus="4") | {"minikubeNodes": "2"}
    (problem,) = problems(machine(64, 256, "minikube"), **values)

    assert "pulumi config set minikubeNodes 1" in problem.fixes
    wording("settings", str(problem))


ONE_GPU = Size(1, GIB, 1)
CPUS, GPUS = Size(8, 16 * GIB), Size(8, 16 * GIB, 4)
ARMS = ("baseline", "native", "ray")


def test_gpus_are_placed_pod_by_pod() -> None:
    """Sums over nodes say nothing: no pod takes half of its CPUs here and its GPU there."""
    two = Measurement(2, ONE_GPU, Size(1, GIB), ARMS, gpus_apart=True)
    kept = [Size(1, GIB)] * 2

    assert () == cluster_fit(two, [CPUS, GPUS], kept)
    assert ("native",) == cluster_fit(two, [CPUS, Size(8, 16 * GIB, 3)], kept)
    assert ARMS == cluster_fit(two, [Size(1, 2 * GIB), GPUS], kept)
    assert ARMS == cluster_fit(two, [CPUS, Size(2, 16 * GIB, 4)], kept)


def test_a_pod_without_gpu_needs_a_node_without() -> None:
    """Ray's head, the operator and the submitter; where nodes are told apart."""
    apart = Measurement(1, ONE_GPU, Size(1, GIB), ARMS, gpus_apart=True)
    together = Measurement(1, ONE_GPU, Size(1, GIB), ARMS)

    assert ARMS == cluster_fit(apart, [GPUS], [Size(1, GIB)])
    assert () == cluster_fit(together, [GPUS], [Size(1, GIB)])


def test_a_shortage_names_each_arm_and_the_most_workers() -> None:
    """With what the idle Ray cluster holds; one that has enough is not named."""
    three = Measurement(3, ONE_GPU, Size(1, GIB), ARMS)

    assert {"baseline": 4, "native": 6, "ray": 3} == three.gpus_at_once()
    assert "" == gpu_shortage(three, [Size(1, GIB, 6)])
    assert "baseline" not in gpu_shortage(three, [GPUS])
    assert ["pulumi config set workers 2"] == gpu_lines(three, [GPUS])
    assert [] == gpu_lines(three, [CPUS])
