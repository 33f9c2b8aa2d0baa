"""A script of PyTorch that trains in one process, tried and measured as ranks for real, unchanged."""

from pathlib import Path

import pytest

from tests.script.tryout import NO_TORCH, measure_one, try_script
from tests.stacks import TORCH
from training.contract.result import NOT_MEASURED, PROOF

pytestmark = pytest.mark.skipif(not TORCH, reason=NO_TORCH)
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


@pytest.mark.parametrize(("layer", "steps"), [("torch.nn.Tanh()", "8"), ("torch.nn.BatchNorm1d(8)", "20")])
def test_a_plain_script_is_tried_in_every_arm(layer: str, steps: str, tmp_path: Path) -> None:
    """Ranks that do the work of one process reach A, also where they do but for what any port does otherwise, which is
    named with its line. An epoch has 16 steps: where a try ends sooner, its rows are those that are announced. No files
    of theirs are left."""
    temporary = tmp_path / "t"
    temporary.mkdir()
    tried = try_script(script_in(tmp_path, layer), PYTHON=TORCH, STEPS=steps, TMPDIR=str(temporary))

    assert 0 == tried.code, tried.text
    assert {} == tried.absent
    assert ("2", "64 (counted)", "1000") == tuple(
        tried.row("ray")[name] for name in ("ranks", "rows a step", "rows an epoch")
    )
    assert tried.row("native")["weights"] == tried.row("ray")["weights"]
    assert "A" == tried.claim, tried.text
    assert ("BatchNorm" in layer) == (
        f"statistics of the batch, which each rank takes of its own rows (mine.py:{LINE})" in tried.text
    )
    assert "STACK=mine make up" in tried.text
    assert ".state/ports/mine.diff" in tried.text
    assert [] == [path.name for path in temporary.iterdir() if path.name.startswith(("ray-train", "spread"))]


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
    assert {"plan.json", "progress.jsonl", "result.json"} >= {path.name for path in (tmp_path / "start").iterdir()}
