"""PyTorch scripts, for real: every arm alike, and what is broken recognised. TRY_PYTHON names an environment."""

from pathlib import Path

import pytest

from cli.tryout import explain
from tests.golden import Wording
from tests.script.tryout import EXAMPLES, NO_TORCH, measure_one, run_one, try_script
from tests.stacks import TORCH
from training.contract.progress import describe, read_new
from training.contract.provenance import allowed_cpus
from training.workloads.script import facts, resolve, same_work
from training.workloads.script.facts import ArmFacts
from training.workloads.script.python_environment import PythonError
from training.workloads.script.recipe import ScriptRecipe
from training.workloads.script.recognise import recognise

pytestmark = pytest.mark.skipif(not TORCH, reason=NO_TORCH)


def broken(folder: Path, *changes: tuple[str, str], example: str = "torch_ddp.py") -> Path:
    """A copy of an example with changes, each of an old text to a new one."""
    text = (EXAMPLES / example).read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "train.py"
    path.write_text(text, encoding="utf-8")
    return path


def native(path: Path, folder: Path) -> ArmFacts:
    """The facts of its native arm."""
    return run_one(path, "native", folder, python=TORCH)[1]


@pytest.mark.parametrize(
    ("script", "arguments"),
    [("torch_ddp.py", "--epochs 1"), ("torch_ray.py", "--epochs 1 --num-workers {workers} --storage {storage}")],
)
def test_every_arm_of_an_example_does_the_same_work(script: str, arguments: str, wording: Wording) -> None:
    """Claim A, and weights that are equal bit for bit with and without Ray."""
    tried = try_script(EXAMPLES / script, arguments, python=TORCH)

    assert 0 == tried.code, tried.text
    assert "A" == tried.claim
    assert tried.row("native")["weights"] == tried.row("ray")["weights"]
    wording("try", tried.conclusions)


def test_every_arm_of_lightning_s_trainer_does_the_same_work(wording: Wording) -> None:
    """It knows torchrun by its variables, which Ray Train's workers get, too."""
    script = EXAMPLES / "lightning_fit.py"
    recognised = recognise(script, ())
    try:
        resolve.resolve(ScriptRecipe.from_dict({"script": str(script), "scriptArguments": "", "python": TORCH}))
    except PythonError as error:
        pytest.skip(error.why)
    tried = try_script(script, "--epochs 1", python=TORCH)

    assert "torchrun" == recognised.kind
    assert 0 == tried.code, tried.text
    assert "A" == tried.claim
    assert tried.row("native")["weights"] == tried.row("ray")["weights"]
    wording("try", tried.conclusions)


def test_ranks_that_train_alone_are_seen(tmp_path: Path) -> None:
    """Nobody reads WORLD_SIZE: two trainings of everything."""
    found = native(broken(tmp_path, ('int(os.environ.get("WORLD_SIZE", "1"))', "1")), tmp_path)

    assert "each alone" in found.problem
    assert found.rows_disjoint[0] is False


def test_another_set_up_in_one_arm_is_named(tmp_path: Path) -> None:
    """A learning rate that is scaled by the ranks, and threads of the script's own."""
    path = broken(
        tmp_path, ("lr=1e-3", "lr=1e-3 * world"), ("torch.manual_seed(1)", "torch.set_num_threads(2 * world)")
    )
    arms = {arm: run_one(path, arm, tmp_path, python=TORCH)[1] for arm in ("baseline", "native")}
    items = same_work.compare({name: found.work for name, found in arms.items()})

    assert {"learningRate"} == {item for item, (known, _) in items.items() if known is False}
    assert facts.same_threads(arms)[0] is False


def test_another_argument_on_one_rank_is_seen(tmp_path: Path) -> None:
    """One rank learns twice as fast from the same gradients: its rate and its weights are its own."""
    found = native(broken(tmp_path, ("lr=1e-3", "lr=1e-3 * (1 + int(os.environ['RANK']))")), tmp_path)

    assert "0.001 and 0.002" == found.work.items["learningRate"]
    assert found.weights_equal[0] is False


def test_a_rank_that_ends_early_fails_the_arm(tmp_path: Path, wording: Wording) -> None:
    """The others wait for it in vain: the exit code is not 0, and the message has the last lines."""
    path = broken(tmp_path, ("optimizer.step()", "optimizer.step()\n            if os.environ['RANK'] == '1': break"))
    outcome = run_one(path, "native", tmp_path, python=TORCH)[0]
    message, *printed = explain.problem(outcome, recognise(path, ()), 300).splitlines()

    wording("try", message)
    assert any("closed by peer" in line for line in printed)


