"""How pods reach a stack's storage: mount, variables, identity; what is made for that, and the policy. Pure: dicts.

Credentials that the program is given, or that are made for a run, reach pods as a file of AWS' own form: the kubelet
brings it up to date in pods that live on, as Ray's do, and clients of S3 read it again. No manifest has a value.
"""

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from infra.places.cluster import pod_spec
from infra.places.cluster.jobs_spec import JOB_NAME, STORAGE
from infra.places.cluster.network_spec import block
from infra.places.cluster.pod_spec import STACK_ANNOTATION, Manifest, Placement, Size
from infra.settings.rules import KEY, KEY_ID, MOUNTED, SESSION
from infra.settings.settings import Claim, Storage
from training.launch.storage import CREDENTIALS_FILE

CLAIM = "training-storage"
"""The claim's name."""
SECRET, ROLE_SECRET = "ray-worth-it-storage", "ray-worth-it-storage-role"
"""Of the Secret with the file: of what the program was given, or of what a role gave. Never one for both: each goes
with what made it."""
FOLDER, _, FILE = CREDENTIALS_FILE.rpartition("/")
"""Where pods have it."""
FOLDER_VARIABLE, JOB_VARIABLE = "STORAGE", "JOB_NAME"
"""Of a run's Job: its measurement's folder in storage, and its own name."""
PROBE = Size(0.1, "512Mi")
PORTS = {"http": 80, "https": 443}
IN_CLUSTER = (".svc", ".svc.cluster.local")
"""How names of a cluster's own servers end."""
ANYWHERE = ("0.0.0.0/0", "::/0")


@dataclass(frozen=True, kw_only=True)
class InPods:
    """What pods are told of their storage."""

    address: str
    variables: Mapping[str, str]
    claim: bool
    secret: str | None
    """An existing one, with variables."""
    file: str | None
    """The stack's own Secret with a file."""
    service_account: str | None

    def mounted_in(self, pod: Manifest) -> Manifest:
        """A pod's spec that reaches it."""
        spec = pod_spec.with_variables(pod, **self.variables, **(_by_file() if self.file else {}))
        if self.secret:
            spec = pod_spec.referred(spec, _references(self.secret))
        if self.file:
            # Optional: the pods of Ray are there before the first run, and so before credentials are made for it
            source: Manifest = {"secret": {"secretName": self.file, "optional": True}}
            spec = pod_spec.mounted(spec, "storage-credentials", FOLDER, source)
        if self.claim:
            source = {"persistentVolumeClaim": {"claimName": CLAIM}}
            spec = pod_spec.mounted(spec, "storage", MOUNTED, source, read_only=False)
        return {**spec, "serviceAccountName": self.service_account} if self.service_account else spec

    @property
    def flag(self) -> str:
        """Of a run: its own folder. Kubernetes puts in what the two variables say."""
        return f"--storage=$({FOLDER_VARIABLE})/$({JOB_VARIABLE})"

    def kept(self, pod: Manifest) -> Manifest:
        """A run's pod, whose command has the flag."""
        names: Manifest = {
            FOLDER_VARIABLE: {"fieldRef": {"fieldPath": f"metadata.annotations['{STORAGE}']"}},
            JOB_VARIABLE: JOB_NAME,
        }
        (main,) = pod["containers"]
        set_names = {variable["name"] for variable in main.get("env", ())}
        return pod_spec.referred(pod, {name: source for name, source in names.items() if name not in set_names})


def in_pods(storage: Storage) -> InPods:
    """What pods are told; the metadata server, which no policy opens, is not waited for."""
    variables = {**storage.variables(), **({"AWS_EC2_METADATA_DISABLED": "true"} if storage.is_remote else {})}
    return InPods(
        address=storage.address,
        variables=variables,
        claim=storage.claim is not None,
        secret=storage.secret,
        file=SECRET if storage.credentials else ROLE_SECRET if storage.role else None,
        service_account=storage.service_account,
    )


