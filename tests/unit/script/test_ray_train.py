"""What is changed of Ray Train, against stand-ins of its classes; the real one: tests/script and tests/cluster."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from training.workloads.script.observe import in_pod, ray_train, state


@pytest.mark.parametrize(
    ("in_pods", "file_system", "made"), [(True, "local", True), (False, "local", False), (True, "s3", False)]
)
def test_each_pod_keeps_its_checkpoints(
    monkeypatch: pytest.MonkeyPatch, in_pods: bool, file_system: str, made: bool
) -> None:
    """Ray looks for a file that its head made, and pods share no folder: the looking stays where they share one."""
    done: list[str] = []

    class Storage:
        storage_filesystem = SimpleNamespace(type_name=file_system)

        def _create_validation_file(self) -> None:
            done.append("made")

        def _check_validation_file(self) -> None:
            done.append("looked")

    if in_pods:
        monkeypatch.setenv(in_pod.STORE, "a/b")
    ray_train.keep_checkpoints_apart(SimpleNamespace(StorageContext=Storage))
    Storage()._check_validation_file()

    assert (["made"] if made else []) + ["looked"] == done


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
