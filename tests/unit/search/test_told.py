"""A line of progress names a trial as its folder does."""

import json
from dataclasses import replace
from pathlib import Path

from tests.unit.search.made import ALONE, ended
from training.workloads.search import told


def test_a_trial_has_the_number_of_its_folder(tmp_path: Path) -> None:
    """From 0, as in the page and in what is said of one that differs."""
    told.tell(replace(ended("baseline", ALONE).plan, folder=str(tmp_path)), ALONE[2])

    (line,) = (tmp_path / "progress.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["trial"] == 2
