"""A machine and a stack for tests of settings, and what a user does with a message: apply the line that it gives."""

import re
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra import plan
from infra.places.place import choose, settings_of
from infra.plan import RunPlan
from infra.settings import facts as reader
from infra.settings.facts import Facts
from infra.settings.problem import InvalidSettingsError, Problem
from infra.settings.settings import Settings
from training.contract.repeats import Repeats
from training.workloads.cnn.recipe import CnnRecipe

GIB = 2**30
ROOT = Path(__file__).resolve().parents[2]
DECLARED = reader.declared(ROOT)
KUBERNETES = {"target": "kubernetes", "kubeContext": "test", "image": "registry.example.com/a:1"}
"""What a stack says in whose cluster others run, too."""


def machine(
    cores: int = 8, gib: int = 16, stack: str = "local", folder: Path = ROOT, secret: frozenset[str] = frozenset()
) -> Facts:
    """The facts of a machine whose cores are all allowed."""
    return Facts("ray-worth-it", stack, folder, cores, cores, gib * GIB, secret, declared=DECLARED)


def parse(values: Mapping[str, str], facts: Facts) -> Settings:
    """The settings, in the place that they name."""
    return settings_of(values, facts)


def plan_runs(asked: Settings) -> tuple[RunPlan, ...]:
    """The runs of the settings, in the place that they name."""
    return plan.plan_runs(asked, choose(asked.target).site(asked))


def settings(facts: Facts | None = None, /, **values: str) -> Settings:
    """Settings from values given as keyword arguments."""
    return parse(values, facts or machine())


def existing(facts: Facts | None = None, /, **values: str) -> Settings:
    """Settings of a stack in a cluster that exists."""
    return parse({**KUBERNETES, **values}, facts or machine())


def problems(facts: Facts | None = None, /, **values: str) -> tuple[Problem, ...]:
    """What is wrong with the values; fails when nothing is."""
    with pytest.raises(InvalidSettingsError) as caught:
        parse(values, facts or machine())
    return caught.value.problems


class Refusal(str):
    """A problem as a user reads it, with the key that it begins with, and its fixes."""

    def __new__(cls, problem: Problem) -> "Refusal":
        """The text of the problem."""
        refusal = super().__new__(cls, problem)
        refusal.key = re.split(r"\W", problem.what, maxsplit=1)[0]
        refusal.fixes = problem.fixes
        return refusal

    key: str
    fixes: tuple[str, ...]


def only_problem(facts: Facts | None = None, /, **values: str) -> Refusal:
    """The one problem, after each of its fixes was applied and found to work."""
    (problem,) = problems(facts, **values)
    assert problem.fixes
    for fix in problem.fixes:
        before = facts or machine()
        after = applied(values, fix, before.folder)
        parse(after, replace(before, secret_keys=before.secret_keys & after.keys()))
    return Refusal(problem)


def applied(values: Mapping[str, str], fix: str, folder: Path = ROOT) -> dict[str, str]:
    """The values after the command lines of a fix were typed, in a test's folder if they write a file."""
    after = dict(values)
    for line in fix.split(" && "):
        match shlex.split(line):
            case ["pulumi", "config", "set", key, "--", value] if value.startswith("-"):
                after[key] = value
            case ["pulumi", "config", "set", key, value] if not value.startswith("-"):
                after[key] = value
            case ["pulumi", "config", "rm", key]:
                del after[key]
            case ["pulumi", *_]:
                pytest.fail(f"not a line a user can type: {line}")
            case _ if folder != ROOT:
                subprocess.run(["sh", "-c", line], cwd=folder, check=True)
            case other:
                pytest.fail(f"not a line a user can type: {other}")
    return after


def with_run(settings: Settings, repeats: int | None = None, **changes: Any) -> Settings:
    """The settings with other values of their section `run`."""
    changes |= {} if repeats is None else {"repeats": Repeats(repeats, repeats)}
    return replace(settings, run=replace(settings.run, **changes))


def cnn(settings: Settings) -> CnnRecipe:
    """Their recipe, of the CNN."""
    assert isinstance(settings.recipe, CnnRecipe)
    return settings.recipe
