"""How settings go together: each rule broken once, and each of its fixes tried."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from infra.settings.cnn import CIFAR10_FILES
from tests.golden import Wording
from tests.unit.settings_machine import cnn, machine, only_problem, parse, problems, settings


def test_a_batch_smaller_than_the_workers_is_refused() -> None:
    """Every worker takes part in every step."""
    found = only_problem(workers="3", globalBatchSize="2")

    assert "pulumi config set globalBatchSize 3" in found
    assert cnn(settings(workers="3", globalBatchSize="3")).global_batch_size == 3


@pytest.mark.parametrize(
    ("curve", "workers"), [("1,2,4", "2"), ("4", "2"), ("2", "2"), ("1", "1"), ("3,5", "1"), ("2,2", "2")]
)
def test_a_curve_that_does_not_end_at_the_workers_is_refused(curve: str, workers: str) -> None:
    """One cluster of the largest number holds every point, and a curve has at least two."""
    assert "pulumi config set workersCurve none" in only_problem(workersCurve=curve, workers=workers)


def test_a_curve_is_measured_up_to_the_workers() -> None:
    """In ascending order, and what the arms have anyway is no point of its own."""
    assert settings(workersCurve="4,1,2,2", workers="4").workers_curve == (1, 2)
    assert settings(workersCurve="1", workers="4").workers_curve == (1,)
    assert settings().workers_curve == ()


def test_an_uneven_split_is_allowed() -> None:
    """The default batch works with three workers."""
    assert settings(workers="3").recipe.workers == 3


def test_more_workers_than_cores_are_refused_on_local() -> None:
    """On two cores `workers 3` is refused for the cores alone, with both ways out."""
    found = only_problem(machine(cores=2), workers="3")

    assert "pulumi config set workers 2" in found
    assert "pulumi config set allowOversubscription true" in found


@pytest.mark.parametrize(("workers", "cpus", "cores"), [("2", "4", 8), ("8", "1", 8), ("1", "2", 2)])
def test_as_many_workers_as_cores_are_allowed(workers: str, cpus: str, cores: int) -> None:
    """The bound itself fits."""
    assert settings(machine(cores=cores), workers=workers, workerCpus=cpus).warnings == ()


@pytest.mark.parametrize(("workers", "cpus"), [("1", "4"), ("3", "4"), ("2", "2"), ("3", "2")])
def test_cores_can_be_had_by_less_of_what_there_is_too_much_of(workers: str, cpus: str) -> None:
    """The fix works also where a single worker asks for more than the machine has."""
    only_problem(machine(cores=2), workers=workers, workerCpus=cpus)


def test_permitted_oversubscription_is_a_warning_and_a_sentence_for_the_verdict(wording: Wording) -> None:
    """What was allowed is not forgotten."""
    found = settings(machine(cores=2), workers="3", allowOversubscription="true")

    assert found.oversubscription is not None
    assert found.warnings == (found.oversubscription,)
    wording("settings", found.oversubscription)


def test_permission_alone_is_not_oversubscription() -> None:
    """The verdict is not qualified when there are enough cores."""
    assert settings(allowOversubscription="true").oversubscription is None


def test_a_cpu_that_can_t_compute_in_bfloat16_is_said(wording: Wording) -> None:
    """A run that takes ten times as long is no error, and nothing that one wants."""
    slow = replace(machine(), lacks_bfloat16=True)

    (warning,) = parse({"precision": "bfloat16"}, slow).warnings
    assert "bfloat16" in warning
    wording("settings", warning)
    assert not parse({"precision": "bfloat16"}, machine()).warnings
    assert not parse({}, slow).warnings


def test_cpus_are_whole_on_local_only() -> None:
    """A process is held to whole CPUs; a pod may have a quota."""
    assert "pulumi config set workerCpus 2" in only_problem(workerCpus="1.5")
    assert settings(machine(stack="minikube"), target="minikube", workerCpus="0.5").recipe.worker_cpus == 0.5


@pytest.mark.parametrize(("dataset", "images"), [("digits", "1438"), ("cifar10", "50001")])
def test_more_images_than_the_data_set_has_are_refused(dataset: str, images: str) -> None:
    """The measurement would have fewer images than its recipe says."""
    assert f"at most {int(images) - 1}" in only_problem(dataset=dataset, trainImages=images)


def test_synthetic_images_have_no_limit() -> None:
    """They are made to measure."""
    assert cnn(settings(dataset="synthetic", trainImages="60000")).train_images == 60_000


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
    found = only_problem(warmupSteps="0", **values)

    assert "validate and" in found


def test_a_step_that_just_fits_is_allowed() -> None:
    """72 images leave 65 for training."""
    settings(trainImages="72", globalBatchSize="65", warmupSteps="0")


def test_warm_up_ends_before_the_run_does(wording: Wording) -> None:
    """3 epochs of 21 steps: with 63 steps of warm-up nothing would be timed."""
    found = only_problem(epochs="3", warmupSteps="63")

    assert found.key == "warmupSteps"
    assert "63 steps" in found
    wording("settings", found)


def test_too_few_images_are_one_problem() -> None:
    """Where there is no step at all, nothing is said about warm-up."""
    assert len(problems(trainImages="50", globalBatchSize="2048")) == 1


def test_a_data_set_folder_must_exist(wording: Wording) -> None:
    """A path that is wrong is not found out by the run that needs it first."""
    (found,) = {only_problem(dataset=dataset, datasetPath="data/nowhere") for dataset in ("auto", "cifar10")}

    assert found.key == "datasetPath"
    wording("settings", found)


@pytest.mark.parametrize("dataset", ["digits", "synthetic"])
def test_a_data_set_folder_means_nothing_for_images_of_the_program(
    wording: Wording, tmp_path: Path, dataset: str
) -> None:
    """Somebody would believe that their own images were measured; also where there is no such folder."""
    found = only_problem(dataset=dataset, datasetPath=str(tmp_path))

    assert found.key == "datasetPath"
    assert found.fixes == only_problem(dataset=dataset, datasetPath="data/nowhere").fixes
    wording("settings", str(found).replace(str(tmp_path), "images"))


def test_a_data_set_folder_must_hold_cifar10(wording: Wording, tmp_path: Path) -> None:
    """The missing files are named."""
    for name in CIFAR10_FILES[:-1]:
        (tmp_path / name).touch()

    found = only_problem(datasetPath=str(tmp_path))

    assert found.key == "datasetPath"
    wording("settings", found)


def test_the_folder_around_the_data_set_is_understood(tmp_path: Path) -> None:
    """The archive's parent folder is the usual mistake: the fix names the right one, with a space in it too."""
    inside = tmp_path / "cifar 10"
    inside.mkdir()
    for name in CIFAR10_FILES:
        (inside / name).touch()

    assert str(inside) in only_problem(datasetPath=str(tmp_path))


