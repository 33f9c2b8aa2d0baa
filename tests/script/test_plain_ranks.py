"""A script that trains in one process, tried and measured as ranks for real, unchanged; of each framework."""

import re
from pathlib import Path

import pytest

from tests.script.test_plain_trees import SKETCH
from tests.script.tryout import NO_KERAS, NO_TORCH, NO_TREES, PROJECT, measure_one, try_script
from tests.stacks import KERAS_TORCH, TORCH, TREES
from training.contract.result import NOT_MEASURED, PROOF
from training.workloads.script import plain

OF_TORCH, OF_TREES = (
    pytest.mark.skipif(not python, reason=why) for python, why in ((TORCH, NO_TORCH), (TREES, NO_TREES))
)
SCRIPT = """
import torch
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
rows = torch.randn(1000, 16)
data = TensorDataset(rows, rows.sum(1, keepdim=True))
model = torch.nn.Sequential(torch.nn.Linear(16, 8), LAYER, torch.nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(2):
    for batch, labels in DataLoader(data, batch_size=64, shuffle=True):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(batch), labels).backward()
        optimizer.step()
"""
LINE = 1 + SCRIPT[: SCRIPT.index(".backward()")].count("\n")


def script_in(folder: Path, layer: str) -> Path:
    """One whose second layer is this, as nobody has proved it."""
    path = folder / "mine.py"
    path.write_text(f"{SCRIPT.replace('LAYER', layer)}# {folder}\n", encoding="utf-8")
    return path


@OF_TORCH
@pytest.mark.parametrize(("layer", "steps"), [("torch.nn.Tanh()", "8"), ("torch.nn.BatchNorm1d(8)", "20")])
def test_a_plain_script_is_tried_in_every_arm(layer: str, steps: str, tmp_path: Path) -> None:
    """Ranks that do the work of one process reach A, also where they do but for what any port does otherwise, which is
    named with its line. An epoch has 16 steps: where a try ends sooner, its rows are those that are announced. A
    measurement of the same takes over what was proved, with the port."""
    script = script_in(tmp_path, layer)
    tried = try_script(script, python=TORCH, steps=steps)

    assert 0 == tried.code, tried.text
    assert {} == tried.absent
    assert ("2", "64 (counted)", "1000") == tuple(
        tried.row("ray")[name] for name in ("ranks", "rows a step", "rows an epoch")
    )
    assert tried.row("native")["weights"] == tried.row("ray")["weights"]
    assert "A" == tried.claim, tried.text
    assert ("BatchNorm" in layer) == (f"{plain.OTHER_WORK['statistics']} (mine.py:{LINE})" in tried.text)
    assert "./rwi up --stack mine" in tried.text
    assert (file := re.search(r"\.state/ports/mine-\w{8}\.diff", tried.text))
    assert all(re.search(rf"^{arm}: .*{plain.SHARES['torch']}$", tried.text, re.MULTILINE) for arm in plain.OF_RANKS)
    if layer == "torch.nn.Tanh()":
        measured = measure_one(script, "native", tmp_path / "native", "--workers=2", python=TORCH).made_ranks
        assert measured is not None
        assert (PROJECT / file[0]).read_text(encoding="utf-8") == measured.port
        assert f"native: {measured.words}\n" in tried.text


@OF_TORCH
def test_a_measurement_proves_before_its_clock(tmp_path: Path) -> None:
    """The first of its runs that needs it proves for all; Ray's start is no arm then. What the script does only after
    the steps of the proof is not proved, wherever its output goes."""
    script, later = script_in(tmp_path, "torch.nn.Tanh()"), tmp_path / "later.py"
    silent = "import os, sys\nsys.stderr = sys.stdout = open(os.devnull, 'w')\noptimizer.zero_grad()\n"
    loss = "torch.nn.functional.l1_loss(model(batch), labels)"
    later.write_text(f"{script.read_text(encoding='utf-8')}{silent}{loss}.backward()\noptimizer.step()\n")
    native = measure_one(script, "native", tmp_path / "native", "--workers=2", python=TORCH)
    start = measure_one(script, "raystart", tmp_path / "start", "--workers=2", python=TORCH)

    assert ("equal", 2) == (native.did[PROOF], native.world_size)
    assert "not proved" in measure_one(later, "native", tmp_path / "later", "--workers=2", python=TORCH).did[PROOF]
    assert NOT_MEASURED not in native.reasons
    assert native.step_parts is not None
    assert native.step_parts.link is not None
    assert start.reasons[NOT_MEASURED]
    assert 0 == start.seconds.wall
    assert {plain.PLAN, "progress.jsonl", "result.json"} >= {path.name for path in (tmp_path / "start").iterdir()}


