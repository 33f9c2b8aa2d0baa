"""Reads the file of `podTemplate`: the part of a Kubernetes PodTemplateSpec that all pods of a stack have in common.

It says where pods may run, and how others see them. Every other field is refused by its path: as a raw patch it could
give one arm what the others lack, or undo the pods' security. Values are checked as the API server checks them, so that
a preview refuses what an update could not create.
"""

import re
from collections.abc import Callable, Iterator, Mapping
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
"""The fields that a file may have, in words."""
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
"""Beginnings of names by which a node gives a pod another network, or other CPUs than its limit says."""
_SIDECARS = ("sidecar.istio.io/", "linkerd.io/")
"""Beginnings of names by which a mesh adds a container, which does not end with a Job."""
_LONGEST_ANNOTATIONS = 256 * 2**10
_SCHEDULER = re.compile(r"[\w.-]{1,253}", re.ASCII)
_WHOLE = re.compile(r"\d{1,18}", re.ASCII)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_ONE_FILE = "a readable file with one YAML document, a map with metadata and spec, without anchors and repeated keys"


@dataclass(frozen=True)
class Fault:
    """A part of the file that cannot be used."""

    where: str
    """The path of a field; empty for the file."""
    allowed: str
    why: str = ""


class _Loader(yaml.SafeLoader):
    """Refuses anchors, aliases and repeated keys: a reviewer would have to resolve them, and one value would be
    lost."""

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
    """Refuse a file that cannot be used: one problem for all fields that are refused for the same reason."""
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
    """Return the stack's template, an empty one if there is none that can be used; and why it can't be."""
    path = draft.path(draft.cluster.template_file)
    if path is None:
        return PodTemplate(), []
    try:
        content = _loaded(path)
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        return PodTemplate(), [Fault("", _ONE_FILE, _reason(error, path))]
    faults = list(_not_encodable("", content)) or list(_faults(content))
    if faults:
        return PodTemplate(), faults
    metadata, spec = content.get("metadata") or {}, content.get("spec") or {}
    filled = {name: spec[name] for name in FIELDS["spec"] if spec.get(name)}
    return PodTemplate(metadata.get("labels") or {}, metadata.get("annotations") or {}, filled), []


def _loaded(path: Path) -> dict[str, Any]:
    """Return the file's map without fields that are null, which Kubernetes takes for absent. Raises ValueError."""
    if not path.is_file():
        raise ValueError(f"there is no file {short(str(path))}")
    content = _without_nulls(yaml.load(path.read_text(encoding="utf-8"), _Loader))  # noqa: S506 (made from the safe one)
    if not isinstance(content, dict):
        raise ValueError("it holds no map")
    return content


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(part) for key, part in value.items() if part is not None}
    return [_without_nulls(part) for part in value] if isinstance(value, list) else value


