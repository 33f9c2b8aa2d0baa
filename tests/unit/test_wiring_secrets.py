"""What is secret in the settings is secret in the state, in every place: an input in clear is kept in clear."""

import pytest

from tests.unit.test_wiring import record

SCRIPT = ("workload=script", "script=examples/keras_tf_config.py", "secretEnvironment=COLOUR=crimson")
KEYS = ("storage=s3://bucket/x", "storageCredentials=AWS_ACCESS_KEY_ID=a AWS_SECRET_ACCESS_KEY=b")


@pytest.mark.parametrize(
    ("given", "secrets"),
    [
        (("local", *SCRIPT), {"ray-1.secretEnvironment"}),
        (("local", *KEYS, "allowOpenPorts=true", "--preview"), {"ray-1.storageCredentials"}),
        (("ray", *SCRIPT, "rayToken=secret"), {"ray-1.secretEnvironment", "ray-1.token"}),
        (("minikube", *KEYS, "storageEndpoint=http://minio.store.svc:9000"), {"ray-worth-it-storage.stringData"}),
    ],
    ids=["script here", "storage here", "ray", "storage in pods"],
)
def test_a_secret_is_one_in_the_state(given: tuple[str, ...], secrets: set[str]) -> None:
    """Of each run, and of the Secret that pods have."""
    recorded = record(*given)

    assert secrets <= set(recorded["secrets"]), recorded["secrets"]
