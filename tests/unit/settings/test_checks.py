"""How settings go together: each rule broken once, and each of its fixes tried."""

from dataclasses import replace
from pathlib import Path

import pytest

from infra.settings.cnn import CIFAR10_FILES
from tests.golden import Wording
from tests.unit.settings_machine import cnn, machine, only_problem, parse, problems, settings

HERE = machine(cores=8)
QUOTA = replace(HERE, cpu_quota=1.5)
ROLE = "arn:aws:iam::123456789012:role/training"
S3 = {"storage": "s3://my-bucket/training", "storageRole": ROLE}
CLAIM = {"storage": "pvc", "target": "minikube", "minikubeNodes": "1"}
BUCKET = "s3://my-bucket/images"
IMAGES = {"dataset": "imagefolder", "datasetPath": BUCKET}
NOT_THERE = "data/nowhere"
NO_VALUE = "rm datasetPath"
NO_CURVE = "set workersCurve none"
REFUSED: dict[str, tuple[dict[str, str], str, str]] = {
    "a batch smaller than the workers": (
        {"workers": "3", "globalBatchSize": "2"},
        "globalBatchSize",
        "set globalBatchSize 3",
    ),
    **{
        f"a curve {curve} of {workers}": ({"workersCurve": curve, "workers": workers}, "workersCurve", NO_CURVE)
        for curve, workers in (("1,2,4", "2"), ("4", "2"), ("2", "2"), ("1", "1"), ("3,5", "1"), ("2,2", "2"))
    },
    "no whole CPUs": ({"workerCpus": "1.5"}, "workerCpus", "set workerCpus 2"),
    "more digits": ({"dataset": "digits", "trainImages": "1438"}, "trainImages", "at most 1437"),
    "more of CIFAR-10": ({"dataset": "cifar10", "trainImages": "50001"}, "trainImages", "at most 50000"),
    "warm-up of all steps": ({"epochs": "3", "warmupSteps": "63"}, "warmupSteps", "63 steps"),
    "fewer by class than a step": ({**S3, **IMAGES, "trainImages": "60"}, "globalBatchSize", "set globalBatchSize 54"),
    "no such folder": ({"dataset": "auto", "datasetPath": NOT_THERE}, "datasetPath", NO_VALUE),
    "no such folder of CIFAR-10": ({"dataset": "cifar10", "datasetPath": NOT_THERE}, "datasetPath", NO_VALUE),
    "no such folder of digits": ({"dataset": "digits", "datasetPath": NOT_THERE}, "datasetPath", NO_VALUE),
    "synthetic of a folder": ({"dataset": "synthetic", "datasetPath": "docs"}, "datasetPath", NO_VALUE),
    "a bucket without storage": ({"datasetPath": BUCKET}, "datasetPath", "set storage s3://my-bucket"),
    "images in a bucket without storage": (IMAGES, "datasetPath", "set storage s3://my-bucket/training"),
    "a bucket, storage in a folder": ({"datasetPath": BUCKET, "storage": "kept"}, "datasetPath", NO_VALUE),
    "another kind of bucket": ({"datasetPath": "gs://my-bucket/images", **S3}, "datasetPath", NO_VALUE),
    "pods, a bucket without storage": (
        {"datasetPath": BUCKET, "target": "minikube"},
        "datasetPath",
        f"set storage s3://my-bucket/training && pulumi config set storageRole {ROLE}",
    ),
    "a bucket, storage in a claim": ({"datasetPath": BUCKET, **CLAIM}, "datasetPath", NO_VALUE),
    **{
        f"no address: {address}": ({"datasetPath": address, **S3}, "datasetPath", NO_VALUE)
        for address in (
            *("https://example.com/images", "s3:///images", "s3://KEY:SECRET@bucket/images"),
            *("s3://bucket/images?endpoint_override=http://example.com", "s3://my-bucket/../images"),
        )
    },
    "out of a claim": ({"datasetPath": "/storage/../etc", **CLAIM}, "datasetPath", NO_VALUE),
    "images of nowhere": ({"dataset": "imagefolder"}, "dataset", "rm dataset"),
    "pods, images of nowhere": (
        {"dataset": "imagefolder", "target": "minikube"},
        "dataset",
        "rm dataset",
    ),
    "a size of other images": ({"imageSize": "64"}, "imageSize", "rm imageSize"),
    "a size too large for a model": (
        {"imageSize": "224", "model": "cnn-double", **IMAGES, **S3},
        "imageSize",
        "set imageSize 128",
    ),
    "pods, a model without storage": (
        {"saveModel": "true", "target": "minikube"},
        "saveModel",
        "set storage s3://my-bucket/training",
    ),
    "checkpoints without storage": ({"checkpointEpochs": "2"}, "checkpointEpochs", "set storage kept"),
    "none to keep": ({"checkpointsKept": "1"}, "checkpointsKept", "rm checkpointsKept"),
    "a late checkpoint": (
        {"checkpointEpochs": "5", "epochs": "4", "storage": "kept"},
        "checkpointEpochs",
        "set checkpointEpochs 4",
    ),
    "a seed": ({"seed": "2147483646"}, "seed", "set seed 2147483643"),
    "a seed of as many as it takes": ({"repeats": "auto", "seed": "2147483637"}, "seed", "set seed 2147483626"),
    "as many as it takes, a kept baseline": ({"repeats": "auto", "keepBaseline": "true"}, "repeats", "set repeats 4"),
    "as many as it takes, a curve": ({"repeats": "auto", "workersCurve": "1,2"}, "repeats", "set repeats 4"),
}
"""By what is wrong: the settings, the key that the message begins with, and a line or a number in it."""


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_go_together_is_refused(wording: Wording, case: str) -> None:
    """At preview, with lines each of which is enough; what an address holds is not shown."""
    given, key, said = REFUSED[case]
    found = only_problem(HERE, **given)

    assert key == found.key
    assert said in found
    assert "SECRET" not in found
    wording("settings", found)


