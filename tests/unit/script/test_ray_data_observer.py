"""What the observer sees of Ray Data, in a process of its own: rows, passes, waits, by a stand-in for its iterator."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.script.test_observe import run, with_torch, written

RAY_DATA = {
    "ray/__init__.py": "",
    "ray/data/__init__.py": "",
    "ray/data/iterator.py": (
        "import time\n"
        "class Batches:\n"
        "    def __init__(self, make): self.make = make\n"
        "    def __iter__(self): return self.make()\n"
        "class DataIterator:\n"
        "    def __init__(self, sizes, name='train'): self.sizes, self.name, self.closed = sizes, name, 0\n"
        "    def _get_dataset_tag(self): return {'dataset': self.name, 'split_index': None}\n"
        "    def iter_torch_batches(self): return self._iter_batches()\n"
        "    def _iter_batches(self, **more):\n"
        "        def batches():\n"
        "            try:\n"
        "                for rows in self.sizes:\n"
        "                    time.sleep(0.02)\n"
        "                    yield {'x': Rows(rows)}\n"
        "            finally:\n"
        "                self.closed += 1\n"
        "        return Batches(batches)\n"
        "class Rows:\n"
        "    def __init__(self, rows): self.shape = (rows, 3)\n"
    ),
}
"""What the observer asks of Ray Data, and no more."""
CLOCK = "import time\nnow = [0.0]\ntime.monotonic = lambda: now[0]\n"
SLEEP = "time.sleep = lambda seconds: now.__setitem__(0, now[0] + seconds)\n"
"""A clock that goes on while one sleeps, and then alone."""
BEGINS = "import torch\ntorch.is_grad_enabled = lambda: True\nfrom ray.data.iterator import DataIterator\n"
STEP = "torch.optim.optimizer.Optimizer.step(optimizer)"
TRAINS = f"""{CLOCK}{SLEEP}{BEGINS}
optimizer = torch.optim.optimizer.Optimizer()
data = DataIterator([4, 4, 2])
for epoch in range(2):
    for batch in DataIterator([4, 4, 2]).iter_torch_batches():
        time.sleep(100)
        {STEP}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with both stand-ins."""
    return with_torch(tmp_path, RAY_DATA)


def of_ray(observed: dict[str, Any]) -> list[str]:
    """What could not be observed of Ray Data; the stand-in for PyTorch has no modules, which is told, too."""
    return [note for note in observed["notes"] if "Ray" in note]


def seen(folder: Path, script: str) -> dict[str, Any]:
    """What was written of the script."""
    done = run(folder, script)
    assert 0 == done.returncode, done.stderr
    (observed,) = written(folder)
    assert not of_ray(observed)
    return observed


def test_rows_and_passes_are_counted_over_iterators_of_one_data_set(folder: Path) -> None:
    """A worker may be given the data set anew in each epoch; rows have no numbers. The wait for six batches of 20 ms is
    clocked, and what a step waits is input; the first is there before the first step."""
    observed = seen(folder, TRAINS)

    assert [4, 8, 10, 14, 18, 20] == observed["rowsAtStep"]
    assert [[0, True], [3, True]] == observed["passes"]
    assert observed["rowsOfAllSteps"]
    assert observed["markedPasses"] is None
    assert pytest.approx(0.12) == observed["dataWaitSeconds"]
    assert observed["firstBatchAt"] < observed["stepEnds"][0]
    assert all(each >= 15_000 for each in observed["parts"]["microseconds"]["input"][1:])
    assert "" == observed["parts"]["noInput"]


def test_a_loop_that_ends_early_ends_ray_s_reading(folder: Path) -> None:
    """Ray stops reading when its iterator is closed."""
    early = TRAINS.replace("DataIterator([4, 4, 2]).iter_torch_batches()", "data.iter_torch_batches()")
    observed = seen(folder, f"{early.rstrip()}\n        break\nassert data.closed == 2, data.closed\n")

    assert [4, 8] == observed["rowsAtStep"]
    assert [[0, False], [1, False]] == observed["passes"]


def test_what_is_read_to_validate_is_no_row_of_the_training(folder: Path) -> None:
    """Nothing is learned without gradients, and nothing waits for it."""
    validates = (
        "torch.is_grad_enabled = lambda: False\n"
        "for batch in DataIterator([7, 7], 'test').iter_torch_batches():\n    pass\n"
        f"torch.is_grad_enabled = lambda: True\n{STEP}\n"
    )
    observed = seen(folder, TRAINS + validates)

    assert 20 == observed["rowsAtStep"][5]
    assert 1 == observed["validations"]
    assert pytest.approx(0.12) == observed["dataWaitSeconds"]


def test_another_version_of_ray_is_told(folder: Path) -> None:
    """It goes on, unobserved."""
    path = folder / "ray/data/iterator.py"
    path.write_text(path.read_text().replace("_iter_batches", "_other"))
    done = run(folder, TRAINS)

    (observed,) = written(folder)
    assert 0 == done.returncode
    assert (1, None) == (len(of_ray(observed)), observed["dataWaitSeconds"])
