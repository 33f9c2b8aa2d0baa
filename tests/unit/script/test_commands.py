"""The command of every arm, by kind of script; and why an arm is absent."""

from pathlib import Path
from typing import Any

import pytest

from tests.golden import Wording
from training.workloads.script import commands, resolve
from training.workloads.script.commands import ArmCommand, Sizes, WithRay
from training.workloads.script.recognise import Kind, Script

PYTHON = "/mine/python"
PATH = Path("/mine/train.py")
ARGUMENTS = ("--n", "{workers}", "--out", "{storage}/x", "{other}")


def arms(kind: Kind, *, modules: frozenset[str] = frozenset({"ray"}), workers: int = 3,
         ray: WithRay = commands.IN_ITS_ENVIRONMENT) -> dict[str, ArmCommand]:  # fmt: skip
    """By name."""
    script = Script(path=PATH, kind=kind, modules=modules, arguments=ARGUMENTS)
    made = commands.commands(script, PYTHON, Sizes(workers=workers), {"storage": "/s"}, ray)
    return {arm.arm: arm for arm in made}


UNDER_RAY, PROCESSES = str(commands.RANKS / "under_ray.py"), str(commands.RANKS / "processes.py")
TORCHRUN = ("-m", "torch.distributed.run", "--nproc-per-node", "3")


@pytest.mark.parametrize(
    ("kind", "alone", "native", "ray"),
    [
        # Local mode, num_workers=0, is what a script of Ray Train does without Ray, also as one rank of several.
        ("ray-torch", "0", TORCHRUN, (str(PATH), "--n", "3")),
        ("ray-xgboost", "0", (PROCESSES, "3", "ray-xgboost", str(PATH)), (str(PATH), "--n", "3")),
        ("ray-lightgbm", "0", (PROCESSES, "3", "ray-lightgbm", str(PATH)), (str(PATH), "--n", "3")),
        # Without runners it samples by itself, and there are none without Ray.
        ("ray-rllib", "0", None, (str(PATH), "--n", "3")),
        # One that knows no Ray gets its ranks from outside: of Ray with the same variables.
        ("torchrun", "1", TORCHRUN, (UNDER_RAY, "3", "1", "torchrun", str(PATH))),
        ("tf-config", "1", (PROCESSES, "3", "tf-config", str(PATH)), (UNDER_RAY, "3", "1", "tf-config", str(PATH))),
    ],
)
def test_every_arm_is_started_as_its_kind_has_it(
    kind: Kind, alone: str, native: tuple[str, ...] | None, ray: tuple[str, ...], wording: Wording
) -> None:
    """The arguments are those of the number of workers that the arm has for the script."""
    found = arms(kind, modules=frozenset({"ray" if kind.startswith("ray") else "torch"}))
    rest = ("--out", "/s/x", "{other}")

    assert (PYTHON, str(PATH), "--n", alone, *rest) == found["baseline"].command == found["wide"].command
    assert ((PYTHON, *ray), rest) == (found["ray"].command[: 1 + len(ray)], found["ray"].command[-3:])
    if native is None:
        wording("script", found["native"].absent)
        assert not arms(kind, workers=1)["ray"].absent
    else:
        assert (PYTHON, *native) == found["native"].command[: 1 + len(native)]
        assert ("--n", "0" if alone == "0" else "3", *rest) == found["native"].command[-5:]


def test_a_script_that_can_not_tell_that_it_is_alone_is_a_world_of_one() -> None:
    """It calls `init_process_group` in any case, as most of PyTorch's tutorials do."""
    script = Script(path=PATH, kind="torchrun", modules=frozenset({"torch"}), arguments=(), trains_alone=False)
    found = {arm.arm: arm for arm in commands.commands(script, PYTHON, Sizes(workers=3), {})}

    for arm in ("baseline", "wide"):
        assert (PYTHON, "-m", "torch.distributed.run", "--nproc-per-node", "1") == found[arm].command[:5]
        assert 1 == found[arm].ranks
    assert "3" == found["native"].command[4]


def with_ray_data(kind: Kind = "ray-torch", workers: int = 2, lacking: str = "") -> dict[str, ArmCommand]:
    """The arms of a script that reads through Ray Data with other arguments; a CPU more of each worker is for it."""
    modules, other = frozenset({"ray.data", "ray.train.torch"}), ("--ray-data", "--n", "{workers}")
    script = Script(path=PATH, kind=kind, modules=modules, arguments=ARGUMENTS, data_arguments=other)
    sizes = Sizes(workers=workers, input_cpus=1)
    return {
        arm.arm: arm for arm in commands.commands(script, PYTHON, sizes, {"storage": "/s"}, WithRay(lacking=lacking))
    }


def test_ray_data_s_arm_is_ray_s_with_other_arguments() -> None:
    """All arms have the same CPUs for their workers' data, and Ray is told of no others."""
    found = with_ray_data()

    assert (PYTHON, "/mine/train.py", "--ray-data", "--n", "2") == found["raydata"].command
    assert {"baseline": 2, "wide": 4, "native": 4, "ray": 4, "raydata": 4} == {
        arm: command.cpus for arm, command in found.items()
    }
    assert {"1": {"baseline", "native", "ray", "raydata"}, "2": {"wide"}} == {
        threads: {arm for arm in found if found[arm].variables["OMP_NUM_THREADS"] == threads} for threads in ("1", "2")
    }
    assert {"ray": '{"CPU": 4}', "raydata": '{"CPU": 4}'} == {
        arm: command.variables[commands.RAYS_CPUS]
        for arm, command in found.items()
        if commands.RAYS_CPUS in command.variables
    }