def test_a_curve_is_measured_up_to_the_workers() -> None:
    """In ascending order, and what the arms have anyway is no point of its own."""
    curves = [settings(workersCurve=curve, workers="4").workers_curve for curve in ("4,1,2,2", "1", "none")]

    assert [(1, 2), (1,), ()] == curves


@pytest.mark.parametrize(("workers", "cpus"), [("3", "1"), ("1", "4"), ("3", "4"), ("2", "2"), ("3", "2")])
def test_more_cpus_than_there_are_can_be_had_by_less_of_what_there_is_too_much_of(workers: str, cpus: str) -> None:
    """Also where a single worker asks for more than the machine has; or by permission."""
    found = only_problem(machine(cores=2), workers=workers, workerCpus=cpus)

    assert "pulumi config set allowOversubscription true" in found.fixes
    assert ("pulumi config set workers 2" in found.fixes) == ((workers, cpus) == ("3", "1"))


@pytest.mark.parametrize(("workers", "cpus", "cores"), [("2", "4", 8), ("8", "1", 8), ("1", "2", 2), ("3", "1", 8)])
def test_as_many_workers_as_cores_are_allowed(workers: str, cpus: str, cores: int) -> None:
    """The bound itself fits, and the batch may be split unevenly."""
    assert settings(machine(cores=cores), workers=workers, workerCpus=cpus).warnings == ()


def test_permitted_oversubscription_is_a_warning_and_a_sentence_for_the_verdict(wording: Wording) -> None:
    """What was allowed is not forgotten; where there are enough cores nothing is said."""
    found = settings(machine(cores=2), workers="3", allowOversubscription="true")

    assert found.oversubscription is not None
    assert found.warnings == (found.oversubscription,)
    assert settings(allowOversubscription="true").oversubscription is None
    wording("settings", found.oversubscription)


