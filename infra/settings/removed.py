"""Keys of earlier versions: why they went, and what does their work now. Pure.

A stack's file that still has one is refused: another measurement than the one it describes would run in its place.
"""

import json
import os
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from infra.settings.rules import template_line

NAME = "kuberay-operator"
VERSION = "1.6.2"
"""The chart's name, and its version where `kuberayVersion` was not set."""


@dataclass(frozen=True, kw_only=True)
class Replacement:
    """What took the place of one key, or of several together."""

    keys: tuple[str, ...]
    instead: str
    """What a user sets now; it follows `allowed:`."""
    why: str
    line: Callable[[Mapping[str, str], str], str] = lambda _, __: ""
    """Returns the command line that sets what the keys meant, from the stack's values and name; empty if nothing needs
    to be set. Raises ValueError for values that were never allowed."""


def _pod_template(texts: Mapping[str, str], stack: str) -> str:
    spec = {key: json.loads(texts[key]) for key in ("nodeSelector", "tolerations") if texts.get(key)}
    secrets = _listed(texts.get("imagePullSecrets", ""))
    spec |= {"imagePullSecrets": [{"name": name} for name in secrets]} if secrets else {}
    return template_line(spec, f"stacks/pods.{stack}.yaml") if spec else ""


def _listed(text: str) -> list[str]:
    return [] if text in ("", "none") else [part.strip() for part in text.split(",")]


def _offline(texts: Mapping[str, str], stack: str) -> str:
    folder = f"offline/{stack}"
    steps = [f"mkdir -p {folder}", *_chart(texts, folder)]
    if image := texts.get("baseImage"):
        steps.append(_written(folder, "base-image.txt", image))
    if images := _listed(texts.get("preloadImages", "")):
        steps.append(_written(folder, "images.txt", *images))
    if texts.get("minikubeAddons"):
        steps.append(_written(folder, "addons.txt", *_listed(texts["minikubeAddons"])))
    network = texts.get("minikubeCni", "")
    if network.endswith((".yaml", ".yml")):
        steps.append(f"cp {_path(network)} {folder}/network.yaml")
    elif network:
        steps.append(_written(folder, "network.txt", network))
    return " && ".join([*steps, f"pulumi config set offline {folder}"])


def _chart(texts: Mapping[str, str], folder: str) -> list[str]:
    """Return the commands that put the chart into the folder, with the digest that makes it the trusted one."""
    chart, repository = texts.get("kuberayChart") or NAME, texts.get("kuberayRepository", "")
    digest, version = texts.get("kuberayChartDigest", ""), texts.get("kuberayVersion") or VERSION
    file = f"{NAME}-{version}.tgz"
    is_path = "/" in chart or chart.endswith(".tgz")
    if not (is_path or chart != NAME or repository or digest):
        return []
    if chart.endswith(".tgz"):
        fetch = f"cp {_path(chart)} {folder}/{file}"
    elif is_path:
        fetch = f"helm package {_path(chart)} --destination {folder}"
    else:
        mirror = shlex.quote(repository or "https://ray-project.github.io/kuberay-helm/")
        fetch = f"helm pull {shlex.quote(chart)} --repo {mirror} --version {version} --destination {folder}"
    if digest:
        return [fetch, _written(folder, "SHA256SUMS", f"{digest.removeprefix('sha256:')}  {file}")]
    return [fetch, f"sha256sum {folder}/{file} > {folder}/SHA256SUMS"]


def _written(folder: str, file: str, *lines: str) -> str:
    """Return the command that writes a file of these lines; an empty one for none."""
    texts = " ".join(map(shlex.quote, lines))
    return f"printf '%s\\n' {texts} > {folder}/{file}" if lines else f": > {folder}/{file}"


def _path(text: str) -> str:
    return shlex.quote(os.path.expanduser(text))  # noqa: PTH111 (Path's raises for an unknown ~user)


REPLACEMENTS = (
    Replacement(
        keys=(
            *("baseImage", "kuberayChart", "kuberayChartDigest", "kuberayRepository"),
            *("minikubeAddons", "minikubeCni", "preloadImages"),
        ),
        instead="offline with a folder that has a file for each of them",
        why="one folder holds what a cluster's stack does not download: docs/offline.md",
        line=_offline,
    ),
    Replacement(
        keys=("nodeSelector", "tolerations", "imagePullSecrets"),
        instead="podTemplate with the path of a YAML file that holds them as a pod's spec does",
        why="one file has what all pods have in common: docs/targets.md",
        line=_pod_template,
    ),
    Replacement(
        keys=("kubernetesVersion",),
        instead="not set: a Minikube cluster has the version that this program is tried with",
        why="to measure on another version, use a cluster of your own with target kubernetes",
    ),
    Replacement(
        keys=("dashboardNodePort",),
        instead="not set: `make dashboard` prints the address",
        why="Ray's dashboard answers at port 30265 of Minikube's nodes",
    ),
    Replacement(
        keys=("tunedRay",),
        instead="not set: the arm ray is Ray as its documentation has it",
        why="Ray with private patches is no arm any more, because nobody could use it",
    ),
)
REMOVED = {key: replacement for replacement in REPLACEMENTS for key in replacement.keys}
"""What took the place of a removed key, by its name."""


def fixing_line(replacement: Replacement, keys: Iterable[str], texts: Mapping[str, str], stack: str) -> str:
    """Return the command lines that set what some of its keys meant, and remove them; `texts` are the stack's, without
    secrets."""
    try:
        line = replacement.line(texts, stack)
    except (ValueError, RecursionError):
        line = ""
    return " && ".join([*filter(None, [line]), *(f"pulumi config rm {key}" for key in keys)])
