"""Optuna's processes in pods: how one tells the first that it has ended."""

from typing import Any

import pytest
from grpc import RpcError  # type: ignore[import-untyped]

from training.workloads.search import with_optuna


class Study:
    """A study in another pod, which does not get the first words."""

    def __init__(self, lost: int) -> None:
        self.user_attrs: dict[str, Any] = {}
        self._lost = lost

    def set_user_attr(self, key: str, value: object) -> None:
        """Set it, or lose it on its way."""
        if self._lost:
            self._lost -= 1
            raise RpcError
        self.user_attrs[key] = value


@pytest.mark.parametrize(("lost", "heard"), [(0, True), (3, True), (with_optuna.TRIES, False)])
def test_a_pod_tells_the_first_of_its_end_until_that_is_heard(
    lost: int, heard: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first pod waits for it; if that has ended, nobody hears it, and this one ends as well."""
    monkeypatch.setattr(with_optuna, "TRY_SECONDS", 0.0)
    study: Any = Study(lost)

    with_optuna.tell_first(study, 1)

    assert heard == bool(study.user_attrs)
