"""PyTorch scripts, for real: every arm alike, and what is broken recognised. TRY_PYTHON names an environment."""

from pathlib import Path

import pytest

from tests.script.tryout import EXAMPLES, NO_TORCH, TORCH, run_one, try_script
from training.workloads.script import facts
from training.workloads.script.facts import ArmFacts

pytestmark = pytest.mark.skipif(not TORCH, reason=NO_TORCH)


def broken(folder: Path, old: str, new: str) -> Path:
    """A copy of the torchrun example with one change."""
    text = (EXAMPLES / "torch_ddp.py").read_text(encoding="utf-8")
    assert old in text
    path = folder / "train.py"
    path.write_text(text.replace(old, new), encoding="utf-8")
    return path


def native(path: Path, folder: Path) -> ArmFacts:
    """The facts of its native arm."""
    return run_one(path, "native", folder, python=TORCH)[1]


@pytest.mark.parametrize(
    ("script", "arguments"),
    [("torch_ddp.py", "--epochs 1"), ("torch_ray.py", "--epochs 1 --num-workers {workers} --storage {storage}")],
)
def test_every_arm_of_an_example_does_the_same_work(script: str, arguments: str) -> None:
    """Claim A, and weights that are equal bit for bit with and without Ray."""
    tried = try_script(EXAMPLES / script, arguments, PYTHON=TORCH)

    assert 0 == tried.code, tried.text
    assert "claim that can be reached: A, same work" in tried.text
    assert "native and ray ended with the same weights, bit for bit" in tried.text
    assert "rows a step equal in all arms" in tried.text


def test_a_removed_ddp_wrapper_is_seen(tmp_path: Path) -> None:
    """Each rank steps by its own gradients: weights differ."""
    found = native(broken(tmp_path, "model = DistributedDataParallel(model)", "pass"), tmp_path)

    assert found.weights_equal[0] is False
    assert found.rows_disjoint[0]


def test_a_removed_sampler_is_seen(tmp_path: Path) -> None:
    """Every rank has all rows: twice the rows an epoch, and shared ones."""
    path = broken(tmp_path, "DistributedSampler(data) if world > 1 else None", "None")
    found = native(path, tmp_path)

    assert found.rows_disjoint[0] is False
    assert 2 * 2048 == found.rows_per_epoch


def test_ranks_that_train_alone_are_seen(tmp_path: Path) -> None:
    """Nobody reads WORLD_SIZE: two trainings of everything."""
    found = native(broken(tmp_path, 'int(os.environ.get("WORLD_SIZE", "1"))', "1"), tmp_path)

    assert "each alone" in found.problem
    assert found.rows_disjoint[0] is False


def test_a_batch_of_each_worker_is_named(tmp_path: Path) -> None:
    """Weak scaling."""
    path = broken(tmp_path, "given.batch // world", "given.batch")
    (tmp_path / "b").mkdir()
    baseline = run_one(path, "baseline", tmp_path / "b", python=TORCH)[1]
    found = native(path, tmp_path)

    assert "" == found.problem
    assert facts.together({"baseline": baseline, "native": found}).weak_scaling


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("sampler=sampler,", "sampler=sampler, num_workers=1, persistent_workers=True,"),
        ("        print(f", "        list(DataLoader(pictures(4096), batch_size=512))\n        print(f"),
        (
            "        for images, labels in loader:",
            "        for _ in range(32):\n            images, labels = next(iter(loader))",
        ),
    ],
    ids=["loader processes", "validation on more rows", "an iterator a step"],
)
def test_what_is_in_order_is_not_mistaken(tmp_path: Path, old: str, new: str) -> None:
    """DataLoader processes draw ahead; a validation may read more than the training."""
    found = native(broken(tmp_path, old, new), tmp_path)

    assert "" == found.problem
    assert (True, True) == (found.weights_equal[0], found.rows_disjoint[0])
    assert (64, 2048) == (found.rows_per_step, found.rows_per_epoch)