def test_a_path_starts_at_the_project(tmp_path: Path) -> None:
    """A relative path means the same wherever `pulumi` is called, and `auto` follows it."""
    for name in CIFAR10_FILES:
        (tmp_path / name).touch()

    found = settings(machine(folder=tmp_path.parent), datasetPath=tmp_path.name)

    assert (found.dataset_path, cnn(found).dataset) == (str(tmp_path), "cifar10")


S3 = {"storage": "s3://my-bucket/training", "storageRole": "arn:aws:iam::123456789012:role/training"}
CLAIM = {"storage": "pvc", "target": "minikube", "minikubeNodes": "1"}


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
    found = settings(machine(cores=8), **values)

    assert (True, address) == (found.data_in_storage, found.dataset_path)
    assert values.get("dataset", "cifar10") == cnn(found).dataset


def test_a_folder_of_this_machine_is_not_in_storage(tmp_path: Path) -> None:
    """Whatever the storage is."""
    for name in ("train", "validation"):
        (tmp_path / name).mkdir()
    found = settings(dataset="imagefolder", datasetPath=str(tmp_path), storage="kept")

    assert (False, str(tmp_path)) == (found.data_in_storage, found.dataset_path)


@pytest.mark.parametrize(
    "values",
    [
        {"datasetPath": "s3://my-bucket/images"},
        {"datasetPath": "s3://my-bucket/images", "dataset": "imagefolder"},
        {"datasetPath": "s3://my-bucket/images", "storage": "kept"},
        {"datasetPath": "gs://my-bucket/images", **S3},
        {"datasetPath": "s3://my-bucket/images", "target": "minikube"},
        {"datasetPath": "s3://my-bucket/images", **CLAIM},
    ],
)
def test_data_is_reached_as_its_storage_is(wording: Wording, values: dict[str, str]) -> None:
    """By the same keys, from the same server."""
    found = only_problem(machine(cores=8), **values)

    assert found.key == "datasetPath"
    wording("settings", found)


