"""Pins a stack on target `kubernetes` to its cluster, as a Pulumi dynamic resource that comes before the provider.

It records the cluster in the state and writes the stack's own kubeconfig, by which everything of the stack is reached
from then on, whatever becomes of the user's contexts. Another cluster is refused.

The state holds the providers pickled by reference: this module and its classes keep their names for ever.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
import yaml
from pulumi.dynamic import (
    CheckFailure,
    CheckResult,
    CreateResult,
    DiffResult,
    ReadResult,
    Resource,
    UpdateResult,
)
from pulumi.output import Unknown

from infra.places.cluster.api import kube
from infra.places.cluster.api.kube import KubeError
from infra.places.kubernetes import inspection, kubeconfig
from infra.places.kubernetes.kubeconfig import Selected
from infra.programs import UserError
from infra.provider import Provider, changed
from infra.settings.facts import stack_file
from training.contract.provenance import PROJECT

NAME = "pinned-cluster"
IDENTITY = ("server", "authority", "uid")
"""The properties that identify the cluster: its address, the SHA-256 of its CA certificate (empty for a public
authority), and the uid of its namespace kube-system."""
SERVERS = "servers"
"""The property with the addresses of the cluster's own servers. They may change, and so are no part of the identity."""
_KEPT = ("stack", *IDENTITY)
_SYSTEM = "/api/v1/namespaces/kube-system"


class ClusterError(UserError):
    """Raised if the cluster cannot be used as it is; the message says what to do."""


class PinnedCluster(Resource, module="cluster", name="Pinned"):
    """The cluster to which a stack belongs. The inputs say where it is; the provider adds its identity."""

    server: pulumi.Output[str]
    authority: pulumi.Output[str]
    uid: pulumi.Output[str]
    servers: pulumi.Output[str]
    """The addresses of the API server and of the cluster's DNS, as `network.Servers` writes them."""

    def __init__(self, stack: str, setting: str | None, context: str, opts: pulumi.ResourceOptions) -> None:
        self.stack = stack
        properties = {
            "stack": stack,
            "kubeconfig": setting or "",
            "context": context,
            **dict.fromkeys((*IDENTITY, SERVERS)),
        }
        super().__init__(PinnedClusterProvider(), NAME, properties, opts)


