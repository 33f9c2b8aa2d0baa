"""Scripts that train in one process, tried for real, and a start of Ray."""

import re
from pathlib import Path

import pytest

from tests.script.tryout import NO_TORCH, measure_one, try_script
from tests.stacks import TORCH
from training.workloads.script import ray_start
from training.workloads.script.recognise import WORDS

NUMPY = """
import numpy as np
rows = np.random.default_rng(0).normal(size=(4000, 20))
weights = np.zeros(20)
for _ in range(100):
    weights -= 0.1 * rows.T @ (rows @ weights - rows.sum(1)) / len(rows)
"""
OWN_LOOP = """
import numpy as np
import tensorflow as tf
from tf_keras import Sequential, layers, optimizers
rows = np.random.default_rng(0).normal(size=(1024, 16)).astype("float32")
model, optimizer = Sequential([layers.Dense(1)]), optimizers.SGD()
for batch in np.split(rows, 32):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(batch)[:, 0] - batch.sum(1)) ** 2)
    weights = model.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
"""
BY_HAND = """
import torch
rows = torch.randn(1024, 16)
model = torch.nn.Linear(16, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    for batch in rows.split(32):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(batch), batch.sum(1, keepdim=True)).backward()
        optimizer.step()
"""
ONE_PAGE = 60
"""Lines."""
SCRIPTS = [
    pytest.param(NUMPY, "tasks", "", id="NumPy"),
    pytest.param(OWN_LOOP, "tensorflow", "", id="TensorFlow", marks=pytest.mark.slow),
    pytest.param(BY_HAND, "torch", TORCH, id="PyTorch", marks=pytest.mark.skipif(not TORCH, reason=NO_TORCH)),
]


@pytest.mark.parametrize(("text", "trainer", "python"), SCRIPTS)
def test_nobody_is_turned_away(text: str, trainer: str, python: str, tmp_path: Path) -> None:
    """Two arms as they are, a start of Ray, the bound by these runs, what to write and what to type; on one page."""
    path = tmp_path / "mine.py"
    path.write_text(text, encoding="utf-8")
    tried = try_script(path, python=python)

    assert 0 == tried.code, tried.text
    assert WORDS["plain"] == tried.kind
    of_ranks = {"native", "ray"}  # where there is a proof, which comes later, it says that there are none
    assert (of_ranks if trainer == "tasks" else set()) == set(tried.absent)
    ran = re.findall(r"^  (\w+): \d+ s$", tried.text, re.MULTILINE)
    assert of_ranks.isdisjoint(ran)
    assert f"ray_alone.py 2 1 {trainer} " in tried.text  # not prose: a command
    assert "" == tried.claim
    assert ray_start.PORTS[trainer] in tried.text
    assert "./rwi up --stack mine" in tried.text
    assert len(tried.text.splitlines()) < ONE_PAGE


@pytest.mark.slow
def test_a_start_is_no_run_of_the_training(tmp_path: Path) -> None:
    """Ray Train's workers have imported TensorFlow, and nothing of the script ran; its imports are the probe."""
    script = tmp_path / "mine.py"
    script.write_text(f"{OWN_LOOP}\nopen('trained', 'w').close()\n", encoding="utf-8")
    found = measure_one(script, "raystart", tmp_path / "run")

    assert not (tmp_path / "trained").exists()
    assert ("raystart", {"trainer": "tensorflow"}) == (found.arm, found.did)
    assert (0, 0, None, None, {}) == (
        found.epochs_completed, found.steps.timed, found.seconds.train, found.weights, found.scores,
    )  # fmt: skip
    assert 0 < found.seconds.probe < found.seconds.wall
