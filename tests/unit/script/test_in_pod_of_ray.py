"""What workers of a cluster hand to their driver is not left in the cluster's store. With a real Ray: tests/script."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from training.workloads.script.observe import in_pod, ray_train, state


class Store(ModuleType):
    """A store with an observation of one worker in it."""

    def __init__(self) -> None:
        super().__init__("internal_kv")
        self.kept = {b"run/node-0-7.json": b"{}"}
        self._internal_kv_list = lambda prefix: [key for key in self.kept if key.startswith(prefix.encode())]
        self._internal_kv_get = self.kept.get
        self._internal_kv_del = self.kept.pop


def test_a_fit_that_fails_leaves_nothing_in_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its error reaches the script as it is."""

    class DataParallelTrainer:
        running_in_local_mode = False

        def fit(self) -> None:
            raise ZeroDivisionError

    module, store = ModuleType("trainer"), Store()
    module.DataParallelTrainer = DataParallelTrainer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ray.experimental.internal_kv", store)
    monkeypatch.setenv(in_pod.STORE, "run")
    monkeypatch.setenv(state.FOLDER, str(tmp_path))
    ray_train.end_driver_with_workers(module)

    with pytest.raises(ZeroDivisionError):
        DataParallelTrainer().fit()
    assert {} == store.kept
