"""A connection to the cluster with the Python client, from a kubeconfig file. For what Pulumi's provider can't do."""

from pathlib import Path
from typing import Any

from training.provenance import PROJECT


def client(kubeconfig: str, context: str | None) -> Any:
    """An API client; an empty path means the standard rules (KUBECONFIG, ~/.kube/config)."""
    from kubernetes import config

    path = str(PROJECT / Path(kubeconfig).expanduser()) if kubeconfig else None
    return config.new_client_from_config(config_file=path, context=context or None)
