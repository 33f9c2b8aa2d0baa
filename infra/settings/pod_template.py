"""Reads the file of `podTemplate`: the part of a Kubernetes PodTemplateSpec that all pods of a stack have in common.

It says where pods may run, and how others see them. Every other field is refused by its path: as a raw patch it could
give one arm what the others lack, or undo the pods' security. Spread constraints and affinity between pods are refused,
because Ray's idle pods would move those of other arms. Types and names of fields are those of the installed client of
Kubernetes; values are checked as the API server checks them, so that a preview refuses what an update could not create.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from infra.settings.draft import Draft, short
from infra.settings.problem import Problem, set_line
from infra.settings.rules import EFFECTS, PodTemplate, is_label_key, is_label_value, is_subdomain

FIELDS = {
    "metadata": ("labels", "annotations"),
    "spec": ("nodeSelector", "tolerations", "affinity", "imagePullSecrets", "priorityClassName", "schedulerName"),
}
ALLOWED = ", ".join(f"{part}.{name}" for part, names in FIELDS.items() for name in names)
"""The fields that the file may have, as text for messages."""
_SET_BY_US = ("ray.io/", "ray-worth-it/", "pulumi.com/", "helm.sh/", "batch.kubernetes.io/")
_NAMES_SET_BY_US = (
    *(f"app.kubernetes.io/{name}" for name in ("component", "created-by", "instance", "managed-by", "name", "part-of")),
    *("controller-uid", "job-name", "pod-template-hash"),
)
_SECURITY = (".security.beta.kubernetes.io/", ".security.alpha.kubernetes.io/")
_OF_THE_NODE = (
    *("k8s.v1.cni.cncf.io/", "v1.multus-cni.io/", "kubernetes.io/config.", "io.kubernetes.cri-o."),
    *("cpu-quota.crio.io", "cpu-load-balancing.crio.io", "irq-load-balancing.crio.io"),
)
"""The beginnings of annotations by which a node gives a pod another network, or other CPUs than its limits."""
_SIDECARS = ("sidecar.istio.io/", "linkerd.io/")
"""The beginnings of annotation names by which a service mesh adds a container that does not end together with a Job."""
_LONGEST_ANNOTATIONS = 256 * 2**10
_SCHEDULER = re.compile(r"[\w.-]{1,253}", re.ASCII)
_WHOLE = re.compile(r"\d{1,18}", re.ASCII)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_TYPES = {
    "string_type": "a text; quote a number, true or false",
    "int_type": "a whole number",
    "list_type": "a list",
    "dict_type": "a map of names and texts",
    "model_type": "a map",
    "missing": "a value: Kubernetes requires this field",
    "extra_forbidden": "a field that Kubernetes has here: `kubectl explain pod.spec` names them",
}
"""What is allowed at a place of the file where one of Kubernetes' models reports an error of this type."""
_ONE_FILE = "a readable file with one YAML document, a map with metadata and spec, without anchors and repeated keys"


@dataclass(frozen=True)
class Fault:
    """A part of the file that cannot be used, with what is allowed there and why."""

    where: str
    """The path of a field in the file; empty for the whole file."""
    allowed: str
    why: str = ""


