"""What every entry point does around its arm."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.results import make_result
from training.contract.progress import NAME as PROGRESS
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
address, rank, result = sys.argv[1:]
asked = entry.parse("ray", None, ["--result", result, "--no-bind-cpus", "--address", address])
entry.take_part(asked, "ray", int(rank), 2)
"""
"""What a worker of Ray does when it is called, with a workload that says only that it began."""


def taking_part(address: str, rank: int, folder: Path) -> None:
    """A process of its own: it changes its environment."""
    command = [sys.executable, "-c", IN_WORKER, address, str(rank), str(folder / NAME)]
    subprocess.run(command, cwd=PROJECT, check=True)


def test_a_worker_on_another_node_than_the_driver_has_a_folder(tmp_path: Path) -> None:
    """For its progress and its model: the driver makes one where it is itself."""
    taking_part("auto", 0, tmp_path / "job/results")

    assert (tmp_path / "job/results" / PROGRESS).exists()


def test_progress_of_an_earlier_run_is_not_this_one_s(tmp_path: Path) -> None:
    """A pod of Ray outlives a run; but where Ray was started for the run, what was said before it trained stays."""
    for said in (1, 2):
        taking_part("", 0, tmp_path)
        assert said == len((tmp_path / PROGRESS).read_text().splitlines())
    taking_part("auto", 1, tmp_path)
    assert 2 == len((tmp_path / PROGRESS).read_text().splitlines())
    taking_part("auto", 0, tmp_path)
    assert 1 == len((tmp_path / PROGRESS).read_text().splitlines())
