"""The settings of storage: its address, the runs' credentials for it, and the checks between those keys.

Not here: whether storage answers, which `up` asks (`infra.storage`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from infra.settings import pod_template
from infra.settings.draft import Draft, run_checks
from infra.settings.key import CLUSTER, OF_BUCKETS, OF_CLAIMS, OF_S3, Key
from infra.settings.problem import Problem, secret_line, set_line
from infra.settings.rules import CLAIM, MOUNTED

HOSTNAME = "kubernetes.io/hostname"
"""The node label that pins pods to one node."""
S3 = "s3://"
MARGIN_SECONDS = 15 * 60
"""The seconds by which a role's credentials outlive the deadline of the run that uses them."""
LONGEST_SESSION_SECONDS = 12 * 3600
"""The most seconds for which STS' AssumeRole gives credentials:
https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html."""
_OF_NAMESPACE = ("storageSecret", "serviceAccount")
_WAYS_IN = ("storageCredentials", "storageRole", *_OF_NAMESPACE)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A PersistentVolumeClaim that the stack creates for its storage."""

    storage_class: str | None
    """The name of the StorageClass; None for the cluster's default class."""
    size: str
    by_many_nodes: bool
    """Whether pods of several nodes write to the volume."""


@dataclass(frozen=True, kw_only=True)
class Storage:
    """The address of a stack's storage, and the credentials with which runs use it."""

    address: str
    """An absolute folder, or an address of S3 or Google Cloud Storage, without a trailing slash."""
    endpoint: str | None = None
    region: str | None = None
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)
    role: str | None = None
    secret: str | None = None
    service_account: str | None = None
    claim: Claim | None = None

    @property
    def is_remote(self) -> bool:
        """Return whether the storage is reached over a network. If not, the storage is a folder."""
        return "://" in self.address

    def variables(self) -> dict[str, str]:
        """Return the environment variables for the storage's clients, without credentials."""
        endpoint = {"AWS_ENDPOINT_URL_S3": self.endpoint} if self.endpoint else {}
        return endpoint | ({"AWS_REGION": self.region, "AWS_DEFAULT_REGION": self.region} if self.region else {})

    def identity(self) -> dict[str, Any]:
        """Return the properties of the storage that can change a run's result, so without credentials and size."""
        of_claim = {"class": self.claim.storage_class} if self.claim else {}
        return {"address": self.address, **self.variables(), **of_claim}


def storage_of(draft: Draft) -> Storage:
    """Return the storage of settings that passed every check."""
    address = draft.storage.address or ""
    if address == CLAIM:
        return Storage(address=MOUNTED, claim=_claim(draft))
    return Storage(
        address=address if "://" in address else str(draft.path(address)),
        endpoint=draft.storage.endpoint,
        region=draft.storage.region,
        credentials=draft.storage.credentials,
        role=draft.storage.role,
        secret=draft.cluster.storage_secret,
        service_account=draft.cluster.service_account,
    )


def _claim(draft: Draft) -> Claim:
    many = not _is_one_node(draft)
    return Claim(storage_class=draft.cluster.storage_class, size=draft.cluster.storage_size.text, by_many_nodes=many)


def _is_one_node(draft: Draft) -> bool:
    """Return whether it is certain that all pods are on one node."""
    template, _ = pod_template.read(draft)
    selector = template.spec.get("nodeSelector", {})
    return HOSTNAME in selector or (_makes_its_nodes(draft) and draft.cluster.minikube_nodes == 1)


def _makes_its_nodes(draft: Draft) -> bool:
    """Return whether the stack creates the cluster, with a number of nodes that a key sets."""
    return draft.applies("minikubeNodes")


def problems(draft: Draft) -> Iterator[Problem]:
    """Yield all problems of the keys about storage. If a key has no effect, the other checks are skipped."""
    meaningless = list(_meaningless(draft))
    yield from meaningless
    if draft.storage.address and not meaningless:
        yield from run_checks(draft, _CHECKS)


def _meaningless(draft: Draft) -> Iterator[Problem]:
    for key in (key for key in draft.keys.values() if key.needs.get("storage") and draft.is_set(key.name)):
        if why := _why_meaningless(key, draft):
            yield Problem(
                f"{draft.shown(key.name)} with {draft.shown('storage')}", why, (f"pulumi config rm {key.name}",),
                why="it would have no effect",
            )  # fmt: skip


def _why_meaningless(key: Key, draft: Draft) -> str:
    """Return the condition under which the key would have an effect; empty if the key already has an effect."""
    if draft.target not in key.targets:
        return f"set on target {' and '.join(key.targets)} only"
    storage = draft.storage.address or ""
    has_effect = {OF_S3: storage.startswith(S3), OF_BUCKETS: "://" in storage, OF_CLAIMS: storage == CLAIM}
    (kind,) = key.needs["storage"]
    return "" if has_effect[kind] else f"set with storage {kind} only"


def _is_of_the_target(draft: Draft) -> Iterator[Problem]:
    """Yield a problem if the target cannot have this kind of storage: pods cannot see a folder of this machine, and
    only clusters have claims."""
    storage, is_cluster = draft.storage.address or "", draft.target in CLUSTER
    if not draft.applies("storage"):
        targets = draft.keys["storage"].targets
        yield Problem(
            draft.shown("storage"), f"set on target {' and '.join(targets)} only", ("pulumi config rm storage",),
            why=f"runs on target {draft.target} keep nothing but their results",
        )  # fmt: skip
        return
    if storage == CLAIM and not is_cluster:
        yield Problem(
            draft.shown("storage"), "a folder, s3://… or gs://… on target local", (set_line("storage", "../kept"),),
            why="a claim exists only in a cluster",
        )  # fmt: skip
    if storage != CLAIM and "://" not in storage and is_cluster:
        yield Problem(
            draft.shown("storage"), f"{CLAIM}, s3://… or gs://… on target {draft.target}",
            (" && ".join([set_line("storage", CLAIM), *_that_holds_claims(draft)]),),
            why="pods cannot reach a folder of this machine, and a pod's own folder is deleted with it",
        )  # fmt: skip