class _Loader(yaml.SafeLoader):
    """Loads YAML, but refuses anchors, aliases and repeated keys: a reviewer would have to resolve the first two, and
    of a repeated key one value would be lost."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if getattr(event, "anchor", None):
            raise yaml.composer.ComposerError(None, None, "it has an anchor or an alias", event.start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [key.value for key, _ in node.value]
        for number, (key, _) in enumerate(node.value):
            if not isinstance(key, yaml.ScalarNode) or key.tag != "tag:yaml.org,2002:str":
                raise yaml.constructor.ConstructorError(None, None, "it has a key that is no text", key.start_mark)
            if key.value in names[:number]:
                raise yaml.constructor.ConstructorError(None, None, f"it has {key.value} twice", key.start_mark)
        return super().construct_mapping(node, deep)


def problems(draft: Draft) -> Iterator[Problem]:
    """Yield a problem for each reason why the file cannot be used, with all fields that it is about."""
    template, faults = read(draft)
    for allowed, why in dict.fromkeys((fault.allowed, fault.why) for fault in faults):
        fields = [
            short(fault.where) for fault in faults if fault.where and (fault.allowed, fault.why) == (allowed, why)
        ]
        what = f"{draft.shown('podTemplate')}{': ' if fields else ''}{', '.join(fields)}"
        yield Problem(what, allowed, ("pulumi config rm podTemplate",), why=why)
    if template.spec.get("imagePullSecrets") and draft.cluster.create_namespace:
        yield Problem(
            f"{draft.shown('podTemplate')}: spec.imagePullSecrets with {draft.shown('createNamespace')}",
            "pull secrets of a namespace that exists",
            (set_line("createNamespace", "false"), "pulumi config rm podTemplate"),
            why="a namespace made by this stack holds no pull secret, and the stack keeps none",
        )


def read(draft: Draft) -> tuple[PodTemplate, list[Fault]]:
    """Return the pod template in the file, which is empty without one or with a fault, and the faults."""
    path = draft.path(draft.cluster.template_file)
    if path is None:
        return PodTemplate(), []
    try:
        content = _loaded(path)
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        return PodTemplate(), [Fault("", _ONE_FILE, _reason(error, path))]
    faults = list(_faults(content))
    if faults:
        return PodTemplate(), faults
    metadata, spec = content.get("metadata") or {}, content.get("spec") or {}
    filled = {name: spec[name] for name in FIELDS["spec"] if spec.get(name)}
    return PodTemplate(metadata.get("labels") or {}, metadata.get("annotations") or {}, filled), []


def _loaded(path: Path) -> dict[str, Any]:
    """Return the mapping in the file, without fields that are null, which Kubernetes treats as absent. Raise ValueError
    if the file holds no such mapping."""
    if not path.is_file():
        raise ValueError(f"there is no file {short(str(path))}")
    content = _without_nulls(yaml.load(path.read_text(encoding="utf-8"), _Loader))  # noqa: S506 (made from the safe one)
    if not isinstance(content, dict):
        raise ValueError("it holds no map")
    try:
        json.dumps(content, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        raise ValueError("it has half of a surrogate pair, which YAML can write and no request can") from None
    return content


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(part) for key, part in value.items() if part is not None}
    return [_without_nulls(part) for part in value] if isinstance(value, list) else value


def _reason(error: Exception, path: Path) -> str:
    if isinstance(error, yaml.MarkedYAMLError):
        line = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        return f"{short(error.problem or 'it is no YAML')}{line}"
    if isinstance(error, OSError | UnicodeDecodeError | RecursionError | yaml.YAMLError):
        return f"{short(str(path))} can't be read: {type(error).__name__}"
    return str(error)


def _faults(content: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the file's faults: fields that a user may not set, of wrong types, or that break another rule."""
    allowed: dict[str, Any] = {}
    for part, fields in content.items():
        if part not in FIELDS:
            yield from _refused(part, fields)
        elif isinstance(fields, dict):
            allowed[part] = {name: value for name, value in fields.items() if name in FIELDS[part]}
            for name in [name for name in fields if name not in allowed[part]]:
                yield from _refused(f"{part}.{name}", fields[name])
        else:
            yield Fault(part, _TYPES["model_type"])
    of_wrong_type = list(_of_wrong_type(allowed))
    yield from of_wrong_type
    for part, fields in allowed.items():
        for name, value in fields.items():
            if not any(fault.where.startswith(f"{part}.{name}") for fault in of_wrong_type):
                yield from _CHECKS[name](f"{part}.{name}", value)


def _refused(where: str, value: Any) -> Iterator[Fault]:
    """Yield a fault for each field below one that is not allowed, in a mapping or a list of mappings."""
    items = {f"{where}[{n}]": item for n, item in enumerate(value)} if isinstance(value, list) else {where: value}
    for path, item in items.items():
        for below in [f"{path}.{key}" for key in item] if isinstance(item, dict) and item else [path]:
            yield Fault(below, ALLOWED, "what else a pod has is the same for every arm, and not a user's to set")


