"""The command of every arm, by kind of script; and why an arm is absent."""

from pathlib import Path

import pytest

from tests.golden import Wording
from training.workloads.script import commands
from training.workloads.script.commands import ArmCommand, Sizes
from training.workloads.script.recognise import Kind, Script

PYTHON = "/mine/python"
PATH = Path("/mine/train.py")
ARGUMENTS = ("--n", "{workers}", "--out", "{storage}/x", "{other}")


def arms(kind: Kind, *, modules: frozenset[str] = frozenset({"ray"}), workers: int = 3, has_ray: bool = True,
         ) -> dict[str, ArmCommand]:  # fmt: skip
    """By name."""
    script = Script(path=PATH, kind=kind, modules=modules, arguments=ARGUMENTS)
    made = commands.commands(script, PYTHON, Sizes(workers=workers), {"storage": "/s"}, has_ray)
    return {arm.arm: arm for arm in made}


def test_a_ray_train_script_is_its_own_baseline() -> None:
    """Local mode, num_workers=0, is what it does without Ray; under torchrun it is one rank of several."""
    found = arms("ray-torch")

    assert (PYTHON, "/mine/train.py", "--n", "0", "--out", "/s/x", "{other}") == found["baseline"].command
    assert found["baseline"].command == found["wide"].command
    assert (PYTHON, "-m", "torch.distributed.run", "--nproc-per-node", "3") == found["native"].command[:5]
    assert "0" == found["native"].command[-4]
    assert (PYTHON, "/mine/train.py", "--n", "3", "--out", "/s/x", "{other}") == found["ray"].command


@pytest.mark.parametrize(("kind", "launcher"), [("torchrun", "torch.distributed.run"), ("tf-config", "processes.py")])
def test_a_script_that_knows_no_ray_gets_its_ranks_from_outside(kind: Kind, launcher: str) -> None:
    """One process as it is; N by its framework's own launcher; N by Ray, which sets the same variables."""
    found = arms(kind, modules=frozenset({"torch"}))

    assert (PYTHON, "/mine/train.py", "--n", "1") == found["baseline"].command[:4]
    assert launcher in " ".join(found["native"].command)
    assert (str(commands.RANKS / "under_ray.py"), "3", "1", kind, "/mine/train.py") == found["ray"].command[1:6]


def test_a_script_that_can_not_tell_that_it_is_alone_is_a_world_of_one() -> None:
    """It calls `init_process_group` in any case, as most of PyTorch's tutorials do."""
    script = Script(path=PATH, kind="torchrun", modules=frozenset({"torch"}), arguments=(), trains_alone=False)
    found = {arm.arm: arm for arm in commands.commands(script, PYTHON, Sizes(workers=3), {})}

    for arm in ("baseline", "wide"):
        assert (PYTHON, "-m", "torch.distributed.run", "--nproc-per-node", "1") == found[arm].command[:5]
        assert 1 == found[arm].ranks
    assert "3" == found["native"].command[4]


@pytest.mark.parametrize("kind", ["ray-xgboost", "ray-lightgbm"])
def test_boosters_find_each_other_without_ray(kind: Kind) -> None:
    """Local mode in every process, which is told of the others as its kind needs it."""
    found = arms(kind)

    assert (str(commands.RANKS / "processes.py"), "3", kind, "/mine/train.py", "--n", "0") == found["native"].command[
        1:7
    ]
    assert (PYTHON, "/mine/train.py", "--n", "3") == found["ray"].command[:4]
    assert (PYTHON, "/mine/train.py", "--n", "0") == found["baseline"].command[:4]


def test_rllib_samples_by_itself_where_it_has_no_runners(wording: Wording) -> None:
    """Zero runners are the baseline, in which Ray runs, too; there are none without Ray."""
    found = arms("ray-rllib")

    assert (PYTHON, "/mine/train.py", "--n", "0") == found["baseline"].command[:4] == found["wide"].command[:4]
    assert (PYTHON, "/mine/train.py", "--n", "3") == found["ray"].command[:4]
    wording("script", found["native"].absent)
    assert not arms("ray-rllib", workers=1)["ray"].absent


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
        "no Ray installed": arms("torchrun", modules=frozenset({"torch"}), has_ray=False)["ray"],
    }.items():
        wording("script", absent.absent, label)


def test_a_command_can_be_typed_as_it_is_shown() -> None:
    """Variables first, everything quoted that a shell would split."""
    arm = ArmCommand(arm="x", command=("python", "a b.py"), variables={"A": "1 2"})

    assert "A='1 2' python 'a b.py'" == str(arm)  # not prose: a command