KERAS = """
import numpy as np
import tensorflow as tf
tf.keras.utils.set_random_seed(0)
rows = np.random.default_rng(1).normal(size=(617, 8)).astype("float32")
model = tf.keras.Sequential([tf.keras.layers.Dense(8), LAYER, tf.keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(rows, rows.sum(1), batch_size=64, epochs=2, verbose=0, validation_data=(rows[:64], rows[:64].sum(1)))
"""
"""Whose last batch ranks can't share evenly, and comes after the steps of the proof."""


@pytest.mark.slow
@pytest.mark.parametrize("layer", ["ReLU", "BatchNormalization"])
def test_a_script_of_keras_is_tried_in_every_arm(layer: str, tmp_path: Path) -> None:
    """Keras 3 as tf-keras, in one process, too. Its ranks do the work of one process, or do but for what any port does
    otherwise: that is A, which no Keras script reaches that is written for several ranks."""
    path = tmp_path / "mine.py"
    path.write_text(KERAS.replace("LAYER", f"tf.keras.layers.{layer}()"), encoding="utf-8")
    tried = try_script(path)

    assert 0 == tried.code, tried.text
    assert {} == tried.absent
    assert "TF_USE_LEGACY_KERAS=1" in tried.text
    assert 2 == len([line for line in tried.text.splitlines() if re.match("  baseline: [0-9]+ s", line)])
    assert ["1", "1", "2", "2"] == [tried.row(arm)["ranks"] for arm in ("baseline", "wide", "native", "ray")]
    assert tried.row("native")["weights"] == tried.row("ray")["weights"]
    assert (layer == "BatchNormalization") == (plain.OTHER_WORK["statistics"] in tried.text)
    assert "A" == tried.claim, tried.text


@pytest.mark.slow
@pytest.mark.skipif(not KERAS_TORCH, reason=NO_KERAS)
def test_a_script_of_keras_on_pytorch_is_tried_in_every_arm(tmp_path: Path) -> None:
    """By the user's own variable. Ranks end after the same step, and rows are counted by the loaders that Keras makes:
    that is A. Validation rows are none of those of an epoch."""
    path = tmp_path / "mine.py"
    text = KERAS.replace("import tensorflow as tf", "import keras").replace("tf.keras", "keras")
    path.write_text(text.replace("LAYER", "keras.layers.ReLU()"), encoding="utf-8")
    tried = try_script(path, python=KERAS_TORCH, env="KERAS_BACKEND=torch")

    assert 0 == tried.code, tried.text
    assert {} == tried.absent
    assert ("2", "64 (counted)", "617") == tuple(
        tried.row("ray")[name] for name in ("ranks", "rows a step", "rows an epoch")
    )
    assert tried.row("native")["weights"] == tried.row("ray")["weights"]
    assert "TorchTrainer" in tried.text
    assert "A" == tried.claim, tried.text


BOOSTERS = {
    "xgboost": """
model = xgboost.train({"max_depth": 3}, xgboost.DMatrix(rows[100:], label=labels[100:]), 20, verbose_eval=False,
    evals=[(xgboost.DMatrix(rows[:100], label=labels[:100]), "held")], early_stopping_rounds=15)
""",
    "lightgbm": """
whole = lightgbm.Dataset(rows[100:], label=labels[100:])
held = lightgbm.Dataset(rows[:100], label=labels[:100], reference=whole)
lightgbm.train({"num_threads": -1, "verbose": -1}, whole, 20, valid_sets=[held])
""",
}


@pytest.mark.slow
@OF_TREES
@pytest.mark.parametrize("booster", list(BOOSTERS))
def test_a_script_of_boosted_trees_is_tried_in_every_arm(booster: str, tmp_path: Path) -> None:
    """Bins of continuous features are those of a rank's rows: C, with the metrics of both; a target makes it B. All
    CPUs are those of one worker."""
    path = tmp_path / "mine.py"
    path.write_text(
        f"import numpy as np\nimport {booster}\nrows = np.random.default_rng(1).normal(size=(5000, 4))\n"
        f"labels = rows.sum(1) ** 2\n{BOOSTERS[booster]}",
        encoding="utf-8",
    )
    tried = try_script(path, python=TREES, steps="10")

    assert 0 == tried.code, tried.text
    assert {} == tried.absent
    assert {"4900 (counted)"} == {tried.row(arm)["rows a step"] for arm in ("baseline", "wide", "native", "ray")}
    assert tried.row("native")["weights"] == tried.row("ray")["weights"]
    assert plain.OTHER_TREES[SKETCH] in tried.text
    assert "C" == tried.claim, tried.text