def test_a_cpu_that_can_t_compute_in_bfloat16_is_said(wording: Wording) -> None:
    """A run that takes ten times as long is no error, and nothing that one wants."""
    slow = replace(machine(), lacks_bfloat16=True)

    (warning,) = parse({"precision": "bfloat16"}, slow).warnings
    assert "bfloat16" in warning
    wording("settings", warning)
    assert not parse({"precision": "bfloat16"}, machine()).warnings
    assert not parse({}, slow).warnings


@pytest.mark.parametrize(
    "values",
    [
        {"trainImages": "71", "globalBatchSize": "65"},
        {"globalBatchSize": "1295"},
        {"trainImages": "9", "globalBatchSize": "2"},
        {"trainImages": "1437", "globalBatchSize": "4096"},
        {"dataset": "synthetic", "trainImages": "100", "globalBatchSize": "91"},
    ],
)
def test_an_epoch_has_a_whole_step(values: dict[str, str]) -> None:
    """After a tenth of the images went to validation, at least one batch is left."""
    assert "validate and" in only_problem(warmupSteps="0", **values)


def test_what_just_fits_is_allowed() -> None:
    """72 images leave 65 for training; parts of a CPU in a pod; synthetic images are made to measure; a last seed."""
    settings(trainImages="72", globalBatchSize="65", warmupSteps="0")
    settings(**IMAGES, **S3, trainImages="100000", imageSize="128")
    settings(**IMAGES, **S3, imageSize="224", model="resnet50")
    assert 0.5 == settings(machine(stack="minikube"), target="minikube", workerCpus="0.5").recipe.worker_cpus
    assert 60_000 == cnn(settings(dataset="synthetic", trainImages="60000")).train_images
    assert cnn(settings(saveModel="true")).save_model
    assert cnn(settings(target="minikube", saveModel="true", **S3)).save_model
    assert 1 == cnn(settings(checkpointEpochs="2", checkpointsKept="1", storage="kept")).checkpoints_kept
    assert 12 == settings(repeats="auto", seed="2147483636").run.repeats.most
    # Where there is no step at all, nothing is said about warm-up
    assert 1 == len(problems(trainImages="50", globalBatchSize="2048"))


def test_a_data_set_folder_must_hold_cifar10(wording: Wording, tmp_path: Path) -> None:
    """The missing files are named; the archive's parent folder is the usual mistake, and its fix has a space in it."""
    inside = tmp_path / "cifar 10"
    inside.mkdir()
    for name in CIFAR10_FILES[:-1]:
        (inside / name).touch()
    found = only_problem(datasetPath=str(inside))
    (inside / CIFAR10_FILES[-1]).touch()

    assert found.key == "datasetPath"
    wording("settings", found)
    assert str(inside) in only_problem(datasetPath=str(tmp_path))


def test_a_path_starts_at_the_project(tmp_path: Path) -> None:
    """A relative path means the same wherever `pulumi` is called, and `auto` follows it."""
    for name in CIFAR10_FILES:
        (tmp_path / name).touch()

    found = settings(machine(folder=tmp_path.parent), datasetPath=tmp_path.name)

    assert (found.dataset_path, cnn(found).dataset) == (str(tmp_path), "cifar10")


@pytest.mark.parametrize(
    ("values", "address"),
    [
        (S3 | {"dataset": "imagefolder", "datasetPath": "s3://my-bucket/images/"}, "s3://my-bucket/images"),
        (
            S3 | {"target": "minikube", "dataset": "imagefolder", "datasetPath": "s3://other/images"},
            "s3://other/images",
        ),
        (S3 | {"datasetPath": "s3://my-bucket/cifar-10-batches-py"}, "s3://my-bucket/cifar-10-batches-py"),
        (CLAIM | {"dataset": "imagefolder", "datasetPath": "/storage/images"}, "/storage/images"),
    ],
)
def test_data_may_be_in_storage(values: dict[str, str], address: str) -> None:
    """Of a bucket, and of a claim where pods have it; CIFAR-10 is meant where no data set is named."""
    found = settings(HERE, **values)

    assert (True, address) == (found.data_in_storage, found.dataset_path)
    assert values.get("dataset", "cifar10") == cnn(found).dataset


