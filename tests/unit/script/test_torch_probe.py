"""The probe of the link: it is made where every rank has come to the same end, and by all of them or by none."""

import random
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.golden import Wording
from training.workloads.script.observe import torch_probe
from training.workloads.script.observe.torch_probe import GO


def agreed(folder: Path, *ranks: tuple[float, int], world: int = 0, exchanged: tuple[int, ...] = ()) -> list[str]:
    """What each rank finds that comes after so many seconds with so many steps, with so many bytes to exchange."""

    def come(rank: int) -> str:
        later, steps = ranks[rank]
        time.sleep(later)
        return torch_probe._agreed(folder, rank, world or len(ranks), steps, exchanged[rank] if exchanged else 2440)

    with ThreadPoolExecutor(len(ranks)) as pool:
        return list(pool.map(come, range(len(ranks))))


def test_ranks_that_end_together_probe(tmp_path: Path) -> None:
    """Each a little later than another."""
    assert [GO] * 3 == agreed(tmp_path, (0.0, 20), (0.1, 20), (0.05, 20))


def test_ranks_that_made_other_steps_do_not(wording: Wording, tmp_path: Path) -> None:
    """Who has made fewer is said."""
    first, second = agreed(tmp_path, (0.0, 20), (0.1, 19))
    assert first == second
    assert {"20", "19"} <= set(re.findall(r"\d+", first))
    wording("comparison", first)


def test_ranks_with_other_gradients_do_not(wording: Wording, tmp_path: Path) -> None:
    """All-reduces of different sizes would end the ranks: one has an optimizer of its own after the training."""
    first, second = agreed(tmp_path, (0.0, 20), (0.1, 20), exchanged=(2444, 2440))
    assert first == second
    assert GO != first
    wording("comparison", first)


def test_nobody_waits_for_a_rank_that_does_not_come(
    wording: Wording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one that comes late does as the others: at once."""
    monkeypatch.setattr(torch_probe, "WAIT_SECONDS", 0.3)
    first = agreed(tmp_path, (0.0, 20), (0.1, 20), world=3)
    monkeypatch.setattr(torch_probe, "POLL_SECONDS", "it would wait")
    late = torch_probe._agreed(tmp_path, 2, 3, 20, 2440)

    (why,) = {*first, late}
    assert "rank 2" in why
    wording("comparison", why)


def test_all_probe_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever the last one comes, just before the others give up or just after."""
    monkeypatch.setattr(torch_probe, "WAIT_SECONDS", 0.05)
    monkeypatch.setattr(torch_probe, "POLL_SECONDS", 0.001)
    draw = random.Random(1)  # noqa: S311 (no secret)
    for number in range(40):
        folder = tmp_path / str(number)
        folder.mkdir()
        found = agreed(folder, (0.0, 20), (draw.uniform(0.01, 0.09), 20))
        assert 1 == len(set(found)), found


@pytest.mark.parametrize(
    ("group", "exchanged", "said"),
    [
        (None, 8, "no process group"),
        ({"initialized": False}, 8, "no process group"),
        ({"world": 1}, 8, "one rank exchanges nothing"),
        ({"backend": "cuda:nccl"}, 8, "the process group is of cuda:nccl, and gloo's alone are probed"),
        ({}, None, "the weights are sharded"),
        ({}, 8, ""),
    ],
)
def test_what_can_not_be_probed_says_why(group: dict[str, Any] | None, exchanged: int | None, said: str) -> None:
    """Groups of other backends, and sizes that nobody knows."""
    known = {"initialized": True, "world": 2, "backend": "cpu:gloo,cuda:gloo"} | (group or {})
    distributed = SimpleNamespace(
        is_available=lambda: True,
        distributed_c10d=SimpleNamespace(is_initialized=lambda: known["initialized"]),
        get_world_size=lambda: known["world"],
        get_backend_config=lambda: known["backend"],
    )
    found = torch_probe._refusal(distributed if group is not None else None, exchanged)

    assert said in found
    assert bool(said) == bool(found)


def test_a_script_that_failed_is_not_probed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other ranks wait for it in vain anyway."""
    monkeypatch.setattr(sys, "last_type", KeyError, raising=False)

    assert "the script failed" == torch_probe._refusal(None, 8)
