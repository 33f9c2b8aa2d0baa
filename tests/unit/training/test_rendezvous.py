"""How ranks find each other: one form for every framework, here and in a script's own Python, which can't import it."""

import json

import pytest

from training.launch import rendezvous
from training.workloads.script.ranks import variables


@pytest.mark.parametrize("addresses", [["127.0.0.1:1"], ["a:1", "b:2"], ["a:1", "b:2", "fd00::3:3"]])
def test_a_script_s_ranks_are_told_as_the_cnn_s_are(addresses: list[str]) -> None:
    """TF_CONFIG stands in two places, because a script's Python has none of this project's packages."""
    for rank in range(len(addresses)):
        assert rendezvous.tensorflow(addresses, rank) == variables.tf_config(addresses, rank)


def test_tensorflow_reads_an_ipv6_address_in_brackets() -> None:
    """As nodes of a Ray cluster may have; without brackets the port would be a part of it. PyTorch takes none."""
    of_all = ["fd00::1:7001", "fd00::2:7002"]
    config = json.loads(variables.tf_config(of_all, 1)["TF_CONFIG"])

    assert ["[fd00::1]:7001", "[fd00::2]:7002"] == config["cluster"]["worker"]
    assert "fd00::1" == variables.torchrun(of_all, 1)["MASTER_ADDR"]


def test_a_rank_reads_what_its_launcher_wrote() -> None:
    """A process that is told nothing is alone."""
    written = rendezvous.Rendezvous(["a:1", "fd00::2:7002"], 1)

    assert written == rendezvous.from_environment(written.variable())
    assert rendezvous.from_environment({}) is None


def test_ranks_of_xgboost_ask_one_tracker_which_none_of_their_own_ports_is() -> None:
    """In rank 0's pod, beside the port of its rank and the one where results are brought."""
    of = ["10.0.0.1:7001", "10.0.0.2:7001"]
    told = [json.loads(variables.xgboost(of, rank)["TRAINING_CLUSTER"]) for rank in (0, 1)]

    assert [0, 1] == [each["rank"] for each in told]
    (tracker,) = {json.dumps(each["tracker"], sort_keys=True) for each in told}
    assert {"dmlc_tracker_uri": "10.0.0.1", "dmlc_tracker_port": 7003}.items() <= json.loads(tracker).items()