class PinnedClusterProvider(Provider):
    """Writes the stack's own kubeconfig only in `create` and `update`, and only for the recorded cluster."""

    def check(self, olds: dict[str, Any], news: dict[str, Any]) -> CheckResult:
        """Add the identity of the cluster to which the context leads. Fail if it is another cluster than the recorded
        cluster.

        If the cluster does not answer, the recorded identity is used: a preview may have no identity yet, and an update
        has checked the cluster before.
        """
        recorded = {key: olds[key] for key in (*IDENTITY, SERVERS) if key in olds}
        if any(isinstance(value, Unknown) for value in news.values()):
            return CheckResult(news | recorded, [])
        try:
            selected = kubeconfig.select(news["kubeconfig"], news["context"])
            identity = identify(selected)
        except KubeError:
            return CheckResult(news | recorded, [])
        if recorded.get("uid") not in (None, identity["uid"]):
            reason = refusal(news["stack"], recorded, selected, identity)
            return CheckResult(news | recorded, [CheckFailure("", reason)])
        return CheckResult(news | identity, [])

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        """Return a change if the cluster's properties changed, or if the stack's own kubeconfig is missing or outdated.
        A changed path of the user's kubeconfig does not matter."""
        moved = any(news[key] != olds.get(key) for key in (*_KEPT, SERVERS) if key in news)
        return DiffResult(changes=moved or _is_old(news), replaces=[])

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Write the stack's own kubeconfig. Raise ClusterError if the cluster just changed, or does not answer."""
        return CreateResult(str(props.get("uid")), _write(props, props))

    def update(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> UpdateResult:
        """Write the stack's own kubeconfig again, for the recorded cluster and no other.

        After `pulumi stack rename`, write it also under the stack's old name, by which resources in the state are
        reached until the end of the update; `DestroyCheck` then removes it. Raise ClusterError if another stack has
        taken the old name, and so its file.
        """
        before, now = olds["stack"], news["stack"]
        if before != now and kube.own_text(before) is not None and not _leads_to(before, olds, news):
            raise ClusterError(_taken(before, now))
        written = _write(olds, news)
        if before != now and kube.own_text(before) is None:
            kube.write_own(before, kube.own_text(now) or "")
        return UpdateResult(written)

    def read(self, id_: str, props: dict[str, Any]) -> ReadResult:
        """Raise ClusterError if a refresh would not read the recorded cluster, or if that cannot be found out."""
        try:
            _look(props)
        except KubeError as error:
            more = way_in(error) if error.status else f" {kube.patience('refresh')}"
            raise ClusterError(f"{error}\nNothing was read.{more}") from None
        return ReadResult(id_, props)

    def delete(self, _id: str, props: dict[str, Any]) -> None:
        """Remove the stack's own kubeconfig: nothing of the stack is left in the cluster."""
        kube.remove_own(props["stack"])


class DestroyCheck(Resource, module="cluster", name="DestroyCheck"):
    """Checks the connection before anything is deleted: it is created after everything else in the cluster, and so
    deleted first.

    The stack's own kubeconfig protects other clusters. This resource only says why nothing is deleted, and what to do.
    """

    def __init__(self, pinned: PinnedCluster, after: Sequence[pulumi.Resource], parent: pulumi.Resource) -> None:
        identity = {"server": pinned.server, "authority": pinned.authority, "uid": pinned.uid}
        options = pulumi.ResourceOptions(parent=parent, depends_on=list(after))
        super().__init__(DestroyCheckProvider(), "destroy-check", {"stack": pinned.stack, **identity}, options)


class DestroyCheckProvider(Provider):
    """Compares the cluster with the identity that this resource keeps, when the resource is deleted."""

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        """Return a change in place, without a replacement, if a property differs."""
        return DiffResult(changes=bool(changed(olds, news, *_KEPT)), replaces=[])

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Keep the properties; nothing is created."""
        return CreateResult("destroy-check", props)

    def update(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> UpdateResult:
        """Keep the properties. After `pulumi stack rename`, remove the kubeconfig under the old name, unless a new
        stack needs it."""
        before = olds["stack"]
        if before != news["stack"] and not _has_settings(before) and _leads_to(before, olds, news):
            kube.remove_own(before)
        return UpdateResult(news)

    def delete(self, _id: str, props: dict[str, Any]) -> None:
        """Raise ClusterError if the stack's own kubeconfig is missing, or another cluster or none answers."""
        try:
            _look(props)
        except KubeError as error:
            raise ClusterError(f"{error}\nNothing was deleted.{way_in(error)}") from None


def way_in(error: KubeError) -> str:
    """Return advice for a cluster that answers but refuses to identify itself; empty if the cluster does not answer."""
    ways = {
        401: f" Its credentials have expired: log in, and then\n  pulumi up --target '**{NAME}'",
        403: " Which cluster it is tells the namespace kube-system, which this user may not read; with the right to:\n"
        f"  pulumi up --target '**{NAME}'",
    }
    return ways.get(error.status, "")


def _look(props: Mapping[str, Any]) -> None:
    """Check the cluster to which the stack's own kubeconfig leads. Raise ClusterError if the file is missing or it is
    another cluster, and KubeError if the cluster does not answer."""
    if kube.own_text(props["stack"]) is None:
        raise ClusterError(lost(props["stack"], props))
    uid = _uid(kube.connect(kube.own_path(props["stack"])))
    if uid != props["uid"]:
        raise ClusterError(
            f"at {props['server']} answers another cluster (kube-system {uid}) than that of stack {props['stack']}"
            f" (kube-system {props['uid']}). Nothing was deleted. If the stack's cluster is gone for good:\n"
            f"  pulumi stack rm --force {props['stack']}"
        )


def _leads_to(stack: str, *recorded: Mapping[str, Any]) -> bool:
    """Return whether the kubeconfig of the stack with this name has the address and the CA certificate of one of the
    `recorded` clusters. Contacts no cluster."""
    try:
        own = Selected("", "", yaml.safe_load(kube.own_text(stack) or ""))
        return (own.server, own.authority) in {(each.get("server"), each.get("authority")) for each in recorded}
    except (yaml.YAMLError, ValueError, KeyError, IndexError, TypeError):
        return False


def _has_settings(stack: str) -> bool:
    """Return whether this checkout has a settings file of a stack with this name. A rename moves the settings file."""
    return (PROJECT / stack_file(stack)).exists()


def identify(selected: Selected) -> dict[str, str]:
    """Return the identity of the cluster to which a context leads. Raise KubeError if it cannot be asked."""
    api = kube.connect(selected.content)
    return {
        "server": selected.server,
        "authority": selected.authority,
        "uid": _uid(api),
        SERVERS: inspection.servers(api).to_json(),
    }


def _uid(api: Any) -> str:
    return str(kube.get(api, _SYSTEM)["metadata"]["uid"])


def _is_old(news: Mapping[str, Any]) -> bool:
    """Return whether the stack's own kubeconfig is outdated; False if the user's kubeconfig cannot be read."""
    if any(isinstance(value, Unknown) for value in news.values()):
        return True
    try:
        selected = kubeconfig.select(news["kubeconfig"], news["context"])
    except KubeError:
        return False
    return kube.own_text(news["stack"]) != selected.text


def _write(recorded: Mapping[str, Any], news: Mapping[str, Any]) -> dict[str, Any]:
    """Write the stack's own kubeconfig, and return the properties with the cluster's identity. Raise ClusterError if it
    is not the recorded cluster, or does not answer."""
    try:
        selected = kubeconfig.select(news["kubeconfig"], news["context"])
        identity = identify(selected)
    except KubeError as error:
        raise ClusterError(f"{error}\nNothing was changed.") from None
    if "uid" not in recorded:
        raise ClusterError("the cluster did not answer a moment ago, and does now; nothing was changed:\n  pulumi up")
    if recorded["uid"] != identity["uid"]:
        raise ClusterError(refusal(str(news["stack"]), recorded, selected, identity))
    kube.write_own(str(news["stack"]), selected.text)
    return {**news, **identity}


def refusal(stack: str, recorded: Mapping[str, Any], selected: Selected, identity: Mapping[str, Any]) -> str:
    """Return a text that explains why an update is refused in another cluster, with each way to continue."""
    return f"""stack {stack} belongs to another cluster than the one that context {selected.context} leads to now.
  the stack's: {_described(recorded)}
  the context's: {_described(identity)}, of {selected.source}
Nothing was changed in either. One of these helps:
  kubectl config get-contexts       # then, with the one of the stack's cluster: pulumi config set kubeContext NAME
  pulumi destroy                    # deletes the stack in its own cluster; the next `pulumi up` creates it in the other
  pulumi stack init NAME            # a stack of its own for the other cluster"""


def lost(stack: str, recorded: Mapping[str, Any]) -> str:
    """Return a text that explains what to do if the stack's own kubeconfig is missing."""
    return f"""{kube.own_path(stack)} is gone, and with it the way to the cluster of stack {stack}: \
{_described(recorded)}.
Nothing was read, changed or deleted. To write it again, with kubeContext leading to that cluster:
  pulumi up --target '**{NAME}'"""


def _taken(before: str, now: str) -> str:
    """Return a text that says what to do if the kubeconfig under a stack's old name leads to another cluster."""
    file = kube.own_path(before)
    return f"""stack {now} was named {before}, and until this update ends what it has is reached by {file}. \
That file leads to another cluster: another stack has the name by now. Nothing was changed. Without that file:
  mv {file} {file}.kept
  pulumi up --stack {now}
  mv {file}.kept {file}"""


def _described(identity: Mapping[str, Any]) -> str:
    authority = f"authority {identity['authority'][:12]}…" if identity.get("authority") else "a public authority"
    return f"{identity.get('server')} (kube-system {identity.get('uid')}, {authority})"
