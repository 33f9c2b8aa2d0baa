"""A project under another name: its stacks measure what they say, or are refused. Pulumi.yaml as Pulumi rewrites it."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from cli.setup import project
from cli.setup.project import ToolError
from cli.stack import config as stack_config
from cli.stack import settings as stack_settings
from infra.settings import facts as reader
from infra.settings.problem import InvalidSettingsError, Problem
from tests.unit.settings_machine import ROOT, machine, parse

WRITTEN_BY_PULUMI = """\
encryptionsalt: v1:abc
config:
  ray-worth-it:image: registry.example.com/ray-worth-it:1
  ray-worth-it:kubeContext: staging
  ray-worth-it:target: kubernetes
"""


def problems(*elsewhere: str, **values: str) -> tuple[Problem, ...]:
    """Of a project named `mine` whose configuration holds these keys of others."""
    try:
        parse(values, replace(machine(), project="mine", elsewhere=frozenset(elsewhere)))
    except InvalidSettingsError as error:
        return error.problems
    return ()


def test_keys_of_the_name_before_are_refused() -> None:
    """Without them every default would hold, and the CNN be measured here instead of what the stack's file says."""
    (problem,) = problems("ray-worth-it:target", "ray-worth-it:minikubeCpus", "aws:region")

    assert "ray-worth-it:minikubeCpus, ray-worth-it:target" in problem.what
    assert "aws" not in str(problem)
    assert problem.fixes[0].startswith("sed ")


@pytest.mark.parametrize("key", ["kubernetes:namespace", "azure:environment", "kubernetes:kubeconfig", "aws:region"])
def test_settings_of_providers_are_let_be(key: str) -> None:
    """Pulumi's own, of a shared environment for instance: some have a name that a key of ours has, too."""
    assert () == problems(key, "pulumi:tags")


def test_the_line_that_is_shown_mends_every_stack_file(tmp_path: Path) -> None:
    """Typed in a shell: keys lose the old name, and so have the project's own whatever that is; values stay."""
    (tmp_path / "stacks").mkdir()
    for stack in ("one", "two"):
        (tmp_path / f"stacks/Pulumi.{stack}.yaml").write_text(WRITTEN_BY_PULUMI)
    (problem,) = problems("ray-worth-it:target")
    subprocess.run(["sh", "-euc", problem.fixes[0]], cwd=tmp_path, check=True)

    mended = [yaml.safe_load((tmp_path / f"stacks/Pulumi.{stack}.yaml").read_text()) for stack in ("one", "two")]
    wanted = {
        "image": "registry.example.com/ray-worth-it:1",
        "kubeContext": "staging",
        "target": "kubernetes",
    }
    assert [{"encryptionsalt": "v1:abc", "config": wanted}] * 2 == mended
    assert 2 == len(list((tmp_path / "stacks").iterdir()))


def test_a_key_that_stands_twice_is_refused(tmp_path: Path) -> None:
    """Bare and with the project's name: Pulumi takes one of the values by chance. The line leaves what Pulumi wrote."""
    (tmp_path / "stacks").mkdir()
    file = tmp_path / "stacks/Pulumi.local.yaml"
    file.write_text("config:\n  mine:workers: '3'\n  workers: '2'\n  epochs: '1'\n")
    twice = reader.set_twice(file, "mine")
    with pytest.raises(InvalidSettingsError) as caught:
        parse({}, replace(machine(), project="mine", set_twice=twice))
    (problem,) = caught.value.problems
    subprocess.run(["sh", "-euc", problem.fixes[0]], cwd=tmp_path, check=True)

    assert ("workers",) == twice
    assert {"mine:workers": "3", "epochs": "1"} == yaml.safe_load(file.read_text())["config"]
    assert () == reader.set_twice(file, "mine")


def test_the_stacks_in_git_are_anybody_s() -> None:
    """No key has a project's name: Pulumi gives them that of Pulumi.yaml, and nothing is to do after a rename.

    Comments stand above `config:`, because Pulumi drops those between keys when it first writes such a file.
    """
    for file in (ROOT / "stacks").glob("Pulumi.*.yaml"):
        _, _, config = file.read_text(encoding="utf-8").partition("config:\n")

        assert not any(":" in key for key in yaml.safe_load(config)), file
        assert "#" not in config, file


def test_make_refuses_them_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads the stack's file without the engine, before anything is made."""
    (tmp_path / "Pulumi.mine.yaml").write_text("config:\n  before:target: minikube\n  workers: '3'\n")
    monkeypatch.setattr(project, "STACKS", tmp_path)
    monkeypatch.setattr(stack_config, "stack_file", lambda stack: tmp_path / f"Pulumi.{stack}.yaml")

    with pytest.raises(ToolError, match="before:target"):
        stack_settings.load("mine", {})


def test_pulumi_yaml_may_hold_values_of_others(tmp_path: Path) -> None:
    """`pulumi:tags` as its documentation has it, and what `pulumi new` makes of what is not the project's own."""
    text = (ROOT / "Pulumi.yaml").read_text(encoding="utf-8")
    made = yaml.safe_load(text)
    made["config"]["pulumi:disable-default-providers"] = {"value": ["kubernetes"]}
    made["config"]["pulumi:tags"] = {"value": {"team": "ml"}}
    (tmp_path / "Pulumi.yaml").write_text(yaml.safe_dump(made))

    assert reader.declared(ROOT) == reader.declared(tmp_path)
