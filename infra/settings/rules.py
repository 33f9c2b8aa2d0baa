"""Rules for settings that only the program has: names, images, memory and lists; and the types of their values.

Not here: the rules of a recipe's values (`training.contract.recipe`).
"""

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Any

from training.contract.repeats import AS_MANY_AS_IT_TAKES, AUTO, MOST_REPEATS, Repeats
from training.contract.rules import Rule, whole

_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_QUANTITY = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)(Ki|Mi|Gi|Ti|k|M|G|T|)", re.ASCII)
_MOST_MEMORY = 64 * 2**40
_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_IMAGE_PATH = r"(?:[a-zA-Z0-9.-]+(?::\d+)?/)?[a-z0-9]+(?:[._/-]+[a-z0-9]+)*"
_IMAGE = re.compile(rf"{_IMAGE_PATH}(?::(?P<tag>\w[\w.-]{{0,127}}))?(?P<digest>@sha256:[0-9a-f]{{64}})?", re.ASCII)
_DOMAIN = rf"(?=[^/]{{1,253}}/){_LABEL}(?:\.{_LABEL})*/"
_LABEL_KEY = re.compile(rf"(?:{_DOMAIN})?[A-Za-z0-9](?:[\w.-]{{0,61}}[A-Za-z0-9])?", re.ASCII)
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[\w.-]{0,61}[A-Za-z0-9])?)?", re.ASCII)
_SUBDOMAIN = re.compile(rf"(?=.{{1,253}}$){_LABEL}(?:\.{_LABEL})*", re.ASCII)
STORES = ("s3", "gs")
"""The schemes of addresses in storage."""
CHART, CHART_FILE = "kuberay-operator", "kuberay-operator-{}.tgz"
"""The name of KubeRay's chart in its repository, and its archive's, as `helm pull` writes it; {} is the version."""
CHART_REPOSITORY = "https://ray-project.github.io/kuberay-helm/"
SUMS = "SHA256SUMS"
"""The file with the digest of an archive, in the same folder as the archive."""
CLAIM = "pvc"
"""The value of `storage` that means a PersistentVolumeClaim of the stack's own."""
MOUNTED = "/storage"
"""The folder in which pods mount the claim."""
KEY_ID, KEY, SESSION = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"
"""The variables with S3 credentials, as S3 clients name them."""
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[^?#\s]*)?$", re.ASCII)


@dataclass(frozen=True)
class Quantity:
    """An amount of memory: as text in the notation of Kubernetes, and in bytes."""

    text: str
    bytes: int


def repeats() -> Rule:
    """Return the rule for a number of repeats, or `auto`, which means as many repeats as a decision takes."""
    number = whole(1, MOST_REPEATS)

    def parse(text: str) -> Repeats:
        if text.strip() == AUTO:
            return AS_MANY_AS_IT_TAKES
        fixed: int = number.parse(text)
        return Repeats(fixed, fixed)

    return Rule(parse, f"{number.allowed}, or {AUTO}", harmless=True)


def quantity(lowest: str) -> Rule:
    """Return the rule for memory as a Kubernetes quantity of at least `lowest`."""

    def parse(text: str) -> Quantity:
        match = _QUANTITY.fullmatch(text.strip())
        if not match:
            raise ValueError(text)
        return Quantity(text.strip(), int(float(match[1]) * _UNITS[match[2]]))

    floor = parse(lowest).bytes

    def checked(text: str) -> Quantity:
        value = parse(text)
        if not floor <= value.bytes <= _MOST_MEMORY:
            raise ValueError(text)
        return value

    return Rule(checked, f"from {lowest} to 64Ti, as Kubernetes writes memory: 1536Mi, 2Gi", harmless=True)


def matching(pattern: str, allowed: str) -> Rule:
    """Return the rule for text that matches the whole pattern."""
    compiled = re.compile(pattern, re.ASCII)

    def parse(text: str) -> str:
        if not compiled.fullmatch(text.strip()):
            raise ValueError(text)
        return text.strip()

    return Rule(parse, allowed)


def label(longest: int = 63) -> Rule:
    """Return the rule for a DNS label (RFC 1123), which Kubernetes requires as the name of a namespace."""
    return matching(
        rf"(?=.{{1,{longest}}}$){_LABEL}",
        f"at most {longest} small letters, digits and -, with a letter or digit at both ends",
    )


def subdomain(longest: int) -> Rule:
    """Return the rule for the name of most Kubernetes objects (RFC 1123), but at most `longest` characters long."""
    return matching(
        rf"(?=.{{1,{longest}}}$){_LABEL}(?:\.{_LABEL})*",
        f"at most {longest} small letters, digits, - and ., with a letter or digit at both ends",
    )


def is_label_key(text: str) -> bool:
    """Return whether Kubernetes accepts the text as the name of a label or an annotation, with or without a prefix."""
    return _LABEL_KEY.fullmatch(text) is not None


def is_label_value(text: str) -> bool:
    """Return whether Kubernetes accepts the text as the value of a label."""
    return _LABEL_VALUE.fullmatch(text) is not None


def label_key() -> Rule:
    """Return the rule for the name of a label or of an extended resource."""

    def parse(text: str) -> str:
        if not is_label_key(text.strip()):
            raise ValueError(text)
        return text.strip()

    return Rule(parse, "a name with a domain before it, such as nvidia.com/gpu")


def labels() -> Rule:
    """Return the rule for labels of nodes, which select the nodes for pods."""

    def parse(text: str) -> dict[str, str]:
        pairs = [part.strip().partition("=") for part in text.split(",")]
        if not all(equals and is_label_key(name) and is_label_value(value) for name, equals, value in pairs):
            raise ValueError(text)
        return {name: value for name, _, value in pairs}

    return Rule(parse, "name=value, several separated by commas, as nodes have them as labels")


EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
"""The effects that a taint can have on pods that do not tolerate the taint."""


def toleration() -> Rule:
    """Return the rule for a toleration, written in the notation in which `kubectl taint` takes a taint."""

    def parse(text: str) -> dict[str, str]:
        taint, _, effect = text.strip().partition(":")
        name, equals, value = taint.partition("=")
        if not is_label_key(name) or not is_label_value(value) or (effect or EFFECTS[0]) not in EFFECTS:
            raise ValueError(text)
        of_value = {"operator": "Equal", "value": value} if equals else {"operator": "Exists"}
        return {"key": name, **of_value, **({"effect": effect} if effect else {})}

    return Rule(parse, "taints as kubectl writes them: name, name=value, name:NoSchedule or name=value:NoSchedule")


def is_subdomain(text: object) -> bool:
    """Return whether a value is a text that Kubernetes accepts as the name of most objects (RFC 1123)."""
    return isinstance(text, str) and _SUBDOMAIN.fullmatch(text) is not None


@dataclass(frozen=True)
class PodTemplate:
    """What a user sets for all pods: where they may run, and their labels and annotations."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    spec: Mapping[str, Any] = field(default_factory=dict)
    """Fields of a pod's spec; no value is empty."""


BASE_IMAGE = "python:3.11-slim@sha256:9c900dea9e8fb7e16277c179b555cc72d29a352dbc33cff48ad5a0412fd5bfc7"


@dataclass(frozen=True, kw_only=True)
class Supplies:
    """Where the parts of a cluster come from: the names of downloads, or files in the folder `offline`."""

    base_image: str = BASE_IMAGE
    """The image that the training image is built from."""
    chart: str | None = None
    """The path of the archive with KubeRay's chart; None if the archive is fetched from KubeRay's repository."""
    chart_digest: str = ""
    """The SHA-256 of that archive that the folder `offline` states; empty if the folder states no SHA-256."""
    images: tuple[str, ...] = ()
    """Images of this machine's Docker that are loaded into every Minikube node first."""
    network: str = "calico"
    """Minikube's pod network: a name that Minikube knows, or a manifest's path. It must enforce NetworkPolicy."""
    network_digest: str = ""
    """The SHA-256 of that manifest; empty if `network` is a name."""
    addons: tuple[str, ...] = ("metrics-server",)
    """Addons of Minikube to enable."""


def template_line(spec: Mapping[str, Any], file: str) -> str:
    """Return the command line that writes a file with these fields of a pod's template, and sets `podTemplate` to it.
    The file is JSON, which is valid YAML, too."""
    return f"printf '%s\\n' {shlex.quote(json.dumps({'spec': spec}))} > {file} && pulumi config set podTemplate {file}"


def image() -> Rule:
    """Return the rule for an image with a digest, or with a tag other than latest: its name means one image."""

    def parse(text: str) -> str:
        match = _IMAGE.fullmatch(text.strip())
        if not match or match["tag"] == "latest" or not (match["tag"] or match["digest"]):
            raise ValueError(text)
        return text.strip()

    return Rule(parse, "an image with a tag other than latest, or with a @sha256: digest")


@dataclass(frozen=True)
class Destination:
    """A range of addresses that pods may call, and the TCP port."""

    cidr: str
    port: int


def destination() -> Rule:
    """Return the rule for addresses and a TCP port. It allows no host names, because NetworkPolicy accepts none."""

    def parse(text: str) -> Destination:
        addresses, _, port = text.strip().rpartition(":")
        number = int(port)
        if not 0 < number < 2**16:
            raise ValueError(text)
        return Destination(str(ip_network(addresses.strip("[]"))), number)

    return Rule(parse, "addresses as CIDR, :, and a TCP port: 203.0.113.0/24:443; 0.0.0.0/0:443 is HTTPS to anywhere")


def repository() -> Rule:
    """Return the rule for an image repository: a registry and a path, and no tag, which is a hash of the content."""
    return matching(_IMAGE_PATH, "a registry and a path, without https:// and without a tag")


def server() -> Rule:
    """Return the rule for an HTTP address. One with credentials is refused later, in a message that can hide them."""

    def parse(text: str) -> str:
        address = text.strip().rstrip("/")
        if not re.match(r"https?://[^\s/]", address) or not address.isprintable() or " " in address:
            raise ValueError(text)
        return address

    return Rule(parse, "the http:// or https:// address of a server, without user, password or token")


def is_in_bucket(address: str) -> bool:
    """Return whether the address has a storage scheme and a bucket, without credentials or options."""
    scheme, is_address, path = address.partition("://")
    return bool(is_address) and scheme in STORES and "@" not in path and bool(_BUCKET.match(path))


def storage() -> Rule:
    """Return the rule for the value of `storage`: a claim, an address of S3 or Google Cloud Storage, or a folder."""

    def parse(text: str) -> str:
        scheme, is_address, path = text.strip().partition("://")
        if is_address and (scheme not in STORES or not _BUCKET.match(path)):
            raise ValueError(text)
        if not (address := text.strip().rstrip("/")):
            raise ValueError(text)
        return address

    return Rule(parse, f"a folder (local), {CLAIM} (clusters), s3://bucket/prefix or gs://bucket/prefix")


def credentials() -> Rule:
    """Return the rule for S3 credentials, written as the variables that S3 clients read."""

    def parse(text: str) -> dict[str, str]:
        keys = dict(word.split("=", 1) for word in shlex.split(text))  # a word without = is a ValueError, too
        if not {KEY_ID, KEY} <= keys.keys() <= {KEY_ID, KEY, SESSION} or not all(map(_is_word, keys.values())):
            raise ValueError(text)
        return keys

    return Rule(parse, f"{KEY_ID}=… {KEY}=…, and {SESSION}=… where they have one")


def _is_word(value: str) -> bool:
    return bool(value) and value.isprintable() and " " not in value


def listed(item: Rule) -> Rule:
    """Return the rule for comma-separated values. `none` is the empty list, because an empty text means the default."""

    def parse(text: str) -> tuple[Any, ...]:
        if text.strip() == "none":
            return ()
        return tuple(item.parse(part.strip()) for part in text.split(","))

    return Rule(parse, f"none, or separated by commas: {item.allowed}", harmless=item.harmless)
