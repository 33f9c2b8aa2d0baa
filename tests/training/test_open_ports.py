"""What listens while an arm runs, for real: nothing that another machine reaches, though TensorFlow binds it all."""

from ipaddress import ip_address

import pytest

from tests.training.conftest import Arms
from tests.training.looked_at import Listening, network_of, ports_of_its_own
from training.machine import isolation

reason = "no other machine is reached from here anyway" if isolation.is_alone() else isolation.refusal()
pytestmark = [
    pytest.mark.skipif(reason is not None, reason=reason or ""),
    pytest.mark.parametrize("arm", ["native", "ray"]),
]


@pytest.fixture
def listening(ended: Arms, arm: str) -> set[Listening]:
    """All that listened in the session of a run, until its training had begun."""
    return ended[arm].listening


def test_what_binds_every_address_is_in_a_network_of_the_run_s_own(listening: set[Listening]) -> None:
    """TensorFlow's servers are seen to bind every address, so that this looks at what it should; none of them here."""
    outside = network_of("self")

    assert [] == [one for one in listening if one.network == outside]
    assert [one for one in listening if ip_address(one.address).is_unspecified]
    assert 1 == len({one.network for one in listening} - {outside})


def test_no_port_of_the_run_is_reached_from_this_machine_s_own_network(ended: Arms, arm: str) -> None:
    """Neither through an address that other machines reach, nor through loopback."""
    assert ports_of_its_own(ended[arm].listening)
    assert [] == ended[arm].reached
