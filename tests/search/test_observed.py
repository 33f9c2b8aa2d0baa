"""Trials whose metric is observed: each trains exactly the epochs that were decided on, on one rank and on two."""

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.limits import LONGEST_SECONDS
from tests.script.tryout import EXAMPLES, NO_TORCH, NO_TREES
from tests.search.plans import log_of, plan_of, processes_of
from tests.stacks import TORCH, TREES
from training.workloads.script import observation_files
from training.workloads.script.commands import RANKS
from training.workloads.search import trial
from training.workloads.search.plan import PORT, Plan

STEPS = 32
"""Of an epoch of the examples."""
AT_LAST = """
import runpy, sys
sys.argv = sys.argv[1:]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    print("at last")
"""
"""Runs another script, and has a `finally`."""
KERAS_3 = """
import os
os.environ["KERAS_BACKEND"] = "tensorflow"
import keras, numpy
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
data = numpy.ones((64, 4), "float32"), numpy.ones((64, 1), "float32")
begins = keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: print("begins"))
try:
    model.fit(*data, batch_size=8, epochs=9, verbose=0, validation_data=data, callbacks=[begins])
finally:
    print("at last")
"""

XGBOOST = """
import numpy, xgboost
rows = numpy.random.default_rng(0).normal(size=(200, 4))
data = xgboost.DMatrix(rows, rows.sum(1))
model = xgboost.train({"nthread": 1}, data, 9, evals=[(data, "train")], verbose_eval=False)
print("rounds", model.num_boosted_rounds())
"""


