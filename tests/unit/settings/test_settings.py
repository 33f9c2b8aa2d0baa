"""Settings of a stack as a whole: defaults, types, several problems at once, and what Pulumi hands over."""

import json
import re
from dataclasses import FrozenInstanceError, fields

import pulumi
import pytest
import yaml

from infra.places.place import choose
from infra.settings import settings as module
from infra.settings.cnn import CnnSettings
from infra.settings.facts import of_stack
from infra.settings.key import TARGETS
from infra.settings.problem import InvalidSettingsError
from infra.settings.script import ScriptSettings
from infra.settings.settings import Settings, SettingsError, accepted, load
from infra.settings.table import SECTIONS, every_key, read
from tests.golden import Wording
from tests.stacks import OF_EXAMPLES, OF_PLACES, STACKS, environment_of, given
from tests.unit.settings_machine import ROOT, applied, cnn, machine, only_problem, parse, problems, settings
from tests.unit.settings_values import OF_TARGET, another, with_workload
from training.contract.arms import ARMS
from training.contract.recipe import camel
from training.contract.repeats import Repeats
from training.workloads.cnn.recipe import CnnRecipe


def test_nothing_set_is_the_default_measurement_of_this_machine() -> None:
    """An empty stack measures digits locally with the recipe's own defaults, and warns of nothing."""
    found = settings()

    assert (found.target, found.stack, found.cluster) == ("local", "local", None)
    assert found.recipe == CnnRecipe(dataset="digits")
    assert (found.run.repeats.most, found.arms, found.run.keep_baseline) == (
        4,
        ("baseline", "wide", "native", "ray"),
        False,
    )
    assert (found.oversubscription, found.warnings, found.refused_at_up) == (None, (), ())


def test_what_pulumi_yaml_declares_changes_nothing() -> None:
    """Declared defaults arrive as values that are set, and mean the same as nothing set, for every target."""
    declared = {name: key.declared_default() for name, key in every_key().items()}

    for target in TARGETS:
        own = {"target": target} | OF_TARGET.get(target, {})
        assert parse(declared | own, machine()) == parse(own, machine())


def test_cluster_defaults_fit_the_machine_they_are_made_for() -> None:
    """Stack minikube works unchanged on 8 physical cores and 16 GiB, and trains on CIFAR-10."""
    found = settings(machine(8, 16, "minikube"), target="minikube")

    assert found.cluster is not None
    assert found.cluster.minikube_profile == "ray-worth-it-minikube"
    assert (cnn(found).dataset, cnn(found).train_images) == ("cifar10", 2560)
    assert found.warnings == ()


def test_every_key_is_read_somewhere() -> None:
    """No key is accepted and then dropped: an attribute of this name is read. Switches of arms are read by their name.

    `trackingUri` is also read from the published comparison, by which settings it was made.
    """
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "infra").rglob("*.py")]
    sections = (*SECTIONS.values(), CnnSettings, ScriptSettings)
    switches = {arm.switch for arm in ARMS.values()}
    names = {field.name for section in sections for field in fields(section) if camel(field.name) not in switches}
    by_key = {"dataset_path": "datasetPath", "ray_dashboard": "rayDashboard", "requirements": "requirements"}

    for name in names:
        read = rf"\.{name}\b|values(\.get\(|\[)\"{by_key.get(name, '-')}\""
        assert any(re.search(read, source) for source in sources), name


def test_every_setting_that_is_not_its_default_is_told() -> None:
    """So that a report can say what measures again: each key alone, in the text that was given."""
    for name, key in every_key().items():
        workload, text = with_workload(name).get("workload"), another(key)
        beside = {"workload": workload} if workload else {}
        assert read(beside | {name: text}, machine()).changed() == beside | {name: text}
        assert read(beside | {name: key.default_for("local")}, machine()).changed() == beside


def test_secret_settings_are_not_told() -> None:
    """Neither those set with --secret, nor an address that holds a password."""
    found = settings(machine(secret=frozenset({"kubeContext"})), kubeContext="hidden", epochs="3",
                     kubeconfig="https://me:word@charts.example.com/")  # fmt: skip

    assert found.explicit == {"epochs": "3"}


