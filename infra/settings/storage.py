"""The settings of storage: its address, the runs' credentials for it, and the checks between those keys.

Loaded only by stacks that set any of them. Not here: whether storage answers, which `up` asks (`infra.storage`).
"""

from collections.abc import Iterator

from infra.settings import pod_template
from infra.settings.checks import STORAGE_KEYS, is_set, path_of
from infra.settings.draft import Draft, Problem, secret_line, set_line
from infra.settings.key import CLUSTER
from infra.settings.rules import CLAIM, MOUNTED
from infra.settings.settings import Claim, Storage

HOSTNAME = "kubernetes.io/hostname"
"""The node label that pins pods to one node."""
S3 = "s3://"
MARGIN_SECONDS = 15 * 60
"""The time by which a role's credentials outlive the deadline of their run."""
LONGEST_SESSION_SECONDS = 12 * 3600
"""The limit of STS' AssumeRole: https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html."""
_OF_S3 = ("storageEndpoint", "storageRegion", "storageCredentials", "storageRole", "storageSecret")
_OF_CLAIM = ("storageClass", "storageSize")
_OF_NAMESPACE = ("storageSecret", "serviceAccount")
_WAYS_IN = ("storageCredentials", "storageRole", "storageSecret", "serviceAccount")


def storage_of(draft: Draft) -> Storage:
    """Return the storage of settings that passed every check."""
    address: str = draft["storage"]
    if address == CLAIM:
        return Storage(address=MOUNTED, claim=_claim(draft))
    return Storage(
        address=address if "://" in address else str(path_of(draft, "storage")),
        endpoint=draft["storageEndpoint"],
        region=draft["storageRegion"],
        credentials=draft["storageCredentials"],
        role=draft["storageRole"],
        secret=draft["storageSecret"],
        service_account=draft["serviceAccount"],
    )


def _claim(draft: Draft) -> Claim:
    many = not _is_one_node(draft)
    return Claim(storage_class=draft["storageClass"], size=draft["storageSize"].text, by_many_nodes=many)


def _is_one_node(draft: Draft) -> bool:
    """Return whether all pods are known to be on one node."""
    selector = pod_template.template_of(draft).spec.get("nodeSelector", {})
    return HOSTNAME in selector or (_makes_its_nodes(draft) and draft["minikubeNodes"] == 1)


def _makes_its_nodes(draft: Draft) -> bool:
    """Return whether the cluster is the stack's own, and a key sets its number of nodes."""
    return draft.target in draft.keys["minikubeNodes"].targets


def problems(draft: Draft) -> Iterator[Problem]:
    """Yield all conflicts; if a key has no effect, its other checks are skipped."""
    meaningless = list(_meaningless(draft))
    yield from meaningless
    if meaningless or not draft["storage"]:
        return
    for check in (
        _is_of_the_target,
        _one_way_in,
        _pods_are_let_in,
        _is_secret,
        _namespace_stays,
        _role_lasts,
        _is_shared,
    ):
        yield from check(draft)


def _meaningless(draft: Draft) -> Iterator[Problem]:
    for key in STORAGE_KEYS[1:]:
        if is_set(draft, key) and (why := _why_meaningless(key, draft)):
            yield Problem(
                f"{draft.shown(key)} with {draft.shown('storage')}", why, (f"pulumi config rm {key}",),
                why="it would have no effect",
            )  # fmt: skip


def _why_meaningless(key: str, draft: Draft) -> str:
    """Return the condition under which a key has an effect; empty if it has one."""
    storage, targets = draft["storage"] or "", draft.keys[key].targets
    if draft.target not in targets:
        return f"set on target {' and '.join(targets)} only"
    if key in _OF_S3:
        return "" if storage.startswith(S3) else "set with storage s3://… only"
    if key in _OF_CLAIM:
        return "" if storage == CLAIM else f"set with storage {CLAIM} only"
    return "" if "://" in storage else "set with storage s3://… or gs://… only"


def _is_of_the_target(draft: Draft) -> Iterator[Problem]:
    """Check that the target has such storage: pods cannot see a folder of this machine, and only clusters have
    claims."""
    storage, is_cluster, targets = draft["storage"], draft.target in CLUSTER, draft.keys["storage"].targets
    if draft.target not in targets:
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
    """Return the lines that give a claim what it needs; empty if it has it."""
    lines = [set_line("createNamespace", "false")] if _namespace_goes(draft) else []
    return lines + ([set_line("minikubeNodes", 1)] if _needs_shared_class(draft) else [])


