"""The stack's outputs: what cannot be compared is told in a sentence, and not by a traceback of the program."""

import pulumi
import pytest

from infra import outputs
from infra.plan import RunPlan
from tests.unit.results import make_context, make_recipe, make_result
from training.contract.recipe import canonical


@pytest.mark.parametrize("change", [{"schemaVersion": 0}, {"recipe": make_recipe(epochs=9).to_dict()}])
def test_results_that_cannot_be_compared_end_the_update_with_a_sentence(change: dict[str, object]) -> None:
    """Pulumi shows a RunError as its message; of any other error, the way through the program."""
    recipe = make_recipe()
    plan = RunPlan(name="ray-1", arm="ray", repeat=1, recipe=recipe, own_key="", measurement="")
    summary = canonical(make_result(recipe=recipe).summary("p", "s") | change)

    with pytest.raises(pulumi.RunError, match="run `pulumi up`"):
        outputs.compare_results(make_context(recipe), [plan], {"ray-1": summary})