def test_a_script_that_reads_its_checkpoint_ends_before(tmp_path: Path) -> None:
    """Local mode has none for ranks other than 0: after the wanted steps nothing that follows `fit` is run."""
    path = broken(
        tmp_path, ("print(trainer.fit().metrics)", "print(trainer.fit().checkpoint.path)"), example="torch_ray.py"
    )
    outcome, found = run_one(path, "native", tmp_path, "--epochs 2 --num-workers {workers} --storage {storage}", TORCH)

    assert (0, "", 20) == (outcome.code, found.problem, found.steps)


@pytest.mark.parametrize("arm", ["baseline", "native"])
def test_a_checkpoint_can_be_read_after_a_whole_training(tmp_path: Path, arm: str) -> None:
    """Without Ray, too, on every rank: the example deletes the folder that it reported."""
    read = "print(sorted(torch.load(trainer.fit().checkpoint.path + '/state.pt')['model']))"
    path = broken(tmp_path, ("print(trainer.fit().metrics)", read), example="torch_ray.py")
    arguments = "--epochs 1 --batch 256 --num-workers {workers} --storage {storage}"
    outcome, found = run_one(path, arm, tmp_path, arguments, TORCH)

    assert (0, "", 8) == (outcome.code, found.problem, found.steps)
    assert found.ranks == outcome.printed.count("0.bias")


@pytest.mark.parametrize(
    "changes",
    [
        [
            ("sampler=sampler,", "sampler=sampler, num_workers=2, persistent_workers=True,"),
            ("    for epoch in", "    test = DataLoader(pictures(512), batch_size=512)\n    for epoch in"),
            ("loss.backward()", "list(test); loss.backward()"),
        ],
        [
            (
                "        for images, labels in loader:",
                "        for _ in range(32):\n            images, labels = next(iter(loader))",
            )
        ],
    ],
    ids=[
        "persistent loader processes, validation before the step",
        "an iterator a step",
    ],
)
def test_what_is_in_order_is_not_mistaken(tmp_path: Path, changes: list[tuple[str, str]]) -> None:
    """DataLoader processes draw ahead; a validation may read more than the training, and at any time."""
    found = native(broken(tmp_path, *changes), tmp_path)

    assert "" == found.problem
    assert (True, True) == (found.weights_equal[0], found.rows_disjoint[0])
    assert (64, 2048) == (found.rows_per_step, found.rows_per_epoch)


def test_cpus_are_those_of_the_threads_that_computed(tmp_path: Path) -> None:
    """Both ranks may use both CPUs of their arm; with OpenMP's threads bound both compute on the first of them."""
    if len(allowed_cpus()) < 2:
        pytest.skip("two workers need two CPUs")
    seen = {}
    for name, environment in (("free", ""), ("bound", "OMP_PROC_BIND=true")):
        (tmp_path / name).mkdir()
        flags = ["--script-arguments=--epochs 2", f"--environment={environment}"]
        found = measure_one(EXAMPLES / "torch_ddp.py", "native", tmp_path / name, *flags, python=TORCH)
        seen[name] = [worker.affinity or [] for worker in found.workers]

    assert 2 == len(seen["free"][0])
    assert seen["free"][0] == seen["free"][1]
    assert 1 == len(seen["bound"][0])
    assert seen["bound"][0] == seen["bound"][1]


@pytest.mark.parametrize("arm", ["baseline", "ray"])
def test_a_run_tells_what_it_used_and_how_far_it_is(arm: str, tmp_path: Path) -> None:
    """CPU time, memory, samples and throttling of each rank, the bytes of its gradients, and its epochs: enough of them
    for a sample, of which there is one a second."""
    flags = ["--script-arguments=--epochs {epochs} --batch 32", "--epochs=24"]
    found = measure_one(EXAMPLES / "torch_ddp.py", arm, tmp_path, *flags, python=TORCH)
    told = [describe(event) for event in read_new(tmp_path / "progress.jsonl", 0)[0] if event["event"] == "steps"]

    assert (1 if arm == "baseline" else 2) == len(found.workers)
    for worker in found.workers:
        assert 0 < (worker.mean_cpus or 0) < 1.3
        assert (worker.peak_memory_bytes or 0) > 50 * 2**20
        assert worker.throttled_seconds is not None
    assert any(worker.samples for worker in found.workers)
    assert 4 * ((3 * 9 + 1) * 16 + (16 * 9 + 1) * 16 + (16 * 28 * 28 + 1) * 2) == found.steps.exchanged_bytes
    assert ["epoch 24/24", "step 64/64", "0 s left"] == told[-1].replace("  ", ", ").split(", ")