def _not_encodable(where: str, value: Any) -> Iterator[Fault]:
    """Refuse halves of surrogate pairs, which YAML can write and no request can."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _not_encodable(where, key)
            yield from _not_encodable(f"{where}.{key}" if where else str(key), part)
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from _not_encodable(f"{where}[{number}]", part)
    elif isinstance(value, str) and any("\ud800" <= character <= "\udfff" for character in value):
        yield Fault(where, "text of whole Unicode characters", "it has half of a surrogate pair")


def _reason(error: Exception, path: Path) -> str:
    if isinstance(error, yaml.MarkedYAMLError):
        line = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        return f"{short(error.problem or 'it is no YAML')}{line}"
    if isinstance(error, OSError | UnicodeDecodeError | RecursionError | yaml.YAMLError):
        return f"{short(str(path))} can't be read: {type(error).__name__}"
    return str(error)


def _faults(content: Mapping[str, Any]) -> Iterator[Fault]:
    for part, fields in content.items():
        if part in FIELDS and isinstance(fields, dict):
            yield from _of_part(part, fields)
        elif part in FIELDS:
            yield Fault(part, "a map")
        else:
            yield from _refused(part, fields)


def _of_part(part: str, fields: Mapping[str, Any]) -> Iterator[Fault]:
    for name, value in fields.items():
        where = f"{part}.{name}"
        if name not in FIELDS[part]:
            yield from _refused(where, value)
        else:
            yield from _CHECKS[name](where, value)


def _refused(where: str, value: Any) -> Iterator[Fault]:
    """Yield the fields below one that is not allowed: the parts of a map, and of each map of a list."""
    items = {f"{where}[{n}]": item for n, item in enumerate(value)} if isinstance(value, list) else {where: value}
    for path, item in items.items():
        for below in [f"{path}.{key}" for key in item] if isinstance(item, dict) and item else [path]:
            yield Fault(below, ALLOWED, "what else a pod has is the same for every arm, and not a user's to set")


def _labels(where: str, value: Any) -> Iterator[Fault]:
    yield from _node_selector(where, value)
    yield from _names_of_ours(where, value)


def _annotations(where: str, value: Any) -> Iterator[Fault]:
    yield from _pairs(where, value, lambda _: True, "a text; quote a number, true or false")
    yield from _names_of_ours(where, value)
    if len(str(value).encode()) > _LONGEST_ANNOTATIONS:
        yield Fault(where, "at most 256 KiB")


def _node_selector(where: str, value: Any) -> Iterator[Fault]:
    words = "a text of at most 63 letters, digits, -, _ and ., with a letter or digit at both ends; quote a number"
    return _pairs(where, value, is_label_value, words)


def _pairs(where: str, value: Any, is_value: Callable[[str], bool], words: str) -> Iterator[Fault]:
    if not isinstance(value, dict):
        yield Fault(where, "a map of names and texts")
        return
    for key, text in value.items():
        if not is_label_key(key):
            yield Fault(f"{where}[{key}]", "a name as labels have it, such as team or example.com/team")
        elif not isinstance(text, str) or not is_value(text):
            yield Fault(f"{where}[{key}]", words)


def _names_of_ours(where: str, value: Any) -> Iterator[Fault]:
    for key in value if isinstance(value, dict) else ():
        if key.startswith(_SET_BY_US) or key in _NAMES_SET_BY_US:
            yield Fault(f"{where}[{key}]", "names of your own", "this program, KubeRay or Kubernetes sets it")
        elif any(part in key for part in _SECURITY):
            yield Fault(f"{where}[{key}]", "names of your own", "it would undo what keeps the pods apart from the node")
        elif key.startswith(_OF_THE_NODE):
            yield Fault(f"{where}[{key}]", "names of your own", "it would change a pod's network, or its CPUs")
        elif key.startswith(_SIDECARS):
            yield Fault(f"{where}[{key}]", "names of your own", "a container beside ours may never let a Job end")


def _each(where: str, value: Any, check: Callable[[str, dict[str, Any]], Iterator[Fault]]) -> Iterator[Fault]:
    """Check the maps of a list."""
    if not isinstance(value, list):
        yield Fault(where, "a list")
        return
    for number, item in enumerate(value):
        path = f"{where}[{number}]"
        yield from check(path, item) if isinstance(item, dict) else [Fault(path, "a map")]


def _tolerations(where: str, value: Any) -> Iterator[Fault]:
    return _each(where, value, _toleration)


def _toleration(where: str, toleration: dict[str, Any]) -> Iterator[Fault]:
    """Check one toleration. Source: the API server's validation of core/v1 Toleration."""
    texts = {name: toleration.get(name, "") for name in ("key", "operator", "value", "effect")}
    operator, seconds = texts["operator"] or "Equal", toleration.get("tolerationSeconds", 0)
    if not (
        toleration.keys() <= {*texts, "tolerationSeconds"}
        and all(isinstance(text, str) for text in texts.values())
        and operator in ("Equal", "Exists")
        and (is_label_key(texts["key"]) or (texts["key"] == "" and operator == "Exists"))
        and (texts["value"] == "" if operator == "Exists" else is_label_value(texts["value"]))
        and texts["effect"] in ("", *EFFECTS)
        and type(seconds) is int
        and -(2**63) <= seconds < 2**63
        and ("tolerationSeconds" not in toleration or texts["effect"] == "NoExecute")
    ):
        yield Fault(
            where,
            f"{', '.join(texts)} and tolerationSeconds, as a pod's tolerations have them",
            f"operator is Equal, or Exists without a value; effect is {', '.join(EFFECTS)} or absent;"
            " tolerationSeconds is NoExecute's",
        )


def _pull_secrets(where: str, value: Any) -> Iterator[Fault]:
    return _each(where, value, _pull_secret)


def _pull_secret(where: str, secret: dict[str, Any]) -> Iterator[Fault]:
    if secret.keys() != {"name"} or not is_subdomain(secret["name"]):
        yield Fault(where, "name: NAME, of a Secret of the namespace")


def _name(where: str, value: Any) -> Iterator[Fault]:
    if not is_subdomain(value):
        yield Fault(where, "a name: at most 253 small letters, digits, - and .")


