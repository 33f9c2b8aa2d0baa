"""Which runs there are, in which order, and what repeats which of them."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from infra.image import spec as image_spec
from infra.places.cluster.manifests import jobs
from infra.places.cluster.manifests.pod_parts import Size
from infra.places.cluster.manifests.pods import pods_of
from infra.places.local import place as local
from infra.places.local.run import TrainingRunProvider
from infra.plan import RunPlan
from infra.settings.settings import Settings
from tests.unit.settings_machine import machine, plan_runs, settings, with_run
from training.contract import provenance

BASE = settings(repeats="2")


def keys(plans: tuple[RunPlan, ...]) -> dict[str, str]:
    """Each run's own key by name."""
    return {plan.name: plan.own_key for plan in plans}


def measurements(asked: Settings) -> set[str]:
    """The measurements that runs belong to: one."""
    return {plan.measurement for plan in plan_runs(asked)}


def test_arms_take_turns() -> None:
    """So that what drifts on the machine, and what the run before left, meets all arms alike."""
    plans = plan_runs(with_run(BASE, repeats=4))
    rounds = [[plan.arm for plan in plans if plan.repeat == repeat] for repeat in range(1, 5)]

    assert [1, 2, 3, 4] == sorted({plan.repeat for plan in plans}) == list(dict.fromkeys(plan.repeat for plan in plans))
    assert [set(BASE.arms)] * 4 == [set(arms) for arms in rounds]
    assert "baseline" == rounds[0][0]
    for place in range(4):
        assert set(BASE.arms) == {arms[place] for arms in rounds}
    follows = [pair for arms in rounds for pair in pairwise(arms)]
    assert len(set(follows)) == len(follows) == 12


def test_the_order_of_a_repeat_is_its_own() -> None:
    """Whatever comes after it: a run that was made is not where another is now planned."""
    names = [plan.name for plan in plan_runs(BASE)]

    assert names == [plan.name for plan in plan_runs(with_run(BASE, repeats=4))][: len(names)]


def test_repeats_differ_in_their_seed_alone() -> None:
    """Repeat r of every arm has seed + r - 1."""
    recipes = {plan.name: plan.recipe for plan in plan_runs(BASE)}

    assert {1, 2} == {recipe.seed for recipe in recipes.values()}
    assert recipes["ray-2"] == replace(BASE.recipe, seed=2)
    assert recipes["ray-2"] == recipes["baseline-2"]


def test_a_run_keeps_its_keys_beside_more_or_fewer_runs() -> None:
    """`repeats`, `keepBaseline` and the deadline add or remove runs, and repeat none."""
    before = plan_runs(BASE)

    for after in (
        with_run(BASE, repeats=3),
        with_run(BASE, keep_baseline=True),
        with_run(BASE, run_timeout_minutes=99),
        with_run(BASE, allow_oversubscription=True),
    ):
        common = {plan.name: plan for plan in plan_runs(after)}
        assert all(plan == common.get(plan.name, plan) for plan in before)
    assert 12 == len(plan_runs(with_run(BASE, repeats=3)))


FEW = {"repeats": "1", "epochs": "3", "wideArm": "false"}
EVERY = ("baseline-1", "native-1", "ray-1")


def repeated(before: Settings, after: Settings) -> dict[str, str]:
    """What an engine is told of the runs that an update does not leave as they are."""
    olds, news = ({plan.name: local._properties(each, plan) for plan in plan_runs(each)} for each in (before, after))
    changed = [n for n in olds.keys() & news.keys() if TrainingRunProvider().diff("id", olds[n], news[n]).replaces]
    return {
        **dict.fromkeys(news.keys() - olds.keys(), "create"),
        **dict.fromkeys(olds.keys() - news.keys(), "delete"),
        **dict.fromkeys(changed, "replace"),
    }


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"repeats": "2", "runTimeoutMinutes": "7"}, dict.fromkeys(("baseline-2", "native-2", "ray-2"), "create")),
        ({"nativeArm": "false"}, {"baseline-1": "replace", "ray-1": "replace", "native-1": "delete"}),
        ({"wideArm": "true"}, {**dict.fromkeys(EVERY, "replace"), "wide-1": "create"}),
        ({"keepBaseline": "true"}, {}),
        ({"keepBaseline": "true", "epochs": "2"}, dict.fromkeys(EVERY, "replace")),
        ({"keepBaseline": "true", "workers": "1"}, dict.fromkeys(("native-1", "ray-1"), "replace")),
        ({"workers": "1"}, dict.fromkeys(EVERY, "replace")),
        ({"workers": "2"}, {}),
    ],
)
def test_which_runs_a_change_repeats(changes: dict[str, str], expected: dict[str, str]) -> None:
    """What changes training repeats every arm; how often repeats nothing; what is kept is kept."""
    assert expected == repeated(settings(**FEW), settings(**FEW | changes))


def test_a_curve_s_runs_take_turns_with_the_arms() -> None:
    """One more run of Ray a repeat for each number, in another place each time, in the same measurement."""
    plans = plan_runs(with_run(replace(BASE, workers_curve=(1,)), repeats=5))
    points = {plan.name: plan for plan in plans if plan.name.startswith("ray-w1-")}
    places = [
        [plan.name for plan in plans if plan.repeat == repeat].index(f"ray-w1-{repeat}") for repeat in range(1, 6)
    ]

    assert {f"ray-w1-{repeat}" for repeat in range(1, 6)} == points.keys()
    assert {("ray", 1)} == {(plan.arm, plan.recipe.workers) for plan in points.values()}
    assert 5 == len(set(places))
    assert 1 == len({plan.measurement for plan in plans})
    assert measurements(BASE).isdisjoint(measurements(replace(BASE, workers_curve=(1,))))
    assert keys(plan_runs(BASE)).items() <= keys(plans).items()