@pytest.mark.parametrize(
    "address",
    [
        *("https://example.com/images", "s3:///images", "s3://KEY:SECRET@bucket/images"),
        *("s3://bucket/images?endpoint_override=http://example.com", "s3://my-bucket/../images"),
    ],
)
def test_an_address_of_data_names_nothing_but_a_place(wording: Wording, address: str) -> None:
    """Neither credentials, nor another server; what it holds is not shown."""
    said = only_problem(datasetPath=address, **S3)

    assert said.key == "datasetPath"
    wording("settings", said)
    assert "SECRET" not in said


def test_a_claim_is_not_left_by_a_path(wording: Wording) -> None:
    """Pods have other folders beside it."""
    found = only_problem(machine(cores=8), datasetPath="/storage/../etc", **CLAIM)

    assert found.key == "datasetPath"
    wording("settings", found)


def test_images_of_yours_are_somewhere(wording: Wording, tmp_path: Path) -> None:
    """In a folder of this machine on `local`; in storage for pods, which have no such folder."""
    wording("settings", only_problem(dataset="imagefolder"), "local")
    wording("settings", only_problem(machine(cores=8), dataset="imagefolder", target="minikube"), "pods")
    for name in ("train", "val"):
        (tmp_path / name).mkdir()
    given = {"dataset": "imagefolder", "datasetPath": str(tmp_path)}
    settings(**given)
    found = only_problem(machine(cores=8), target="minikube", **given)
    assert found.key == "datasetPath"
    wording("settings", found, "pods, a folder")


def test_images_by_class_are_in_two_parts(wording: Wording, tmp_path: Path) -> None:
    """The folder around them is understood."""
    inside = tmp_path / "my images"
    (inside / "train").mkdir(parents=True)
    wording("settings", only_problem(dataset="imagefolder", datasetPath=str(inside)))
    (inside / "val").mkdir()

    assert str(inside) in only_problem(dataset="imagefolder", datasetPath=str(tmp_path))


def test_a_size_of_images_is_of_those_that_are_resized(wording: Wording) -> None:
    """It would have no effect on others."""
    wording("settings", only_problem(imageSize="64"), "no effect")
    given = {"dataset": "imagefolder", "datasetPath": "s3://my-bucket/images", **S3}
    settings(imageSize="128", **given)
    wording("settings", only_problem(imageSize="224", model="cnn-double", **given), "too large")
    settings(imageSize="224", model="resnet50", **given)


def test_fewer_images_by_class_than_a_step_are_refused(wording: Wording) -> None:
    """As far as settings know how many there are."""
    given = S3 | {"dataset": "imagefolder", "datasetPath": "s3://my-bucket/images"}

    settings(**given, trainImages="100000")
    found = only_problem(**given, trainImages="60")
    assert {"60", "6", "54"} <= set(re.findall(r"\d+", found))
    wording("settings", found)


def test_the_split_is_the_one_that_training_makes() -> None:
    """What is said about images at preview holds when they are loaded."""
    from infra.settings.cnn import _after_validation
    from training.workloads.cnn.dataset import VALIDATION_SHARE

    for images in (10, 71, 72, 640, 1437, 2560, 45_678, 50_000):
        assert _after_validation(images) == images - int(images * VALIDATION_SHARE)