def _scheduler(where: str, value: Any) -> Iterator[Fault]:
    """Check the name of a scheduler, of which the API server accepts any text."""
    if not isinstance(value, str) or not _SCHEDULER.fullmatch(value):
        yield Fault(where, "a name: at most 253 letters, digits, -, _ and .")


def _affinity(where: str, value: Any) -> Iterator[Fault]:
    for name, rules in value.items() if isinstance(value, dict) else ():
        if name != "nodeAffinity":
            yield Fault(f"{where}.{name}", "nodeAffinity", "the pods of one arm would move those of another")
        elif not isinstance(rules, dict):
            yield Fault(f"{where}.{name}", "a map")
        else:
            yield from _node_affinity(f"{where}.{name}", rules)
    if not isinstance(value, dict):
        yield Fault(where, "a map")


def _node_affinity(where: str, rules: dict[str, Any]) -> Iterator[Fault]:
    for name, value in rules.items():
        path = f"{where}.{name}"
        if name == REQUIRED and isinstance(value, dict) and value.keys() == {"nodeSelectorTerms"}:
            terms = value["nodeSelectorTerms"]
            yield from _each(f"{path}.nodeSelectorTerms", terms, _term)
            yield from [Fault(f"{path}.nodeSelectorTerms", "at least one term")] if terms == [] else []
        elif name == _PREFERRED:
            yield from _each(path, value, _preference)
        else:
            yield Fault(path, f"{REQUIRED} with nodeSelectorTerms, {_PREFERRED} with a list")


def _preference(where: str, item: dict[str, Any]) -> Iterator[Fault]:
    weight = item.get("weight")
    if item.keys() != {"weight", "preference"} or type(weight) is not int or weight not in range(1, 101):
        yield Fault(where, "weight, from 1 to 100, and preference")
    elif not isinstance(item["preference"], dict):
        yield Fault(where, "a map as preference")
    else:
        yield from _term(f"{where}.preference", item["preference"])


def _term(where: str, term: dict[str, Any]) -> Iterator[Fault]:
    checks = {"matchExpressions": _expression, "matchFields": _field}
    if not any(term.values()):
        yield Fault(where, "a requirement of matchExpressions or matchFields", "an empty term matches no node")
        return
    for name, requirements in term.items():
        if name in checks:
            yield from _each(f"{where}.{name}", requirements, checks[name])
        else:
            yield Fault(f"{where}.{name}", "matchExpressions, matchFields")


def _expression(where: str, requirement: dict[str, Any]) -> Iterator[Fault]:
    """Check a requirement of labels. Source: the API server's validation of core/v1 NodeSelectorRequirement."""
    key, operator, values = _parts(requirement)
    fits = {
        "In": values != [],
        "NotIn": values != [],
        "Exists": values == [],
        "DoesNotExist": values == [],
        "Gt": len(values) == 1 and _WHOLE.fullmatch(values[0]) is not None,
        "Lt": len(values) == 1 and _WHOLE.fullmatch(values[0]) is not None,
    }
    is_usual = operator in ("Gt", "Lt") or all(map(is_label_value, values))
    if not (is_label_key(key) and fits.get(operator) and is_usual):
        yield Fault(where, f"key, operator ({', '.join(fits)}), and values that go with it")


def _field(where: str, requirement: dict[str, Any]) -> Iterator[Fault]:
    """Check a requirement of a node's fields, of which the scheduler knows its name alone."""
    key, operator, values = _parts(requirement)
    if key != "metadata.name" or operator not in ("In", "NotIn") or len(values) != 1:
        yield Fault(where, "key metadata.name, operator In or NotIn, and one value")


def _parts(requirement: dict[str, Any]) -> tuple[str, str, list[str]]:
    """Return key, operator and values; empty ones if any is of another type, or there is a further field."""
    key, operator = requirement.get("key"), requirement.get("operator")
    values = requirement.get("values", [])
    if (
        requirement.keys() <= {"key", "operator", "values"}
        and isinstance(key, str)
        and isinstance(operator, str)
        and isinstance(values, list)
        and all(isinstance(value, str) for value in values)
    ):
        return key, operator, values
    return "", "", []


_CHECKS = {
    "labels": _labels,
    "annotations": _annotations,
    "nodeSelector": _node_selector,
    "tolerations": _tolerations,
    "affinity": _affinity,
    "imagePullSecrets": _pull_secrets,
    "priorityClassName": _name,
    "schedulerName": _scheduler,
}
