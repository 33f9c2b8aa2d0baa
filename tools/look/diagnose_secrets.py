"""Collects what an archive must not contain: the values of the namespace's Secrets and this machine's credentials."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from infra.places.cluster.api import kube
from infra.places.cluster.api.kube import KubeError
from infra.places.cluster.manifests.ray_cluster import TOKEN_SECRET
from tools.look.cluster import StackCluster
from tools.look.scrub import Scrubber
from tools.look.scrub_forms import is_secret_name
from tools.setup.project import ROOT, say


def scrubber_of(stack_cluster: StackCluster, api: Any) -> Scrubber:
    """Return a scrubber of those values; if the Secrets can't be read, one that removes what looks random, too."""
    own = [*_environment(os.environ), *_kubeconfig(stack_cluster)]
    if api is None:
        return Scrubber([], own)
    path = f"/api/v1/namespaces/{stack_cluster.namespace}/secrets"
    try:
        return Scrubber(kube.items(api, path), own)
    except KubeError as error:
        say(f"the Secrets can't be read ({error}): what looks like one is removed, and every word that looks random")
    try:
        return Scrubber([kube.get(api, f"{path}/{TOKEN_SECRET}")], own, strict=True)
    except KubeError:
        return Scrubber([], own, strict=True)


def _environment(variables: Mapping[str, str]) -> Iterator[str]:
    """Return credentials in the environment, such as a proxy's or a cloud's, which programs may print."""
    return (value for name, value in variables.items() if is_secret_name(name) and name not in ("PWD", "OLDPWD"))


def _kubeconfig(stack_cluster: StackCluster) -> Iterator[str]:
    """Yield the credentials in the stack's kubeconfig."""
    if not stack_cluster.kubeconfig:
        return
    try:
        users = yaml.safe_load((ROOT / stack_cluster.kubeconfig).expanduser().read_text(encoding="utf-8"))["users"]
        for user in users:
            yield from (
                value for name, value in user["user"].items() if isinstance(value, str) and is_secret_name(name)
            )
    except (OSError, ValueError, yaml.YAMLError, KeyError, TypeError, AttributeError):
        return  # without one that can be read nothing of it is shown either