def test_images_by_class_are_in_two_parts(wording: Wording, tmp_path: Path) -> None:
    """The folder around them is understood. It is one of this machine, whatever the storage is, and pods have none."""
    inside = tmp_path / "my images"
    (inside / "train").mkdir(parents=True)
    given = {"dataset": "imagefolder", "datasetPath": str(inside)}
    wording("settings", only_problem(**given))
    (inside / "val").mkdir()
    found = settings(**given, storage="kept")

    assert (False, str(inside)) == (found.data_in_storage, found.dataset_path)
    assert str(inside) in only_problem(dataset="imagefolder", datasetPath=str(tmp_path))
    in_pods = only_problem(HERE, target="minikube", **given)
    assert in_pods.key == "datasetPath"
    wording("settings", in_pods, "pods")


def test_the_split_is_the_one_that_training_makes() -> None:
    """What is said about images at preview holds when they are loaded."""
    from infra.settings.cnn import _after_validation
    from training.workloads.cnn.dataset import VALIDATION_SHARE

    for images in (10, 71, 72, 640, 1437, 2560, 45_678, 50_000):
        assert _after_validation(images) == images - int(images * VALIDATION_SHARE)


def test_ray_s_dashboard_needs_its_packages() -> None:
    """They are an extra on local, and in every pod's image: without them each ray run would fail after minutes."""
    without = replace(machine(), dashboard_installed=False)

    (problem,) = problems(without, rayDashboard="true")

    assert problem.fixes == ("pulumi config set rayDashboard false", "uv sync --frozen --inexact --extra image")
    assert settings(rayDashboard="true").ray_dashboard
    assert settings(without).recipe.workers == 2


def test_workers_exchange_gradients_in_the_type_they_compute_in() -> None:
    """Unless it is said."""
    assert cnn(settings()).gradient_precision == "float32"
    assert cnn(settings(precision="bfloat16")).gradient_precision == "bfloat16"
    assert cnn(settings(precision="bfloat16", gradientPrecision="float32")).gradient_precision == "float32"


def test_workers_on_threads_of_one_core_are_warned_of_and_not_refused(wording: Wording) -> None:
    """Two virtual CPUs are often one core: what a fresh clone runs must run."""
    found = settings(replace(machine(cores=2), cores_by_kind=(1,)), workers="2")

    (warning,) = found.warnings
    assert "1 physical core" in warning
    wording("settings", warning)
    assert found.oversubscription is None
    assert () == found.refused_at_up


def test_workers_on_cores_of_two_kinds_are_warned_of(wording: Wording) -> None:
    """Two fast cores and four slow ones for four workers; two workers have fast ones."""
    hybrid = replace(HERE, cores_by_kind=(2, 4))

    (warning,) = settings(hybrid, workers="4").warnings
    wording("settings", warning)
    assert () == settings(hybrid, workers="2").warnings
    assert () == settings(replace(HERE, cores_by_kind=(8,)), workers="8").warnings


def test_a_cpu_quota_limits_the_workers_as_the_number_of_cpus_does(wording: Wording) -> None:
    """A container of 8 visible CPUs that may use one and a half of them; with less than one no number fits."""
    found = only_problem(QUOTA, workers="2")

    assert "1.5 CPUs" in found
    wording("settings", found)
    assert "pulumi config set workers 1" in found
    allowed = settings(QUOTA, workers="2", allowOversubscription="true")
    assert allowed.oversubscription is not None
    assert "CPU quota" in allowed.oversubscription
    half = only_problem(replace(HERE, cpu_quota=0.5), workers="1")
    assert "pulumi config set allowOversubscription true" in half
    # One of all CPUs limits nothing
    assert () == settings(replace(machine(cores=2), cpu_quota=2.0), workers="2").warnings