def _namespace_goes(draft: Draft) -> bool:
    """Return whether `destroy` deletes the namespace and keeps the cluster."""
    return draft.target in CLUSTER and not _makes_its_nodes(draft) and bool(draft["createNamespace"])


def _needs_shared_class(draft: Draft) -> bool:
    """Return whether pods of several nodes would use Minikube's own class, which is a folder of each node."""
    return _makes_its_nodes(draft) and not draft["storageClass"] and not _is_one_node(draft)


def _one_way_in(draft: Draft) -> Iterator[Problem]:
    ways = [key for key in _WAYS_IN if is_set(draft, key)]
    if len(ways) > 1:
        yield Problem(
            " and ".join(map(draft.shown, ways)), "one of them",
            tuple(" && ".join(f"pulumi config rm {key}" for key in ways if key != kept) for kept in ways),
            why="it would be unclear which credentials to use",
        )  # fmt: skip


def _pods_are_let_in(draft: Draft) -> Iterator[Problem]:
    """Check that pods have credentials: a run on this machine has its caller's, a pod has none by itself."""
    address = draft["storage"]
    ways = [key for key in _WAYS_IN if is_set(draft, key)]
    if draft.target not in CLUSTER or "://" not in address or ways:
        return
    of_all = _WAYS_IN if address.startswith(S3) else ("serviceAccount",)
    possible = [key for key in of_all if draft.target in draft.keys[key].targets]
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
    beside = [set_line("createNamespace", "false")] if key in _OF_NAMESPACE and draft["createNamespace"] else []
    return " && ".join([set_line(key, draft.keys[key].example), *beside])


def _is_secret(draft: Draft) -> Iterator[Problem]:
    if draft["storageCredentials"] and "storageCredentials" not in draft.facts.secret_keys:
        yield Problem(
            "storageCredentials is set without --secret",
            "a value that Pulumi encrypts",
            (secret_line("storageCredentials"),),
            why="the stack's file has it in clear text; the command below asks for the value",
        )


def _namespace_stays(draft: Draft) -> Iterator[Problem]:
    """Check that the namespace exists before the stack, or outlives it, if its contents have to."""
    if draft.target not in CLUSTER or not draft["createNamespace"]:
        return
    create_not = set_line("createNamespace", "false")
    for key in filter(draft.__getitem__, _OF_NAMESPACE):
        yield Problem(
            f"{draft.shown(key)} with {draft.shown('createNamespace')}", "one of a namespace that exists",
            (create_not,), why="a namespace made by this stack holds none",
        )  # fmt: skip
    if draft["storage"] == CLAIM and _namespace_goes(draft):
        yield Problem(
            f"{draft.shown('storage')} with {draft.shown('createNamespace')}", "a claim in a namespace that exists",
            (create_not,), why="`destroy` deletes a namespace made by this stack, and every claim in it",
        )  # fmt: skip


def _role_lasts(draft: Draft) -> Iterator[Problem]:
    longest = (LONGEST_SESSION_SECONDS - MARGIN_SECONDS) // 60
    if draft["storageRole"] and draft["runTimeoutMinutes"] > longest:
        yield Problem(
            f"{draft.shown('runTimeoutMinutes')} with {draft.shown('storageRole')}", f"at most {longest} with a role",
            (set_line("runTimeoutMinutes", longest),),
            why="a role is assumed for 12 hours at most; a run needs it for runTimeoutMinutes plus 15 minutes",
        )  # fmt: skip


def _is_shared(draft: Draft) -> Iterator[Problem]:
    if draft["storage"] == CLAIM and _needs_shared_class(draft):
        yield Problem(
            f"{draft.shown('storage')} with {draft.shown('minikubeNodes')}",
            "one node, or a storageClass whose volumes pods of all nodes write (ReadWriteMany)",
            (set_line("minikubeNodes", 1),),
            why="Minikube's own class is a folder of each node: pods of other nodes would not find what one writes",
        )


_CHECKS = (_is_of_the_target, _one_way_in, _pods_are_let_in, _is_secret, _namespace_stays, _role_lasts, _is_shared)