def test_a_model_is_saved_where_it_stays(wording: Wording) -> None:
    """On this machine, and in storage: the files of a pod go with it."""
    assert cnn(settings(saveModel="true")).save_model
    found = only_problem(machine(stack="minikube"), target="minikube", saveModel="true")
    assert found.key == "saveModel"
    assert found.fixes[0].startswith("pulumi config set storage s3://my-bucket/training")
    wording("settings", found)
    let_in = {"storage": "s3://bucket/here", "storageRole": "arn:aws:iam::123456789012:role/training"}
    kept = settings(machine(stack="minikube"), target="minikube", saveModel="true", **let_in)
    assert cnn(kept).save_model


def test_checkpoints_need_storage(wording: Wording) -> None:
    """They outlive the run that goes on from them."""
    found = only_problem(checkpointEpochs="2")

    assert found.key == "checkpointEpochs"
    assert found.fixes[0] == "pulumi config set storage kept"
    wording("settings", found)
    assert cnn(settings(checkpointEpochs="2", checkpointsKept="1", storage="kept")).checkpoints_kept == 1


def test_checkpoints_that_would_not_be_made_are_refused(wording: Wording) -> None:
    """None is kept without checkpointEpochs, and none made in a run that ends before."""
    none = only_problem(checkpointsKept="1")
    late = only_problem(checkpointEpochs="5", epochs="4", storage="kept")

    assert (none.key, late.key) == ("checkpointsKept", "checkpointEpochs")
    assert late.fixes[0] == "pulumi config set checkpointEpochs 4"
    wording("settings", none, "none")
    wording("settings", late, "late")


def test_the_last_repeat_has_a_seed(wording: Wording) -> None:
    """Repeat r uses seed + r - 1, which must be a seed too."""
    found = only_problem(seed="2147483646")

    assert found.key == "seed"
    wording("settings", found)


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
    hybrid = replace(machine(cores=8), cores_by_kind=(2, 4))

    (warning,) = settings(hybrid, workers="4").warnings
    wording("settings", warning)
    assert () == settings(hybrid, workers="2").warnings
    assert () == settings(replace(machine(cores=8), cores_by_kind=(8,)), workers="8").warnings


def test_a_cpu_quota_limits_the_workers_as_the_number_of_cpus_does(wording: Wording) -> None:
    """A container of 8 visible CPUs that may use one and a half of them."""
    container = replace(machine(cores=8), cpu_quota=1.5)
    found = only_problem(container, workers="2")

    assert "1.5 CPUs" in found
    wording("settings", found)
    assert "pulumi config set workers 1" in found
    allowed = settings(container, workers="2", allowOversubscription="true")
    assert allowed.oversubscription is not None
    assert "CPU quota" in allowed.oversubscription


def test_a_quota_of_less_than_a_cpu_leaves_permission() -> None:
    """No number of workers fits; and a quota of all CPUs limits nothing."""
    found = only_problem(replace(machine(cores=8), cpu_quota=0.5), workers="1")

    assert "pulumi config set allowOversubscription true" in found
    assert () == settings(replace(machine(cores=2), cpu_quota=2.0), workers="2").warnings


@pytest.mark.parametrize(("key", "value"), [("keepBaseline", "true"), ("workersCurve", "1,2")])
def test_as_many_repeats_as_it_takes_are_of_whole_repeats(key: str, value: str, wording: Wording) -> None:
    """A kept baseline and a workers' curve are refused beside `repeats auto`, by what either of both is set to."""
    problem = only_problem(repeats="auto", **{key: value})

    assert problem.fixes[1] == "pulumi config set repeats 4"
    wording("settings", problem, key)


def test_every_seed_of_as_many_repeats_as_there_may_be_is_valid() -> None:
    """The twelfth repeat has the recipe's seed and eleven."""
    assert 12 == settings(repeats="auto", seed="2147483636").run.repeats.most
    assert "pulumi config set seed 2147483626" in only_problem(repeats="auto", seed="2147483637").fixes