def _of_wrong_type(content: dict[str, Any]) -> Iterator[Fault]:
    """Yield what Kubernetes' own models refuse: wrong types, unknown fields and missing fields that are required."""
    from kubernetes.client.models import V1PodTemplateSpec
    from pydantic import ValidationError

    spec = content.get("spec", {})
    try:
        model = V1PodTemplateSpec.model_validate({**content, "spec": {**spec, "containers": []}})
    except ValidationError as error:
        yield from (Fault(_path(fault["loc"]), _TYPES.get(fault["type"], fault["msg"])) for fault in error.errors())
        return
    written = model.model_dump(by_alias=True, exclude_unset=True)["spec"]
    for name in spec:  # The models read Python's names, too, which no API server knows.
        if spec[name] != written[name]:
            yield Fault(f"spec.{name}", "fields as Kubernetes writes them, such as tolerationSeconds")


def _path(location: tuple[str | int, ...]) -> str:
    """Return the path of a field as text. List indexes, and names that the user chose, stand in brackets."""
    path = ""
    for part, parent in zip(location, ("", *location), strict=False):
        in_brackets = isinstance(part, int) or parent in ("labels", "annotations", "nodeSelector")
        path += f"[{part}]" if in_brackets else f".{part}"
    return path.removeprefix(".")


def _labels(where: str, labels: dict[str, str]) -> Iterator[Fault]:
    yield from _node_selector(where, labels)
    yield from _names_of_ours(where, labels)


def _annotations(where: str, annotations: dict[str, str]) -> Iterator[Fault]:
    yield from _keys(where, annotations)
    yield from _names_of_ours(where, annotations)
    if len(str(annotations).encode()) > _LONGEST_ANNOTATIONS:
        yield Fault(where, "at most 256 KiB")


def _node_selector(where: str, labels: dict[str, str]) -> Iterator[Fault]:
    words = "a text of at most 63 letters, digits, -, _ and ., with a letter or digit at both ends"
    yield from _keys(where, labels)
    yield from (Fault(f"{where}[{key}]", words) for key, text in labels.items() if not is_label_value(text))


def _keys(where: str, pairs: dict[str, str]) -> Iterator[Fault]:
    for key in pairs:
        if not is_label_key(key):
            yield Fault(f"{where}[{key}]", "a name as labels have it, such as team or example.com/team")


def _names_of_ours(where: str, pairs: dict[str, str]) -> Iterator[Fault]:
    for key in pairs:
        if key.startswith(_SET_BY_US) or key in _NAMES_SET_BY_US:
            yield Fault(f"{where}[{key}]", "names of your own", "this program, KubeRay or Kubernetes sets it")
        elif any(part in key for part in _SECURITY):
            yield Fault(f"{where}[{key}]", "names of your own", "it would undo what keeps the pods apart from the node")
        elif key.startswith(_OF_THE_NODE):
            yield Fault(f"{where}[{key}]", "names of your own", "it would change a pod's network, or its CPUs")
        elif key.startswith(_SIDECARS):
            yield Fault(f"{where}[{key}]", "names of your own", "a container beside ours may never let a Job end")


def _tolerations(where: str, tolerations: list[dict[str, Any]]) -> Iterator[Fault]:
    """Yield the faults in tolerations that types do not show. Source: validation of core/v1 in the API server."""
    for number, toleration in enumerate(tolerations):
        key, value, effect = (toleration.get(name, "") for name in ("key", "value", "effect"))
        operator = toleration.get("operator") or "Equal"
        if not (
            operator in ("Equal", "Exists")
            and (is_label_key(key) or (key == "" and operator == "Exists"))
            and (value == "" if operator == "Exists" else is_label_value(value))
            and effect in ("", *EFFECTS)
            and -(2**63) <= toleration.get("tolerationSeconds", 0) < 2**63
            and ("tolerationSeconds" not in toleration or effect == "NoExecute")
        ):
            yield Fault(
                f"{where}[{number}]",
                "key, operator, value, effect and tolerationSeconds, as a pod's tolerations have them",
                f"operator is Equal, or Exists without a value; effect is {', '.join(EFFECTS)} or absent;"
                " tolerationSeconds is NoExecute's",
            )


