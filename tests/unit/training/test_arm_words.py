"""Roles and titles of arms: those of most workloads, and those that a workload gives them."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from training.contract import arms, workload
from training.contract.arms import ARMS
from training.contract.workload import Role
from training.workloads.cnn.recipe import CnnRecipe
from training.workloads.script.recipe import ScriptRecipe
from training.workloads.script.workload import WORKLOAD as SCRIPT


def given(monkeypatch: pytest.MonkeyPatch, roles: Mapping[str, Role], titles: Mapping[str, str]) -> None:
    """Give the arms of all workloads these roles and titles."""
    monkeypatch.setattr(arms, "named", lambda name: replace(workload.named(name), roles=roles, titles=titles))


def test_a_workload_gives_an_arm_its_role(monkeypatch: pytest.MonkeyPatch) -> None:
    """And only to the arm that it names."""
    given(monkeypatch, {"native": "alternative"}, {})

    roles = [arm.role("cnn") for arm in ARMS.values()]

    assert roles == ["reference", "alternative", "alternative", "subject", "variant", "variant"]


@pytest.mark.parametrize("name", ["cnn", "script"])
def test_arms_have_their_usual_role(name: str) -> None:
    """Where a workload names none."""
    assert [arm.role(name) for arm in ARMS.values()] == [arm.usual_role for arm in ARMS.values()]


def test_with_gpus_native_is_what_one_would_use_instead() -> None:
    """One process uses one GPU, so there is no bigger one."""
    assert ["reference", "alternative", "alternative", "subject", "variant", "variant"] == [
        arm.role("script", 1) for arm in ARMS.values()
    ]
    words = [ARMS[name].words(ScriptRecipe(worker_gpus=1)) for name in ("baseline", "native")]
    assert all("1 GPU" in text for text in words)
    assert "GPU" not in ARMS["native"].words(ScriptRecipe())


def test_a_workload_gives_an_arm_its_title(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same numbers as the usual one has; other arms keep theirs."""
    recipe = CnnRecipe(workers=3, worker_cpus=2)
    usual = ARMS["wide"].words(recipe)
    given(monkeypatch, {}, {"native": "{trials}, {cpus}, {workers}, {processes}"})

    assert ARMS["native"].words(recipe).split(", ") == ["3 trials", "2 CPUs", "3 workers", "3 processes"]
    assert ARMS["native"].words(CnnRecipe(workers=1)).split(", ") == ["1 trial", "1 CPU", "1 worker", "1 process"]
    assert ARMS["wide"].words(recipe) == usual


def test_a_search_counts_trials_whatever_a_trial_counts() -> None:
    """Its setting `unit` is of the script."""
    recipe = {"unit": "tokens"}

    assert SCRIPT.unit_in(recipe) == "tokens"
    assert SCRIPT.unit_in({}) == "rows"
    assert replace(SCRIPT, searches=True, unit="trials").unit_in(recipe) == "trials"