def _by_file() -> dict[str, str]:
    return {"AWS_SHARED_CREDENTIALS_FILE": CREDENTIALS_FILE}


def _references(secret: str) -> Manifest:
    """Of a key that lives on there is no session."""
    return {
        name: {"secretKeyRef": {"name": secret, "key": name, **({"optional": True} if name == SESSION else {})}}
        for name in (KEY_ID, KEY, SESSION)
    }


def credentials_file(credentials: Mapping[str, str]) -> str:
    """As AWS' tools read it: https://docs.aws.amazon.com/sdkref/latest/guide/file-format.html."""
    return "\n".join(["[default]", *(f"{name.lower()} = {value}" for name, value in credentials.items()), ""])


def claim(wanted: Claim) -> Manifest:
    """The spec of the claim."""
    return {
        "accessModes": ["ReadWriteMany" if wanted.by_many_nodes else "ReadWriteOnce"],
        "resources": {"requests": {"storage": wanted.size}},
        **({"storageClassName": wanted.storage_class} if wanted.storage_class else {}),
    }


def claim_object(wanted: Claim, stack: str, namespace: str) -> Manifest:
    """The claim, with whose it is."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": CLAIM,
            "namespace": namespace,
            "labels": {pod_spec.PROJECT_LABEL: pod_spec.PROJECT},
            "annotations": {STACK_ANNOTATION: stack},
        },
        "spec": claim(wanted),
    }


def probe(address: str, way: str, placement: Placement, storage: InPods, data: str) -> Manifest:
    """The template of a pod that uses storage as runs will, from where they do, and looks for their `data` there."""
    command = [*placement.starts("training.launch.storage_probe"), address, f"--way={way}"]
    command += [f"--data={data}"] if data else []
    main = pod_spec.container("storage-probe", placement.image, PROBE, command=command)
    pod = storage.mounted_in(pod_spec.pod(main, placement))
    return {"metadata": {"labels": pod_spec.labels("storage-probe")}, "spec": pod}


@dataclass(frozen=True)
class Reached:
    """Where storage answers, as a network policy is told."""

    port: int
    namespace: str | None = None
    """Of the cluster itself."""
    addresses: tuple[str, ...] = ()
    """Ranges of them."""


def reached(storage: Storage) -> Reached | None:
    """None for storage without a network. Raises OSError where a name is nobody's.

    The addresses behind a name in the Internet change by the minute, and NetworkPolicy knows no names: all of it is
    opened then, at the one port, but for the metadata servers. Those of a name in one's own network stay.
    """
    if not storage.is_remote:
        return None
    if storage.endpoint is None:
        return Reached(PORTS["https"], addresses=ANYWHERE)
    server = urlsplit(storage.endpoint)
    host, port = server.hostname or "", server.port or PORTS[server.scheme]
    if is_in_cluster(storage):
        return Reached(port, namespace=host.split(".")[1])
    if host.endswith((".amazonaws.com", ".googleapis.com")):
        return Reached(port, addresses=ANYWHERE)
    addresses = {str(each[4][0]) for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    if addresses != {host} and any(ip_address(address).is_global for address in addresses):
        return Reached(port, addresses=ANYWHERE)
    return Reached(port, addresses=tuple(sorted(f"{address}/{128 if ':' in address else 32}" for address in addresses)))


def is_in_cluster(storage: Storage) -> bool:
    """Whether pods alone know the name of its server."""
    return bool(storage.endpoint) and str(urlsplit(storage.endpoint).hostname).endswith(IN_CLUSTER)


def egress(where: Reached) -> list[dict[str, Any]]:
    """The rules of a network policy that open it, and nothing else."""
    to: list[Manifest] = [{"ipBlock": block(cidr)} for cidr in where.addresses]
    if where.namespace:
        to.append({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": where.namespace}}})
    return [{"to": to, "ports": [{"protocol": "TCP", "port": where.port}]}]