@pytest.fixture(autouse=True)
def _no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a trial that is told to stop end by itself, however long its launcher takes for that."""
    monkeypatch.setattr(trial, "GRACE_SECONDS", LONGEST_SECONDS)


def at_last(folder: Path, *command: str, **more: Any) -> Plan:
    """The plan of a search over a command with a `finally` around it."""
    (folder / "at_last.py").write_text(AT_LAST, encoding="utf-8")
    return plan_of(folder, [sys.executable, "at_last.py", *command], **more)


def until(last: int) -> Any:
    """Stop after that report."""
    return lambda number, _: number < last


def test_a_keras_script_is_stopped_after_its_fourth_epoch(tmp_path: Path) -> None:
    """Of nine: exactly its steps, its `finally` runs, it ends well; and its wait is in no clock of its steps."""
    plan = at_last(tmp_path, str(EXAMPLES / "keras_tf_config.py"), "--epochs", "9")
    record = trial.run_trial(plan, 0, {"lr": 0.1}, until(4))
    (seen,) = observation_files.read(plan.trial_folder(0))

    assert ("stopped", 0, "") == (record.state, record.exit_code, record.why)
    assert (4, 4 * STEPS, 4) == (record.epochs, record.steps, len(record.points))
    assert "at last" in log_of(plan)
    assert seen.ended_early
    assert record.points[-1][1] == record.metric == seen.metrics["loss"]
    assert 0 < record.waited_seconds <= seen.own_seconds
    assert record.weights
    assert not processes_of(plan)


@pytest.mark.slow
def test_a_trial_that_goes_on_learns_what_it_does_without_a_search(tmp_path: Path) -> None:
    """The questions change no number."""
    script = str(EXAMPLES / "keras_tf_config.py")
    asked, alone = (
        trial.run_trial(plan_of(tmp_path, [sys.executable, script, "--epochs", "3"], epochs=3), number, {}, decide)
        for number, decide in enumerate([until(9), None])
    )

    assert ["finished"] * 2 == [asked.state, alone.state]
    assert asked.weights == alone.weights
    assert [value for _, value in asked.points] == [value for _, value in alone.points]
    assert (3, 3) == (asked.epochs, alone.epochs)
    assert 0.0 == alone.waited_seconds < asked.waited_seconds


def test_two_ranks_get_one_answer(tmp_path: Path) -> None:
    """Both ask, one report is decided on, and both end after the same step with the same weights."""
    script, decided = str(EXAMPLES / "keras_tf_config.py"), list[int]()
    plan = plan_of(tmp_path, [sys.executable, str(RANKS / "processes.py"), "2", "tf-config", script, "--epochs", "9"])

    def decide(number: int, _: float) -> bool:
        decided.append(number)
        return number < 2

    record = trial.run_trial(plan, 0, {"lr": 0.1}, decide)
    seen = observation_files.read(plan.trial_folder(0))

    assert [1, 2] == decided
    assert ("stopped", 0) == (record.state, record.exit_code)
    assert [(0, 2 * STEPS), (1, 2 * STEPS)] == [(rank.rank, len(rank.step_ends)) for rank in seen]
    assert seen[0].weights == seen[1].weights == record.weights
    assert all(rank.waited_seconds > 0 and rank.ended_early for rank in seen)


def test_keras_3_is_stopped_too(tmp_path: Path) -> None:
    """By a metric of the validation; the next epoch does not begin."""
    (tmp_path / "train.py").write_text(KERAS_3, encoding="utf-8")
    plan = plan_of(tmp_path, [sys.executable, "train.py"], metric="val_loss")
    record = trial.run_trial(plan, 0, {"lr": 0.1}, until(3))

    assert ("stopped", 0, "") == (record.state, record.exit_code, record.why)
    assert (3, 24) == (record.epochs, record.steps)
    assert ["begins"] * 3 + ["at last"] == [line for line in log_of(plan).splitlines() if line in ("begins", "at last")]


@pytest.mark.parametrize(
    "end",
    [
        "finally:\n    os._exit(3)",
        pytest.param("except SystemExit:\n    raise ValueError('stopped')", marks=pytest.mark.slow),
        pytest.param("finally:\n    import atexit\n    atexit.register(os._exit, 4)", marks=pytest.mark.slow),
    ],
    ids=["finally", "except", "atexit"],
)
def test_a_trial_that_was_stopped_may_end_as_it_likes(tmp_path: Path, end: str) -> None:
    """It was stopped all the same."""
    (tmp_path / "train.py").write_text(KERAS_3.replace('finally:\n    print("at last")', end), encoding="utf-8")
    plan = plan_of(tmp_path, [sys.executable, "train.py"])
    record = trial.run_trial(plan, 0, {"lr": 0.1}, until(1))

    assert ("stopped", 1, "") == (record.state, record.epochs, record.why)
    assert record.exit_code in (1, 3, 4)


@pytest.mark.skipif(not TORCH, reason=NO_TORCH)
@pytest.mark.parametrize(
    "launcher", [(), ("-m", "torch.distributed.run", "--nproc-per-node", "1")], ids=["", "torchrun"]
)
def test_ray_train_s_local_mode_is_stopped_at_its_report(tmp_path: Path, launcher: tuple[str, ...]) -> None:
    """Also where torchrun has started it, which gives it a session of its own."""
    port = ("--master-addr", "127.0.0.1", "--master-port", PORT) if launcher else ()
    script = (str(EXAMPLES / "torch_ray.py"), "--num-workers", "0", "--epochs", "9", "--storage", "{storage}")
    plan = plan_of(tmp_path, [TORCH, *launcher, *port, *script], metric="accuracy")
    record = trial.run_trial(plan, 0, {"lr": 0.1}, until(2))

    assert ("stopped", 0, "") == (record.state, record.exit_code, record.why)
    assert (2, 2 * STEPS, 2) == (record.epochs, record.steps, len(record.points))
    assert record.weights
    assert {"log.txt", "trial.json"} == {
        path.name for path in plan.trial_folder(0).iterdir() if not path.name.startswith("rank-")
    }


@pytest.mark.skipif(not TREES, reason=NO_TREES)
def test_a_booster_has_the_rounds_that_were_decided_on(tmp_path: Path) -> None:
    """Its `train` returns then, as where it stops early, and the script goes on."""
    (tmp_path / "train.py").write_text(XGBOOST, encoding="utf-8")
    plan = plan_of(tmp_path, [TREES, "train.py"], metric="train-rmse")
    record = trial.run_trial(plan, 0, {"lr": 0.1}, until(3))

    assert ("stopped", 0, "") == (record.state, record.exit_code, record.why)
    assert (3, 3, 3) == (record.epochs, record.steps, len(record.points))
    assert "rounds 3" in log_of(plan)


def test_a_trial_without_the_metric_says_which_it_has(tmp_path: Path) -> None:
    """So that the setting can be put right."""
    (tmp_path / "train.py").write_text(KERAS_3.replace("epochs=9", "epochs=1"), encoding="utf-8")
    record = trial.run_trial(plan_of(tmp_path, [sys.executable, "train.py"], metric="accuracy"), 0, {"lr": 0.1})

    assert "failed" == record.state
    assert record.why.endswith("loss, val_loss")


def test_who_asks_twice_is_asked_about_once(tmp_path: Path) -> None:
    """A callback passes Keras' logs on to `ray.train.report`, as Ray's own does: an epoch has one report, and its
    end is seen."""
    callback = (
        "import ray.train\n"
        "class Reports(keras.callbacks.Callback):\n"
        "    def on_epoch_end(self, epoch, logs=None): ray.train.report(dict(logs))\n"
    )
    text = KERAS_3.replace("model = ", callback + "model = ").replace("[begins]", "[Reports()]")
    function = "".join(f"    {line}\n" for line in text.strip().splitlines())
    alone = "scaling_config=ray.train.ScalingConfig(num_workers=0)"
    (tmp_path / "train.py").write_text(
        "import ray.train\nfrom ray.train.tensorflow import TensorflowTrainer\n"
        f"def train():\n{function}TensorflowTrainer(train, {alone}).fit()\n"
    )
    plan = plan_of(tmp_path, [sys.executable, "train.py"])
    record = trial.run_trial(plan, 0, {"lr": 0.1}, until(2))
    (seen,) = observation_files.read(plan.trial_folder(0))

    assert ("stopped", 0, "") == (record.state, record.exit_code, record.why)
    assert (2, 16, 2, 2) == (record.epochs, record.steps, len(record.points), seen.reports)
