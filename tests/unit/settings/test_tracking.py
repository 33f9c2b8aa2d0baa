"""The setting `trackingUri`: the address of a server, and nothing that lets somebody in."""

from dataclasses import replace

import pytest

from tests.unit.settings_machine import machine, only_problem, problems, settings

SERVER = "http://mlflow.example.com:5000"


@pytest.mark.parametrize("address", [SERVER, f"{SERVER}/", "https://ml.example.com/team/mlflow", "http://[::1]:5000"])
def test_the_comparison_is_told_the_server(address: str) -> None:
    """By the settings that are not their defaults: there publishing finds it."""
    assert address == settings(trackingUri=address).explicit["trackingUri"]
    assert "trackingUri" not in settings().explicit


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ("http://me:hunter2@mlflow.example.com:5000", SERVER),
        ("http://hunter2@mlflow.example.com:5000", SERVER),
        ("https://ml.example.com/mlflow?token=hunter2", "https://ml.example.com/mlflow"),
        ("https://ml.example.com/mlflow#hunter2", "https://ml.example.com/mlflow"),
        ("http://me:hunter2@mlflow.example.com:99999", SERVER),
        ("http://me:hunter2@:5000", SERVER),
    ],
)
def test_credentials_in_the_address_are_refused_and_not_shown(given: str, address: str) -> None:
    """With the address without them, and the variables that MLflow's client reads instead."""
    message = only_problem(trackingUri=given)

    assert "hunter2" not in message
    assert f"pulumi config set trackingUri {address}\n" in f"{message}\n"
    assert "MLFLOW_TRACKING_TOKEN" in message


def test_a_secret_address_is_refused() -> None:
    """Publishing would not be told it; and where no engine decrypts it, its value is not known."""
    secret = machine(secret=frozenset({"trackingUri"}))

    for values in ({"trackingUri": SERVER}, {}):
        (problem,) = problems(secret, **values)
        assert (f"pulumi config rm trackingUri && pulumi config set trackingUri {SERVER}",) == problem.fixes


def test_its_client_is_installed_where_the_key_is_set() -> None:
    """By make, and for plain pulumi by the line; a stack without the key needs none."""
    without = replace(machine(), tracking_installed=False)

    (problem,) = problems(without, trackingUri=SERVER)

    assert ("uv sync --frozen --inexact --extra tracking", "pulumi config rm trackingUri") == problem.fixes
    assert "trackingUri" not in settings(without).explicit