def test_a_script_that_reads_so_with_other_arguments_alone_has_every_arm() -> None:
    """Without them it may read through Ray Data by itself, which local mode has for one process."""
    without = arms("ray-torch", modules=frozenset({"ray.data"}))

    assert not with_ray_data()["native"].absent
    assert without["native"].absent
    assert "raydata" not in without
    assert not [arm for arm in without.values() if commands.RAYS_CPUS in arm.variables]


@pytest.mark.parametrize(("kind", "has_ray"), [("torchrun", True), ("ray-xgboost", True), ("ray-torch", False)])
def test_what_can_not_read_so_has_no_such_arm(kind: Kind, has_ray: bool, wording: Wording) -> None:
    """With the reason."""
    wording("script", with_ray_data(kind, lacking="" if has_ray else resolve.NO_RAY)["raydata"].absent)


def test_every_arm_has_the_threads_and_cpus_of_its_role() -> None:
    """`wide` has those of all workers in one process, the others those of one worker in each; no arm has more CPUs."""
    found = arms("ray-tensorflow")

    assert {"baseline": "1", "wide": "3", "native": "1", "ray": "1"} == {
        name: arm.variables["OMP_NUM_THREADS"] for name, arm in found.items()
    }
    assert {"baseline": 1, "wide": 3, "native": 3, "ray": 3} == {name: arm.cpus for name, arm in found.items()}
    assert {"baseline": 1, "wide": 1, "native": 3, "ray": 3} == {name: arm.ranks for name, arm in found.items()}
    assert {"1"} == {arm.variables["TF_USE_LEGACY_KERAS"] for arm in found.values()}
    assert {"-1"} == {arm.variables["CUDA_VISIBLE_DEVICES"] for arm in found.values()}


def with_gpus(kind: Kind = "torchrun", **more: Any) -> dict[str, ArmCommand]:
    """The same of three workers with a GPU each, on a machine with four."""
    script = Script(path=PATH, kind=kind, modules=frozenset({"torch"}), arguments=ARGUMENTS)
    sizes = Sizes(workers=3, gpus=1, **more)
    return {arm.arm: arm for arm in commands.commands(script, PYTHON, sizes, {"storage": "/s"})}


def test_an_arm_sees_as_many_gpus_as_it_has_processes() -> None:
    """The first ones by their slots; and one process uses one, so no process has all of them."""
    found = with_gpus(devices=("GPU-a", "GPU-b", "GPU-c", "GPU-d"))
    seen = {name: arm.variables.get("CUDA_VISIBLE_DEVICES") for name, arm in found.items() if not arm.absent}

    assert {"baseline": "GPU-a", "native": "GPU-a,GPU-b,GPU-c", "ray": "GPU-a,GPU-b,GPU-c"} == seen
    assert commands.ONE_GPU == found["wide"].absent
    assert "--use-gpu" in found["ray"].command
    assert {"PCI_BUS_ID"} == {found[name].variables["CUDA_DEVICE_ORDER"] for name in seen}


def test_a_pod_s_processes_see_what_the_pod_has() -> None:
    """The device plugin chose them, and Ray its workers' own."""
    for arm in with_gpus(in_pods=True).values():
        assert "CUDA_VISIBLE_DEVICES" not in arm.variables


def test_an_absent_arm_says_why(wording: Wording) -> None:
    """Never a command that can't work."""
    assert not arms("torchrun", workers=1)["ray"].absent
    assert not arms("other")["ray"].absent
    for label, absent in {
        "Ray Data": arms("ray-torch", modules=frozenset({"ray.data"}))["native"],
        "one worker, wide": arms("torchrun", workers=1)["wide"],
        "one worker, ray": arms("other", workers=1)["ray"],
        "not known, native": arms("other")["native"],
        "without Ray, ray": arms("other", modules=frozenset({"torch"}))["ray"],
        "no Ray installed": arms("torchrun", modules=frozenset({"torch"}), ray=WithRay(lacking=resolve.NO_RAY))["ray"],
    }.items():
        wording("script", absent.absent, label)


@pytest.mark.parametrize("kind", ["plain", "torchrun", "tf-config"])
def test_arms_with_ray_alone_have_the_python_of_a_layer(kind: Kind) -> None:
    """The others are what they are without Ray, also in what they import."""
    found = arms(kind, modules=frozenset({"torch"}), ray=WithRay(python="/layer/python"))
    pythons = {name: arm.command[0] for name, arm in found.items() if not arm.absent}

    assert "raystart" in pythons if kind == "plain" else "ray" in pythons
    assert {name: "/layer/python" if name in commands.BY_RAY else PYTHON for name in pythons} == pythons


def test_a_command_can_be_typed_as_it_is_shown() -> None:
    """Variables first, everything quoted that a shell would split."""
    arm = ArmCommand(arm="x", command=("python", "a b.py"), variables={"A": "1 2"})

    assert "A='1 2' python 'a b.py'" == str(arm)  # not prose: a command
