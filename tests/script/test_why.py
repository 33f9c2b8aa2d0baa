"""Conditions in real trainings: all ranks change together, epochs keep their length, and the run ends by itself."""

import json
import re
import shlex
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cli.tryout import prove
from cli.tryout.run_arm import Changed, Outcome, run
from cli.why import blocks
from cli.why.follow import Follower
from tests.limits import LONGEST_SECONDS
from tests.script.tryout import NO_TORCH
from tests.slow import slow_but
from tests.stacks import TORCH
from tests.typed import tried
from training.workloads.script import commands
from training.workloads.script.observe import experiment
from training.workloads.script.recognise import recognise

pytestmark = pytest.mark.skipif(not TORCH, reason=NO_TORCH)
SCRIPT = Path(__file__).with_name("why_train.py")
PLAIN = """
import sys
import torch
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
rows = torch.randn(512, 32)
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for epoch in range(int(sys.argv[1])):
    for batch, labels in DataLoader(TensorDataset(rows, rows.sum(1, keepdim=True)), batch_size=32, shuffle=True):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(batch), labels).backward()
        optimizer.step()
"""
BATCHES = 16
"""Of an epoch of a rank of two."""
WAYS = (
    "plain", "dictionary", "in-place", "no_sync", "flag", "unused", "static", "norm", "workers", "persistent",
    "leaves-out", "compiled", "objects", "two-loaders", "endless", "validates", "another-model",
)  # fmt: skip
"""In which the script trains."""
QUICK = ("plain", "no_sync", "workers", "compiled", "endless")
"""Those that are no slow tests."""
ABSENT = {"compiled": "no exchange", "endless": "input ready"}
"""Conditions that can't be tried in them."""


def run_tried(arguments: str, folder: Path, *, arm: str = "native", script: Path = SCRIPT) -> Outcome:
    """A run in which conditions are tried for some seconds; of a plain script after its proof."""
    asked = replace(
        tried(str(script), "--python", TORCH, "--limit", str(LONGEST_SECONDS), "--", *shlex.split(arguments)), steps=0
    )
    known = recognise(script, asked.arguments)
    made, proves = prove.arms(known, asked, folder, commands.IN_ITS_ENVIRONMENT, epochs=1000)
    if proves:
        assert prove.known(known, proves, asked, folder).works
    command = next(each for each in made if each.arm == arm)
    with Follower(folder / arm, 3, print) as follower:
        changed = Changed(variables={experiment.WHY: "1"}, is_over=follower.is_to_be_ended)
        return run(command, asked, folder, script.parent, changed)


def blocks_of(folder: Path, rank: int) -> list[tuple[Any, ...]]:
    """The blocks of a rank, without their times."""
    text = (folder / f"why-{rank}.jsonl").read_text(encoding="utf-8")
    return [(line["round"], line["condition"], line["turns"]) for line in map(json.loads, text.splitlines())]


@pytest.mark.parametrize("way", slow_but(QUICK, WAYS))
def test_ranks_change_together_and_epochs_keep_their_length(way: str, tmp_path: Path) -> None:
    """However a script exchanges its gradients and reads its rows."""
    outcome = run_tried(f"--as {way}", tmp_path)
    assert 0 == outcome.code, outcome.printed[-3000:]

    tried = blocks.tried(tmp_path / "native")
    assert tried is not None
    assert {"as is", "input ready", "no exchange"} - {ABSENT.get(way)} == set(tried.conditions)
    assert len(tried.rounds) >= 2
    assert blocks_of(tmp_path / "native", 0) == blocks_of(tmp_path / "native", 1)
    epochs = Counter(re.findall(r"rank \d+ epoch \d+: (\d+)", outcome.printed))
    assert {str(BATCHES)} == epochs.keys(), epochs


def test_a_batch_that_is_given_again_begins_to_compute_as_any_other(tmp_path: Path) -> None:
    """Else what a script does with a batch would look like the end of an epoch, and its longest steps be left out in
    one condition alone."""
    run_tried("--as prepares", tmp_path)
    text = (tmp_path / "native" / "why-0.jsonl").read_text(encoding="utf-8")
    given = [line["microseconds"] for line in map(json.loads, text.splitlines()) if line["again"]]

    assert given
    assert sum(sum(each["between"]) for each in given) < sum(sum(each["compute"]) for each in given) / 4


def test_nothing_is_changed_where_ranks_make_different_numbers_of_steps(tmp_path: Path) -> None:
    """With join() they would change at different times, and wait for each other for ever."""
    run_tried("--as join", tmp_path)
    tried = blocks.tried(tmp_path / "native")

    assert tried is not None
    assert ["as is"] == tried.conditions
    assert {"input ready", "no exchange", "threads 1"} == tried.absent.keys()
    assert tried.rounds


def test_a_model_that_trains_while_what_wraps_it_does_not_is_seen(tmp_path: Path) -> None:
    """Its exchange is clocked, and taken away: Lightning calls train() of its module alone."""
    run_tried("--as wrapped", tmp_path)
    tried = blocks.tried(tmp_path / "native")

    assert tried is not None
    assert "no exchange" in tried.conditions
    assert tried.rounds[0].parts is not None
    assert tried.rounds[0].parts.link is not None


@pytest.mark.parametrize("arm", ["native", "ray"])
def test_ranks_of_a_plain_script_change_together(arm: str, tmp_path: Path) -> None:
    """Their exchange is clocked and taken away as that of DistributedDataParallel, which none of them has."""
    script = tmp_path / "plain.py"
    script.write_text(PLAIN, encoding="utf-8")
    outcome = run_tried("{epochs}", tmp_path, arm=arm, script=script)
    assert 0 == outcome.code, outcome.printed[-3000:]

    tried = blocks.tried(tmp_path / arm)
    assert tried is not None
    assert {"as is", "input ready", "no exchange"} == set(tried.conditions)
    assert len(tried.rounds) >= 2
    assert blocks_of(tmp_path / arm, 0) == blocks_of(tmp_path / arm, 1)
    parts = [each.parts for each in tried.rounds]
    assert all(each is not None and each.link for each in parts)
