"""A workload that a newcomer adds: it adds numbers. Copied into a project by `test_added`."""

from training.workloads.sums.recipe import SumsDetail, SumsRecipe  # type: ignore[import-not-found]  # there in the copy

from training.contract.workload import Score, Workload

WORKLOAD = Workload(
    name="sums",
    framework="Python",
    recipe=SumsRecipe,
    body="training.workloads.sums.body",
    detail=SumsDetail,
    unit="numbers",
    words=lambda recipe: f"sums of {recipe['numbers']} numbers",
    scores=(Score(name="total", title="Total", meaning="what came out"),),
    rendezvous=lambda addresses, rank: {"SUMS": f"{rank} of {len(addresses)}"},
    trainer="ray.train.torch.TorchTrainer",
    packages=("numpy",),
)