def _that_holds_claims(draft: Draft) -> list[str]:
    """Return the command lines that set what a storage claim needs; empty if nothing is missing."""
    lines = [set_line("createNamespace", "false")] if _namespace_goes(draft) else []
    return lines + ([set_line("minikubeNodes", 1)] if _needs_shared_class(draft) else [])


def _namespace_goes(draft: Draft) -> bool:
    """Return whether `destroy` deletes the namespace and keeps the cluster."""
    return draft.target in CLUSTER and not _makes_its_nodes(draft) and bool(draft.cluster.create_namespace)


def _needs_shared_class(draft: Draft) -> bool:
    """Return whether pods of several nodes would use Minikube's own StorageClass, whose volumes are folders of a single
    node."""
    return _makes_its_nodes(draft) and not draft.cluster.storage_class and not _is_one_node(draft)


def _one_way_in(draft: Draft) -> Iterator[Problem]:
    ways = [key for key in _WAYS_IN if draft.is_set(key)]
    if len(ways) > 1:
        yield Problem(
            " and ".join(map(draft.shown, ways)), "one of them",
            tuple(" && ".join(f"pulumi config rm {key}" for key in ways if key != kept) for kept in ways),
            why="it would be unclear which credentials to use",
        )  # fmt: skip


def _pods_are_let_in(draft: Draft) -> Iterator[Problem]:
    """Yield a problem if pods have no credentials for a bucket. A run on this machine uses the caller's credentials,
    but a pod has no credentials by itself."""
    address = draft.storage.address or ""
    ways = [key for key in _WAYS_IN if draft.is_set(key)]
    if draft.target not in CLUSTER or "://" not in address or ways:
        return
    of_all = _WAYS_IN if address.startswith(S3) else ("serviceAccount",)
    possible = [key for key in of_all if draft.applies(key)]
    if not possible:
        yield Problem(
            draft.shown("storage"), f"s3://… or {CLAIM} on target {draft.target}",
            (" && ".join([set_line("storage", CLAIM), *_that_holds_claims(draft)]),),
            why="pods of such a cluster have no cloud identity",
        )  # fmt: skip
        return
    yield Problem(
        f"{draft.shown('storage')} without credentials",
        f"one of {', '.join(possible)}" if len(possible) > 1 else f"{possible[0]}, whose identity there may use it",
        tuple(_line_that_lets_in(key, draft) for key in possible),
        why="pods do not have your credentials, and cannot reach a metadata server for a node's",
    )


def _line_that_lets_in(key: str, draft: Draft) -> str:
    if draft.keys[key].secret:
        return secret_line(key)
    beside = [set_line("createNamespace", "false")] if key in _OF_NAMESPACE and draft.cluster.create_namespace else []
    return " && ".join([set_line(key, draft.keys[key].example), *beside])


def _is_secret(draft: Draft) -> Iterator[Problem]:
    if draft.storage.credentials and "storageCredentials" not in draft.facts.secret_keys:
        yield Problem(
            "storageCredentials is set without --secret",
            "a value that Pulumi encrypts",
            (secret_line("storageCredentials"),),
            why="the stack's file has it in clear text; the command below asks for the value",
        )


def _namespace_stays(draft: Draft) -> Iterator[Problem]:
    """Yield a problem if objects that exist before the stack, or outlive it, are in a namespace that it creates."""
    if draft.target not in CLUSTER or not draft.cluster.create_namespace:
        return
    create_not = set_line("createNamespace", "false")
    named = {"storageSecret": draft.cluster.storage_secret, "serviceAccount": draft.cluster.service_account}
    for key in (key for key, value in named.items() if value):
        yield Problem(
            f"{draft.shown(key)} with {draft.shown('createNamespace')}", "one of a namespace that exists",
            (create_not,), why="a namespace made by this stack holds none",
        )  # fmt: skip
    if draft.storage.address == CLAIM and _namespace_goes(draft):
        yield Problem(
            f"{draft.shown('storage')} with {draft.shown('createNamespace')}", "a claim in a namespace that exists",
            (create_not,), why="`destroy` deletes a namespace made by this stack, and every claim in it",
        )  # fmt: skip


def _role_lasts(draft: Draft) -> Iterator[Problem]:
    longest = (LONGEST_SESSION_SECONDS - MARGIN_SECONDS) // 60
    if draft.storage.role and draft.run.run_timeout_minutes > longest:
        yield Problem(
            f"{draft.shown('runTimeoutMinutes')} with {draft.shown('storageRole')}", f"at most {longest} with a role",
            (set_line("runTimeoutMinutes", longest),),
            why="a role is assumed for 12 hours at most; a run needs it for runTimeoutMinutes plus 15 minutes",
        )  # fmt: skip


def _is_shared(draft: Draft) -> Iterator[Problem]:
    if draft.storage.address == CLAIM and _needs_shared_class(draft):
        yield Problem(
            f"{draft.shown('storage')} with {draft.shown('minikubeNodes')}",
            "one node, or a storageClass whose volumes pods of all nodes write (ReadWriteMany)",
            (set_line("minikubeNodes", 1),),
            why="Minikube's own class is a folder of each node: pods of other nodes would not find what one writes",
        )


_CHECKS = (_is_of_the_target, _one_way_in, _pods_are_let_in, _is_secret, _namespace_stays, _role_lasts, _is_shared)
