"""The recipe of a search: which keys it has, and which of them decide its runs."""

import pytest

from training.contract.arms import BASELINE, RAY
from training.contract.timed import Timed, differences, scaled
from training.contract.workload import recipe_of
from training.workloads.script.recipe import ScriptRecipe
from training.workloads.search.recipe import SearchRecipe

SPACE = '{"lr": {"log": [1e-05, 0.1]}}'


def test_the_metric_decides_the_runs_of_a_search() -> None:
    """An algorithm goes by it; of a script's own training it only judges."""
    one, other = SearchRecipe(metric="accuracy"), SearchRecipe(metric="loss", metric_mode="min")

    assert {"metric", "metricMode"} <= RAY.settings(one).keys()
    assert RAY.settings(one) != RAY.settings(other)
    assert RAY.settings(ScriptRecipe(metric="accuracy")) == RAY.settings(ScriptRecipe(metric="loss"))
    assert "workers" not in BASELINE.settings(one)


def test_keys_that_mean_nothing_in_a_search_are_none_of_its_keys() -> None:
    """Neither in results nor as flags; what reads the recipe of a script has them as they are by default."""
    recipe = SearchRecipe()
    gone = {"measureSteps", "artifacts", "unit", "workerGpus", "dataArguments", "dataCpus"}

    assert set(ScriptRecipe.settings()) - gone < set(SearchRecipe.settings())
    assert not gone & set(recipe.to_dict())
    assert not [flag for flag in recipe.flags() if flag.startswith(("--measure-steps", "--artifacts", "--unit"))]
    assert (0, "", "") == (recipe.measure_steps, recipe.artifacts, recipe.unit)
    assert recipe == SearchRecipe.from_dict(recipe.to_dict())
    with pytest.raises(ValueError, match="measureSteps"):
        SearchRecipe.from_dict({"measureSteps": 5})


def test_a_recipe_of_a_result_is_a_search_again() -> None:
    """By its workload."""
    recipe = SearchRecipe(search_space=SPACE, metric="accuracy")

    assert recipe == recipe_of(recipe.to_dict())
    assert ("lr",) == recipe.placeholders()
    assert () == SearchRecipe(search_space="no JSON").placeholders()


def test_a_run_takes_as_long_as_its_trials() -> None:
    """Twice as many take twice as long; other epochs of each are another run."""
    recipe = SearchRecipe(search_space=SPACE, metric="accuracy", search_trials=8, epochs=3)
    timed = Timed(
        arm="baseline", recipe=recipe.to_dict(), began=0.0, wall=82.0, startup=2.0, step=10.0, steps=8, between=0.0,
        per_epoch=1, is_whole=True,
    )  # fmt: skip

    more = SearchRecipe(search_space=SPACE, metric="accuracy", search_trials=16, epochs=3)
    longer = SearchRecipe(search_space=SPACE, metric="accuracy", search_trials=8, epochs=6)
    predicted = scaled(timed, more)
    assert predicted is not None
    assert 162.0 == predicted.wall
    assert ["epochs"] == differences(timed, longer)
    assert scaled(timed, longer) is None
