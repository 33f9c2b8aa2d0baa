"""How ranks find each other: one form for every framework, here and in a script's own Python, which can't import it."""

import pytest

from training.launch import rendezvous
from training.workloads.script.ranks import variables


@pytest.mark.parametrize("addresses", [["127.0.0.1:1"], ["a:1", "b:2"], ["a:1", "b:2", "c:3"]])
def test_a_script_s_ranks_are_told_as_the_cnn_s_are(addresses: list[str]) -> None:
    """TF_CONFIG stands in two places, because a script's Python has none of this project's packages."""
    for rank in range(len(addresses)):
        assert rendezvous.tensorflow(addresses, rank) == variables.tf_config(addresses, rank)
