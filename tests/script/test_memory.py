"""What the observer keeps in memory: nothing that the script has freed. TRY_PYTHON names an environment."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.script.tryout import NO_TORCH
from tests.stacks import TORCH
from training.workloads.script.environment import SITE

pytestmark = pytest.mark.skipif(not TORCH, reason=NO_TORCH)
FOLDS = """
import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

rows, labels = torch.randn(64, 1024), torch.randint(0, 2, (64,))
for fold in range(20):
    model = nn.Sequential(nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 2))
    optimizer = torch.optim.Adam(model.parameters())
    data = Subset(TensorDataset(rows.clone(), labels), [row for row in range(64) if row % 20 != fold])
    for x, y in DataLoader(data, 32):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
"""
"""Each with 8 MiB of weights, as much of gradients, and twice as much that Adam keeps."""
FOLD_MIB = 4 * 8
IN_A_FUNCTION = """
import gc, sys, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

def train():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(64, 16), torch.randint(0, 2, (64,)))
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    for epoch in range(3):
        for x, y in DataLoader(data, 8):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        schedule.step()
    return {"nothing": None, "model": model, "both": (model, optimizer)}[sys.argv[1]]

kept = train()
gc.collect()
"""


def trained(folder: Path, text: str, *arguments: str, observed: bool = True) -> tuple[float, list[Path]]:
    """The peak of a script's memory in MiB, and what the observer wrote."""
    out = folder / "out"
    out.mkdir(parents=True)
    (folder / "train.py").write_text(text, encoding="utf-8")
    environment = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1"}
    if observed:
        environment |= {"PYTHONPATH": str(SITE), "TRAINING_OBSERVE": str(out)}
    running = subprocess.Popen([TORCH, "train.py", *arguments], cwd=folder, env=environment)
    _, code, usage = os.wait4(running.pid, 0)
    running.returncode = os.waitstatus_to_exitcode(code)
    assert 0 == running.returncode
    return usage.ru_maxrss / 1024, sorted(out.glob("rank-*.json"))


def test_folds_take_no_more_memory_with_the_observer(tmp_path: Path) -> None:
    """Models, gradients, what optimizers keep, and data: of 20 folds at most one is there longer than without it."""
    without, _ = trained(tmp_path / "without", FOLDS, observed=False)
    peak, written = trained(tmp_path / "with", FOLDS)

    assert peak < without + 2 * FOLD_MIB
    assert 40 == len(json.loads(written[0].read_text())["stepEnds"])


def test_weights_of_a_training_in_a_function_are_known_at_its_end(tmp_path: Path) -> None:
    """They are those that a script has which keeps its model, though nothing is there any more."""
    kept = [trained(tmp_path / what, IN_A_FUNCTION, what)[1][0] for what in ("both", "model", "nothing")]
    told = [json.loads(path.read_text()) for path in kept]

    assert 1 == len({(each["weights"], each["gradientBytes"]) for each in told})
    assert told[0]["weights"]
    assert [[]] * 3 == [each["notes"] for each in told]
