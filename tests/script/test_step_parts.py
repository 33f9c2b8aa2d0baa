"""The parts of a step of PyTorch, for real: planted causes have the time. TRY_PYTHON names an environment."""

from pathlib import Path
from typing import Any

import pytest

from tests.script.tryout import EXAMPLES, NO_TORCH, measure_one
from tests.stacks import TORCH
from training.contract.result import StepParts, TrainingResult

pytestmark = pytest.mark.skipif(not TORCH, reason=NO_TORCH)
SECONDS = 0.05
SLEEP = f"__import__('time').sleep({SECONDS})"
LOOP = "        for images, labels in loader:\n"
STEP = "            optimizer.step()\n"
ROWS = "loader = DataLoader(data, "
COLLATE = f"""def collate(rows: list[object]) -> object:
    {SLEEP}
    return torch.utils.data.default_collate(rows)
"""
ACCUMULATING = """            with contextlib.nullcontext() if number % 4 == 3 else model.no_sync():
                nn.functional.cross_entropy(model(images), labels).backward()
            if number % 4 == 3:
                optimizer.step()
                optimizer.zero_grad()
"""


def planted(folder: Path, *changes: tuple[str, str]) -> Path:
    """`examples/torch_ddp.py` with changes, each of an old text to a new one, and its own clock of each step."""
    text = (EXAMPLES / "torch_ddp.py").read_text(encoding="utf-8")
    for old, new in changes:
        assert 1 == text.count(old), old
        text = text.replace(old, new)
    path = folder / "train.py"
    path.write_text(text, encoding="utf-8")
    return path


def native(path: Path, folder: Path, *flags: str) -> TrainingResult:
    """A run of its native arm."""
    return measure_one(path, "native", folder, "--workers=2", "--script-arguments=--epochs 2", *flags, python=TORCH)


def parts_of(result: TrainingResult) -> StepParts:
    """Its parts, which sum to the step of rank 0's clock."""
    assert result.step_parts is not None
    assert result.steps.seconds is not None
    assert pytest.approx(result.steps.seconds.mean, rel=1e-3) == sum(result.step_parts.seconds.values())
    return result.step_parts


def test_nothing_planted(tmp_path: Path) -> None:
    """Every part of a step that there is has its time, and nobody waits long."""
    parts = parts_of(native(planted(tmp_path), tmp_path))

    assert parts.link is not None
    assert all(parts.seconds[part] > 0 for part in ("input", "compute", "exchange", "optimizer", "between"))
    assert 0 == parts.seconds["collective"] == parts.seconds["save"] == parts.seconds["report"]
    assert 2 == len(parts.exchange) == len(parts.own_work)


def test_each_sleep_is_in_its_part(tmp_path: Path) -> None:
    """And in no other: as many sleeps as there are parts that have one, and the parts sum to the step."""
    changes = {
        "input": (ROWS, f"{ROWS}collate_fn=collate, "),
        "compute": (LOOP, f"{LOOP}            {SLEEP}\n"),
        "between": (STEP, f"{STEP}            {SLEEP}\n"),
    }
    script = planted(tmp_path, *changes.values(), ("def main()", f"{COLLATE}\n\ndef main()"))
    parts = parts_of(native(script, tmp_path))

    assert [] == [part for part in changes if parts.seconds[part] < SECONDS]


def test_a_slow_rank_is_told_from_the_link(tmp_path: Path) -> None:
    """Rank 0 waits for what rank 1 sleeps."""
    script = planted(tmp_path, (LOOP, f"{LOOP}            dist.get_rank() == 1 and {SLEEP}\n"))
    parts = parts_of(native(script, tmp_path))

    waiting = [parts.waiting(rank) or 0.0 for rank in range(2)]
    assert waiting[0] > max(0.03, waiting[1])
    assert min(parts.own_work[1]) > max(0.05, min(parts.own_work[0]))


def test_a_collective_of_the_script_is_one_and_gradients_that_nobody_exchanges_have_no_exchange(tmp_path: Path) -> None:
    """It waits for the other rank in the exchange's stead, which is not 0: nothing is known of it."""
    reduces = (STEP, f"            dist.all_reduce(loss.detach())\n{STEP}")
    result = native(planted(tmp_path, reduces, ("model = DistributedDataParallel(model)", "pass")), tmp_path)

    assert parts_of(result).seconds["collective"] > 0
    assert "exchange" not in parts_of(result).seconds
    assert result.reasons["stepParts.exchange"]


def test_accumulation_exchanges_in_its_last_backward(tmp_path: Path) -> None:
    """`no_sync` exchanges nothing in the others."""
    body = (EXAMPLES / "torch_ddp.py").read_text(encoding="utf-8").partition(LOOP)[2].partition("        print(")[0]
    script = planted(
        tmp_path,
        ("import argparse\n", "import argparse\nimport contextlib\n"),
        (LOOP, "        for number, (images, labels) in enumerate(loader):\n"),
        (body, ACCUMULATING),
        ("loss {loss.item():.4f}", "done"),
    )
    parts = parts_of(native(script, tmp_path))

    assert parts.seconds["exchange"] > 0
    assert parts.seconds["compute"] > parts.seconds["exchange"]


def test_one_process_has_no_exchange(tmp_path: Path) -> None:
    """It has the other parts."""
    result: Any = measure_one(planted(tmp_path), "baseline", tmp_path, "--script-arguments=--epochs 2", python=TORCH)

    assert {"input", "compute", "optimizer", "between"} <= parts_of(result).seconds.keys()
    assert "exchange" not in result.step_parts.seconds
    assert result.reasons["stepParts.exchange"]
