"""Keys of earlier versions: why they went, and what does their work now. Pure.

A stack's file that still has one is refused: another measurement than the one it describes would run in its place.
"""

import json
import os
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from infra.settings.cluster import ClusterSettings
from infra.settings.key import keys_in
from infra.settings.rules import CHART, CHART_FILE, CHART_REPOSITORY, SUMS, template_line

VERSION = keys_in(ClusterSettings)["kuberayVersion"].default
"""Of KubeRay, where `kuberayVersion` is not set."""


@dataclass(frozen=True, kw_only=True)
class Replacement:
    """What took the place of one key, or of several together."""

    keys: tuple[str, ...]
    instead: str
    """What a user sets now; it follows `allowed:`."""
    why: str
    key: str = ""
    """The key that took their place; empty if there is none."""
    place: str = ""
    """The path that the line below gives it, with {stack}."""
    line: Callable[[Mapping[str, str], str], str] = lambda _, __: ""
    """Returns the command line that sets what the keys meant, from the stack's values and `place`; empty if nothing
    needs to be set. Raises ValueError for values that were never allowed."""
    parts: Callable[[Mapping[str, str]], str] = lambda _: ""
    """Returns the same in words, for somebody who has such a file already. Raises ValueError, too."""

    def refusal(self, key: str) -> str:
        """Return the words for somebody who types one of its keys."""
        return f"{key} is no setting any more: {self.instead} ({self.why})"

    def place_of(self, stack: str) -> str:
        """Return the path for a stack; empty if nothing is written."""
        return self.place.format(stack=stack)


def _pod_template(texts: Mapping[str, str], file: str) -> str:
    spec = _pod_spec(texts)
    return template_line(spec, file) if spec else ""


def _pod_parts(texts: Mapping[str, str]) -> str:
    spec = _pod_spec(texts)
    return f"spec: {json.dumps(spec)}" if spec else ""


def _pod_spec(texts: Mapping[str, str]) -> dict[str, Any]:
    spec = {key: json.loads(texts[key]) for key in ("nodeSelector", "tolerations") if texts.get(key)}
    secrets = _listed(texts.get("imagePullSecrets", ""))
    return spec | ({"imagePullSecrets": [{"name": name} for name in secrets]} if secrets else {})


def _listed(text: str) -> list[str]:
    return [] if text in ("", "none") else [part.strip() for part in text.split(",")]


def _offline(texts: Mapping[str, str], folder: str) -> str:
    quoted = shlex.quote(folder)
    steps = [f"mkdir -p {quoted}", *_chart(texts, quoted)]
    steps += [_written(quoted, file, *lines) for file, lines in _text_files(texts).items()]
    if manifest := _manifest(texts):
        steps.append(f"cp {_path(manifest)} {quoted}/network.yaml")
    return " && ".join([*steps, f"pulumi config set offline {quoted}"])


def _offline_parts(texts: Mapping[str, str]) -> str:
    manifest = _manifest(texts)
    parts = [f"KubeRay's chart and {SUMS}"] if _chart(texts, ".") else []
    parts += [f"{file} with {', '.join(lines) or 'no line'}" for file, lines in _text_files(texts).items()]
    parts += [f"{manifest} as network.yaml"] if manifest else []
    return "; ".join(parts)


def _text_files(texts: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the lines of each text file."""
    network = "" if _manifest(texts) else texts.get("minikubeCni", "")
    files = {
        "base-image.txt": _listed(texts.get("baseImage", "")),
        "images.txt": _listed(texts.get("preloadImages", "")),
        "network.txt": [network] if network else [],
    }
    files = {file: lines for file, lines in files.items() if lines}
    return files | ({"addons.txt": _listed(texts["minikubeAddons"])} if texts.get("minikubeAddons") else {})


def _manifest(texts: Mapping[str, str]) -> str:
    network = texts.get("minikubeCni", "")
    return network if network.endswith((".yaml", ".yml")) else ""


def _chart(texts: Mapping[str, str], folder: str) -> list[str]:
    """Return the commands that put the chart into the folder, a quoted path, with the digest that makes it the trusted
    one."""
    chart, repository = texts.get("kuberayChart") or CHART, texts.get("kuberayRepository", "")
    digest, version = texts.get("kuberayChartDigest", ""), texts.get("kuberayVersion") or VERSION
    file, version = shlex.quote(CHART_FILE.format(version)), shlex.quote(version)
    is_path = "/" in chart or chart.endswith(".tgz")
    if not (is_path or chart != CHART or repository or digest):
        return []
    if chart.endswith(".tgz"):
        fetch = f"cp {_path(chart)} {folder}/{file}"
    elif is_path:
        fetch = f"helm package {_path(chart)} --destination {folder}"
    else:
        mirror = shlex.quote(repository or CHART_REPOSITORY)
        fetch = f"helm pull {shlex.quote(chart)} --repo {mirror} --version {version} --destination {folder}"
    if digest:
        return [fetch, _written(folder, SUMS, f"{digest.removeprefix('sha256:')}  {file}")]
    return [fetch, f"sha256sum {folder}/{file} > {folder}/{SUMS}"]


def _written(folder: str, file: str, *lines: str) -> str:
    """Return the command that writes a file of these lines; an empty one for none."""
    texts = " ".join(map(shlex.quote, lines))
    return f"printf '%s\\n' {texts} > {folder}/{file}" if lines else f": > {folder}/{file}"


def _path(text: str) -> str:
    path = os.path.expanduser(text)  # noqa: PTH111 (Path's raises for an unknown ~user)
    return shlex.quote(f"./{path}" if path.startswith("-") else path)


REPLACEMENTS = (
    Replacement(
        keys=(
            *("baseImage", "kuberayChart", "kuberayChartDigest", "kuberayRepository"),
            *("minikubeAddons", "minikubeCni", "preloadImages"),
        ),
        instead="offline with a folder that has a file for each of them",
        why="one folder holds what a cluster's stack does not download: docs/offline.md",
        key="offline",
        place="offline/{stack}",
        line=_offline,
        parts=_offline_parts,
    ),
    Replacement(
        keys=("nodeSelector", "tolerations", "imagePullSecrets"),
        instead="podTemplate with the path of a YAML file that holds them as a pod's spec does",
        why="one file has what all pods have in common: docs/targets.md",
        key="podTemplate",
        place="stacks/pods.{stack}.yaml",
        line=_pod_template,
        parts=_pod_parts,
    ),
    Replacement(
        keys=("kubernetesVersion",),
        instead="not set: a Minikube cluster has the version that this program is tried with",
        why="to measure on another version, use a cluster of your own with target kubernetes",
    ),
    Replacement(
        keys=("dashboardNodePort",),
        instead="not set: `./rwi jobs dashboard` prints the address",
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
    secrets and without what its rule refuses."""
    try:
        line = replacement.line(texts, replacement.place_of(stack))
    except (ValueError, RecursionError):
        line = ""
    return removing_line(keys, line)


def removing_line(keys: Iterable[str], first: str = "") -> str:
    """Return the command lines that remove the keys, after another one."""
    return " && ".join([*filter(None, [first]), *(f"pulumi config rm {key}" for key in keys)])


def to_add(replacement: Replacement, texts: Mapping[str, str]) -> str:
    """Return in words what some of its keys meant; empty if that is nothing."""
    try:
        return replacement.parts(texts)
    except (ValueError, RecursionError):
        return ""