def test_values_arrive_typed() -> None:
    """Texts become numbers, booleans, lists and objects. Zero is a value, not an absent one."""
    none = settings(seed="0", warmupSteps="0", earlyStopping="0", trainImages="0")
    found = settings(
        target="kubernetes",
        kubeContext="staging",
        image="registry.example.com/a/b:1.0",
        workers="3",
        workerCpus="0.5",
        nativeArm="false",
        workerMemory="2Gi",
        createNamespace="false",
    )

    assert found.cluster is not None
    assert (found.recipe.workers, found.recipe.worker_cpus, "native" in found.arms) == (3, 0.5, False)
    assert found.run.worker_memory.bytes == 2 * 2**30
    assert (none.recipe.seed, cnn(none).warmup_steps, cnn(none).train_images) == (0, 0, 0)


def test_settings_cannot_be_changed() -> None:
    """Components share one settings object: none can change it for the others."""
    with pytest.raises(FrozenInstanceError):
        settings().run.repeats = Repeats(2, 2)  # type: ignore[misc]


def test_several_problems_are_said_at_once(wording: Wording) -> None:
    """A user mends everything in one go: parse problems, unknown keys and cross-field problems come together."""
    wrong = {"workers": "abc", "epochs": "0", "datasetPath": "/nowhere", "saveModel": "true", "wrokers": "3"}
    with pytest.raises(InvalidSettingsError, match=r"^5 problems in ") as caught:
        settings(target="minikube", **wrong)

    assert len(caught.value.problems) == 5
    wording("settings", str(caught.value))


def test_a_problem_is_said_once() -> None:
    """A value that can't be parsed brings no second problem about how it goes with others."""
    assert "workers = 0" in only_problem(workers="0")
    assert "globalBatchSize = abc" in only_problem(globalBatchSize="abc", workers="3")
    assert "target = minicube" in only_problem(target="minicube")


def test_an_unknown_key_is_refused_with_the_key_that_was_meant(wording: Wording) -> None:
    """A typing error has no silent effect; the line removes it and sets the right key."""
    found = only_problem(wrokers="3")

    assert "workers?" in found
    wording("settings", found)
    assert "pulumi config rm wrokers && pulumi config set workers 3" in found


def test_an_unknown_key_like_no_other_is_refused_with_all_keys() -> None:
    """Where nothing is close, the valid keys are listed."""
    found = only_problem(frobnicate="1")

    assert all(name in found for name in every_key())
    assert "fix:     pulumi config rm frobnicate" in found


def test_keys_of_other_targets_are_accepted() -> None:
    """Pulumi.yaml declares all keys for all targets: what means nothing here is no problem."""
    assert settings(namespace="default", image="a/b:1", imageRegistry="a/b").target == "local"


def test_a_secret_is_never_shown() -> None:
    """A value set with --secret stays out of messages, whatever is wrong with it."""
    facts = machine(secret=frozenset({"workers", "wrokers"}))

    shown = "\n".join(str(problem) for problem in problems(facts, workers="hunter2", wrokers="hunter2"))

    assert "hunter2" not in shown
    assert "[secret]" in shown


@pytest.mark.parametrize("stack", STACKS)
def test_every_stack_file_is_valid(stack: str) -> None:
    """The stacks in git work as they are, without a warning, on the machine they are meant for."""
    values = yaml.safe_load((ROOT / f"stacks/Pulumi.{stack}.yaml").read_text())["config"]
    own = given(stack)

    found = parse(own | environment_of(stack), machine(8, 16, stack))

    assert not any(":" in key for key in values)
    assert all(isinstance(value, str) for value in own.values())
    assert all("allowOpenPorts" in said for said in found.warnings)  # where the bucket is nobody's yet