def test_a_curve_s_runs_use_the_cluster_of_the_largest() -> None:
    """A RayCluster of its own for each point would be started anew, and its start is no part of a run."""
    asked = settings(machine(cores=32, gib=64), target="minikube", workers="3", workersCurve="1,2")
    pods = pods_of(asked)
    runs = {plan.name: pods.of_run(plan) for plan in plan_runs(asked) if plan.repeat == 1 and plan.arm == "ray"}

    assert {"ray-1", "ray-w1-1", "ray-w2-1"} == runs.keys()
    assert [3, 3, 3] == [run["rayCluster"]["workerGroupSpecs"][0]["replicas"] for run in runs.values()]
    commands = [str(run["job"]["template"]["spec"]["containers"][0]["command"]) for run in runs.values()]
    assert {"3", "1", "2"} == {command.partition("--workers=")[2][0] for command in commands}


def test_the_code_of_an_arm_is_in_its_own_key_and_in_every_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    """A changed entry point of Ray lets a kept baseline be, and re-runs everything else."""
    before, measured = keys(plan_runs(BASE)), measurements(BASE)
    real = provenance.code_hash
    monkeypatch.setattr(
        provenance, "code_hash", lambda arm, workload: real(arm, workload) + ("changed" if arm == "ray" else "")
    )

    after = keys(plan_runs(BASE))

    assert before["baseline-1"] == after["baseline-1"]
    assert before["ray-1"] != after["ray-1"]
    assert measured.isdisjoint(measurements(BASE))


def test_another_host_repeats_local_runs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A preview of a cluster's stack on another laptop shows no re-run."""
    cluster = settings(target="kubernetes", kubeContext="staging", image="registry.example.com/ray-worth-it:1")
    local_before, cluster_before = plan_runs(BASE), plan_runs(cluster)
    monkeypatch.setattr(provenance, "host", lambda: provenance.Host("another", 64, 2**40))

    assert keys(local_before)["baseline-1"] != keys(plan_runs(BASE))["baseline-1"]
    assert cluster_before == plan_runs(cluster)


def test_what_the_program_itself_changes_of_a_pod_is_another_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new version of it, other versions in uv.lock: also where one arm's pod alone differs."""
    cluster = settings(target="kubernetes", kubeContext="staging", image="registry.example.com/it:1")
    before = measurements(cluster)

    monkeypatch.setattr(jobs, "SUBMITTER", Size(0.2, "512Mi"))
    submitter = measurements(cluster)
    monkeypatch.setattr(image_spec, "expected_versions", lambda **_: {"ray": "2.60.1"})

    assert 3 == len(before | submitter | measurements(cluster))


def test_a_kept_baseline_follows_its_own_pod_alone() -> None:
    """Ray's head is nothing to it; its own memory and place are."""

    def baseline(**values: str) -> str:
        return keys(plan_runs(settings(target="minikube", **values)))["baseline-1"]

    assert baseline() == baseline(headCpus="2") == baseline(nativeArm="false") == baseline(workers="3")
    others = [
        {"workerMemory": "2Gi"},
        {"podTemplate": "docs/samples/pods.yaml"},
        {"minikubeCpus": "6"},
        {"offline": "docs/samples/offline"},
    ]
    assert len({baseline(), *(baseline(**values) for values in others)}) == 1 + len(others)


def test_the_data_sets_files_are_part_of_every_key(tmp_path: Path) -> None:
    """Their contents, not their place."""
    here, there = tmp_path / "here", tmp_path / "there"
    for folder, content in ((here, "a"), (there, "a")):
        folder.mkdir()
        (folder / "data_batch_1").write_text(content)
    before = plan_runs(replace(BASE, dataset_path=str(here)))
    assert before == plan_runs(replace(BASE, dataset_path=str(there)))
    assert keys(before)["baseline-1"] != keys(plan_runs(BASE))["baseline-1"]

    (here / "data_batch_1").write_text("b")

    assert set(keys(before).values()).isdisjoint(keys(plan_runs(replace(BASE, dataset_path=str(here)))).values())


def test_the_locked_packages_of_a_workload_are_part_of_every_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another version in uv.lock of what it trains with: Ray's own requirements alone would not show it."""
    before, real = plan_runs(BASE), provenance.dependencies_hash
    text = (provenance.PROJECT / "uv.lock").read_text(encoding="utf-8")
    lock = tmp_path / "uv.lock"
    lock.write_text(
        text.replace('name = "tf-keras"\nversion = "', 'name = "tf-keras"\nversion = "9', 1), encoding="utf-8"
    )
    monkeypatch.setattr(provenance, "dependencies_hash", lambda packages: real(packages, lock))

    assert set(keys(before).values()).isdisjoint(keys(plan_runs(BASE)).values())


def test_what_steers_frameworks_repeats_local_runs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another setting of oneDNN is another measurement of every arm, kept ones too; pods have their own."""
    before, pods = plan_runs(settings()), plan_runs(settings(target="minikube"))
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    after = plan_runs(settings())
    monkeypatch.setenv("PULUMI_ACCESS_TOKEN", "x")

    assert not {run.own_key for run in before} & {run.own_key for run in after}
    assert not {run.measurement for run in before} & {run.measurement for run in after}
    assert pods == plan_runs(settings(target="minikube"))
    assert after == plan_runs(settings())
