"""What every entry point does around its arm."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.results import make_result
from training.contract.provenance import PROJECT
from training.contract.result import NAME
from training.launch import entry
from training.machine import isolation


def test_a_result_that_the_disk_does_not_hold_is_one_message(tmp_path: Path) -> None:
    """With where to make room; nothing half written stays. The limit of a file's size stands for a full disk."""
    path = tmp_path / "run" / NAME
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(SystemExit, match=r"^error: .*File too large.* .*/run\b"):  # not prose: a pattern
            entry.run(make_result, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert [] == list(path.parent.iterdir())


def test_a_run_that_keeps_something_over_a_network_has_none_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """And says so, as where the system refuses one; a folder is reached without."""
    entered: list[str] = []
    monkeypatch.setattr(isolation, "enter", lambda: entered.append("once"))

    said = entry._enter_own_network("s3://bucket/prefix")

    assert said is not None
    assert "s3://bucket/prefix" in said
    assert [] == entered
    assert entry._enter_own_network("/mnt/kept") is None
    assert ["once"] == entered


IN_WORKER = """
import sys, types
from training.contract.progress import Progress
from training.launch import entry

body = types.ModuleType("body")
body.train = lambda recipe, process: Progress(process.folder if process.rank == 0 else None).write("start")
entry.import_module = lambda name: body
result, *workers = sys.argv[1:]
for worker in workers:
    address, _, rank = worker.partition(" ")
    asked = entry.parse("ray", None, ["--result", result, "--no-bind-cpus", "--address", address])
    entry.take_part(asked, "ray", int(rank), 2)
    print(len(open(sys.argv[1].rpartition("/")[0] + "/progress.jsonl").readlines()))
"""
"""What workers of Ray do when they are called, each with an address and a rank, with a workload that says only that it
began; and how many lines of progress there are then."""


@pytest.mark.parametrize(
    ("folder", "workers", "lines"),
    [
        pytest.param(
            "job/results", ["auto 0"], [1],
            id="on another node than the driver, which makes a folder where it is itself, a worker makes its own",
        ),
        pytest.param(
            ".", [" 0", " 0", "auto 1", "auto 0"], [1, 2, 2, 1],
            id="a pod of Ray outlives a run; where Ray was started for the run, what was said before it trained stays",
        ),
    ],
)  # fmt: skip
def test_progress_of_an_earlier_run_is_not_this_one_s(
    folder: str, workers: list[str], lines: list[int], tmp_path: Path
) -> None:
    """In a process of its own, as it changes its environment."""
    command = [sys.executable, "-c", IN_WORKER, str(tmp_path / folder / NAME), *workers]

    assert lines == [int(line) for line in subprocess.check_output(command, cwd=PROJECT).split()]
