"""What is changed of Ray Train, against stand-ins of its classes; the real one: tests/script and tests/cluster."""

from types import SimpleNamespace

import pytest

from training.workloads.script.observe import in_pod, ray_train


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