def _pull_secrets(where: str, secrets: list[dict[str, str]]) -> Iterator[Fault]:
    for number, secret in enumerate(secrets):
        if not is_subdomain(secret.get("name")):
            yield Fault(f"{where}[{number}]", "name: NAME, of a Secret of the namespace")


def _name(where: str, name: str) -> Iterator[Fault]:
    if not is_subdomain(name):
        yield Fault(where, "a name: at most 253 small letters, digits, - and .")


def _scheduler(where: str, name: str) -> Iterator[Fault]:
    """Yield a fault if the name of a scheduler is not valid. The API server itself accepts any text."""
    if not _SCHEDULER.fullmatch(name):
        yield Fault(where, "a name: at most 253 letters, digits, -, _ and .")


def _affinity(where: str, affinity: dict[str, Any]) -> Iterator[Fault]:
    for name in affinity:
        if name != "nodeAffinity":
            yield Fault(f"{where}.{name}", "nodeAffinity", "the pods of one arm would move those of another")
    rules = affinity.get("nodeAffinity", {})
    if REQUIRED in rules:
        path, terms = f"{where}.nodeAffinity.{REQUIRED}.nodeSelectorTerms", rules[REQUIRED]["nodeSelectorTerms"]
        if not terms:
            yield Fault(path, "at least one term")
        for number, term in enumerate(terms):
            yield from _term(f"{path}[{number}]", term)
    for number, item in enumerate(rules.get(_PREFERRED, [])):
        path = f"{where}.nodeAffinity.{_PREFERRED}[{number}]"
        if item["weight"] not in range(1, 101):
            yield Fault(path, "weight, from 1 to 100, and preference")
        else:
            yield from _term(f"{path}.preference", item["preference"])


def _term(where: str, term: dict[str, list[dict[str, Any]]]) -> Iterator[Fault]:
    if not any(term.values()):
        yield Fault(where, "a requirement of matchExpressions or matchFields", "an empty term matches no node")
    for number, requirement in enumerate(term.get("matchExpressions", [])):
        if not _is_expression(**requirement):
            path = f"{where}.matchExpressions[{number}]"
            yield Fault(path, f"key, operator ({', '.join(_OPERATORS)}), and values that go with it")
    for number, requirement in enumerate(term.get("matchFields", [])):
        # The scheduler knows a node's name alone.
        key, operator, values = (requirement.get(name, []) for name in ("key", "operator", "values"))
        if key != "metadata.name" or operator not in ("In", "NotIn") or len(values) != 1:
            path = f"{where}.matchFields[{number}]"
            yield Fault(path, "key metadata.name, operator In or NotIn, and one value")


def _is_expression(key: str, operator: str, values: Sequence[str] = ()) -> bool:
    """Return whether a requirement on labels is valid. Source: the API server's validation of core/v1
    NodeSelectorRequirement."""
    if operator in ("Gt", "Lt"):
        fits = len(values) == 1 and _WHOLE.fullmatch(values[0]) is not None
    else:
        fits = bool(values) == (operator in ("In", "NotIn")) and all(map(is_label_value, values))
    return is_label_key(key) and operator in _OPERATORS and fits


_CHECKS: dict[str, Callable[[str, Any], Iterator[Fault]]] = {
    "labels": _labels,
    "annotations": _annotations,
    "nodeSelector": _node_selector,
    "tolerations": _tolerations,
    "affinity": _affinity,
    "imagePullSecrets": _pull_secrets,
    "priorityClassName": _name,
    "schedulerName": _scheduler,
}
