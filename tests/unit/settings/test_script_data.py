"""`dataArguments`: what is refused at preview, above all what would leave Ray Data without a CPU."""

from pathlib import Path

import pytest

from tests.golden import Wording
from tests.unit.settings_machine import machine, only_problem, parse, problems, settings
from tests.unit.test_plan_settings import WITH_RAY_DATA
from training.contract.arms import ARMS

ARGUMENTS = "--input ray-data --num-workers {workers}"
GIVEN = {"workload": "script", "workers": "1", **WITH_RAY_DATA, "dataArguments": ARGUMENTS}
TWO_CPUS = machine(2, 16)
SCRIPT = """
import ray.data
import ray.train
from ray.train.tensorflow import TensorflowTrainer
def main(options):
    ray.data.range(9)
    TensorflowTrainer(print, scaling_config=ray.train.ScalingConfig(num_workers=options.workers{more})).fit()
"""


def test_one_worker_and_one_cpu_for_its_data_fit_two_cpus() -> None:
    """The arm is measured beside the others; one process has the same two CPUs."""
    found = settings(TWO_CPUS, **GIVEN)

    assert ("baseline", "native", "ray", "raydata") == found.arms
    assert [2.0] * 4 == [ARMS[arm].process_cpus(found.recipe) for arm in found.arms]
    assert [1] * 4 == [ARMS[arm].compute_threads(found.recipe) for arm in found.arms]
    assert "ray-data" in next(line for line in found.commands if line.startswith("raydata: "))


def test_workers_that_take_every_cpu_are_refused(wording: Wording) -> None:
    """Two workers on two CPUs: Ray Data has none."""
    found = only_problem(TWO_CPUS, **GIVEN | {"workers": "2"})

    assert found == only_problem(TWO_CPUS, **GIVEN | {"workers": "2", "allowOversubscription": "true"})
    wording("settings", found)


def test_without_ray_data_they_fit() -> None:
    """As before: the key asks for more CPUs, and where there is one CPU, the key goes. A script that may read so by
    itself has no arm without Ray."""
    given = {key: value for key, value in GIVEN.items() if key != "dataArguments"} | {"workers": "2"}

    assert ("baseline", "wide", "ray") == settings(TWO_CPUS, **given).arms
    assert ("pulumi config rm dataArguments",) == only_problem(machine(1, 16), **GIVEN).fixes


@pytest.mark.parametrize(
    "more", [', resources_per_worker={"CPU": 2}', ', resources_per_worker={"CPU": 3, "GPU": 0}'], ids=["all", "more"]
)
def test_a_script_whose_workers_ask_for_every_cpu_is_refused(tmp_path: Path, wording: Wording, more: str) -> None:
    """As far as its text tells."""
    (tmp_path / "train.py").write_text(SCRIPT.replace("{more}", more))
    (found,) = problems(machine(8, 16), **GIVEN | {"script": str(tmp_path / "train.py")})

    wording("settings", str(found))
    # One of the two that a worker has is left
    (tmp_path / "train.py").write_text(SCRIPT.replace("{more}", ', resources_per_worker={"CPU": 1}'))
    assert "raydata" in settings(TWO_CPUS, **GIVEN | {"script": str(tmp_path / "train.py")}).arms


@pytest.mark.parametrize(
    "changes",
    [
        {"dataArguments": "  --num-workers   {workers}"},
        {"dataArguments": "--input ray-data"},
        {"dataArguments": f"{ARGUMENTS} --out {{folder}}"},
        {"dataArguments": f"{ARGUMENTS} --epochs {{epochs}}"},
        {"scriptArguments": "--num-workers {workers} --seed {seed}"},
        {"script": "examples/keras_ray.py"},
        {"script": "examples/keras_tf_config.py"},
        {"scriptKind": "tf-config"},
        {"dataArguments": "", "dataCpus": "2"},
    ],
    ids=["alike", "no workers", "placeholder", "epochs", "seed", "no Ray Data", "no Ray", "kind", "CPUs alone"],
)
def test_what_reads_no_other_way_is_refused(changes: dict[str, str], wording: Wording) -> None:
    """With the reason, and a line that works."""
    wording("settings", only_problem(machine(8, 16), **GIVEN | changes))


@pytest.mark.parametrize("target", ["minikube", "kubernetes", "ray"])
def test_a_cluster_has_no_cpus_for_both(target: str, wording: Wording) -> None:
    """A pod of Ray Data's own is none that a loader's processes can use."""
    places = {
        "minikube": {},
        "kubernetes": {"kubeContext": "staging", "imageRegistry": "registry.example.com/ray"},
        "ray": {"rayAddress": "http://ray.example.com:8265"},
    }
    found = [str(problem) for problem in problems(machine(8, 16), **GIVEN | {"target": target} | places[target])]

    wording("settings", next(text for text in found if "dataArguments" in text))


@pytest.mark.parametrize("workload", ["cnn", "search"])
def test_another_workload_has_no_such_key(workload: str) -> None:
    """Refused as every key that would mean nothing."""
    found = [str(problem) for problem in problems(workload=workload, dataArguments=ARGUMENTS, dataCpus="2")]

    assert {"dataArguments", "dataCpus"} <= {text.split()[0] for text in found}


def test_what_does_not_set_it_is_measured_as_before() -> None:
    """Neither recipe nor flags have the keys, so no hash of a stack without them has changed."""
    given = {key: value for key, value in GIVEN.items() if key != "dataArguments"}
    recipe = parse(given, machine(8, 16)).recipe

    assert not {"dataArguments", "dataCpus"} & set(recipe.to_dict())
    assert not [flag for flag in recipe.flags() if flag.startswith("--data-")]
    assert 0 == recipe.input_cpus
