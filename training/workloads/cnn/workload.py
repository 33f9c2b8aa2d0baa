"""The CNN of the exercise as a workload. Standard library only: what trains is imported in a process that trains."""

from collections.abc import Mapping
from typing import Any

from training.contract.workload import Score, Workload
from training.launch import rendezvous
from training.workloads.cnn.detail import CnnDetail
from training.workloads.cnn.recipe import CnnRecipe
from training.workloads.cnn.registry import DATASETS

FETCH = "training.workloads.cnn.fetch"


def fetch(recipe: CnnRecipe, path: str) -> tuple[str, ...]:
    """Return the python arguments that download the data set; empty for one that needs no download."""
    return ("-m", FETCH, recipe.dataset, path) if DATASETS[recipe.dataset].fetch else ()


def words(recipe: Mapping[str, Any]) -> str:
    """Return the heading of a recipe, such as `cnn-half on digits, float32, global batch 64`."""
    batch = f"global batch {recipe['globalBatchSize']}"
    return f"{recipe['model']} on {recipe['dataset']}, {recipe['precision']}, {batch}"


def remarks(recipe: CnnRecipe) -> Mapping[str, str]:
    """Return a remark on how workers share batch statistics; {} for one worker."""
    if recipe.workers == 1:
        return {}
    if recipe.sync_batch_norm:
        return {"batchStatistics": "The workers share their batch-norm statistics"}
    return {"batchStatistics": "Each worker computes its own batch-norm statistics (`syncBatchNorm` changes this)"}


MODULES = {"numpy": "numpy", "tensorflow": "tensorflow", "tf_keras": "tf-keras"}
"""Modules that the workload imports, each with the package that provides it."""
WORKLOAD = Workload(
    name="cnn",
    framework="TensorFlow",
    recipe=CnnRecipe,
    body="training.workloads.cnn.train",
    detail=CnnDetail,
    unit="images",
    words=words,
    scores=(
        Score(
            name="testAccuracy", title="Test accuracy", unit="%", factor=100, column="accuracy %", in_changes=True,
            in_sweeps="accuracy %",
            meaning="on the test set, used once at the end",
        ),
        Score(
            name="testLoss", title="Test loss", digits=3, better="lower", on_page=False, meaning="on the test set",
        ),
    ),
    rendezvous=rendezvous.tensorflow,
    trainer="ray.train.tensorflow.TensorflowTrainer",
    packages=("numpy", "tensorflow", "tensorflow-cpu", "tf-keras"),
    libraries=("grpcio", "keras", "ml-dtypes", "protobuf"),
    variables={
        "TF_USE_LEGACY_KERAS": "1",  # Keras 3 fails under MultiWorkerMirroredStrategy ("PerReplica")
        "TF_CPP_MIN_LOG_LEVEL": "2",
    },
    imports=("ray.train.tensorflow",),
    data=lambda recipe: str(recipe.dataset),
    modules=lambda _: MODULES,
    fetch=fetch,
    remarks=remarks,
)  # fmt: skip