def test_every_target_and_every_example_has_a_stack() -> None:
    """CI has its own. An example is measured by `rwi up --stack …`, with nothing to type but what its environment
    takes."""
    scripts = [given(stack)["script"] for stack in OF_EXAMPLES]

    assert ["ci", "kubernetes", "local", "minikube", "ray"] == OF_PLACES
    assert sorted(str(path.relative_to(ROOT)) for path in (ROOT / "examples").glob("*.py")) == sorted(scripts)


@pytest.mark.parametrize("stack", OF_EXAMPLES)
def test_an_example_is_measured_in_every_arm(stack: str) -> None:
    """For as many epochs as the key says, or for what its arguments say; of RLlib there is none without Ray."""
    found = parse(given(stack) | environment_of(stack), machine(8, 16, stack))
    native = () if stack == "reinforcement" else ("native",)

    wide = () if found.recipe.workers == 1 else ("wide",)
    raydata = ("raydata",) if "dataArguments" in given(stack) else ()

    assert ("baseline", *wide, *native, "ray", *raydata) == found.arms
    assert 1 == sum(words in found.commands[0] for words in ("--epochs 4", "--epochs 20", "--rounds", "--until"))


def test_the_ci_stack_holds_three_workers() -> None:
    """What the cluster tests scale to has room on two nodes of a two-core machine."""
    found = parse(given("ci") | {"workers": "3"}, machine(2, 16, "ci"))

    assert found.refused_at_up == ()
    assert found.oversubscription is not None


@pytest.fixture
def _pulumi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulumi, "get_stack", lambda: "local")
    monkeypatch.setattr(pulumi, "get_project", lambda: "ray-worth-it")
    monkeypatch.setattr(module, "of_stack", machine)
    monkeypatch.setattr(pulumi, "Config", lambda: _config("ray-worth-it"))


_config = pulumi.Config


def loaded() -> Settings:
    """The settings that the engine hands over, as the program takes them."""
    draft = load()
    return accepted(draft, choose(draft.usable_target))


def _given(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    texts = {f"ray-worth-it:{key}": value for key, value in values.items()}
    monkeypatch.setenv("PULUMI_CONFIG", json.dumps(texts | {"pulumi:disable-default-providers": '["kubernetes"]'}))


@pytest.mark.usefixtures("_pulumi")
def test_load_reads_this_project_s_keys_and_sees_unknown_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys of other namespaces, such as Pulumi's own, are not ours. pulumi.Config can't list keys: they come from what
    the engine hands over. A RunError has no traceback."""
    _given(monkeypatch, workers="3")
    assert loaded().recipe.workers == 3

    _given(monkeypatch, wrokers="3")
    with pytest.raises(SettingsError, match="pulumi config set workers 3") as caught:
        loaded()
    assert isinstance(caught.value, pulumi.RunError)


@pytest.mark.usefixtures("_pulumi")
def test_what_does_not_fit_is_a_warning_at_preview_and_an_error_at_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A preview may run on another machine than the update; an update must not start what can't work."""
    _given(monkeypatch, target="minikube", workers="3")
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    warnings = loaded().warnings
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: False)

    assert any("pulumi config set nativeArm false" in warning for warning in warnings)
    with pytest.raises(SettingsError, match="pulumi config set nativeArm false"):
        loaded()


def test_facts_are_this_machine_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cores, memory and folder are real, and secret keys come without their namespace."""
    monkeypatch.setattr(pulumi, "get_stack", lambda: "local")
    monkeypatch.setattr(pulumi, "get_project", lambda: "ray-worth-it")
    monkeypatch.setenv("PULUMI_CONFIG_SECRET_KEYS", '["ray-worth-it:workers"]')

    facts = of_stack()

    assert facts.folder == ROOT
    assert facts.secret_keys == {"workers"}
    assert facts.cpus_allowed >= 1
    assert facts.memory_bytes > 2**20


def test_a_fix_is_what_a_user_can_type() -> None:
    """JSON in a fix is quoted for the shell."""
    assert applied({}, str(problems(egress="{}")[0].fixes[0]))["egress"] == every_key()["egress"].example
