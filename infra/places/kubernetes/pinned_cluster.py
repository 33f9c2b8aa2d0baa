"""Which cluster a stack on target `kubernetes` belongs to, as a Pulumi dynamic resource that comes before its provider.

It records the cluster in the state and writes the stack's own kubeconfig, by which everything of the stack is reached
from then on, whatever becomes of the user's contexts. Another cluster is refused.

The state holds the providers pickled by reference: this module and its classes keep their names for ever.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
import yaml
from pulumi.dynamic import (
    CheckFailure,
    CheckResult,
    ConfigureRequest,
    CreateResult,
    DiffResult,
    ReadResult,
    Resource,
    ResourceProvider,
    UpdateResult,
)
from pulumi.output import Unknown

from infra.places.cluster import kube
from infra.places.cluster.kube import KubeError
from infra.places.kubernetes import kubeconfig
from infra.places.kubernetes.kubeconfig import Selected
from infra.settings.draft import stack_file
from training.contract.provenance import PROJECT

NAME = "pinned-cluster"
IDENTITY = ("server", "authority", "uid")
"""What is recorded: address, SHA-256 of the authority (empty: a public one), uid of the namespace kube-system."""
_KEPT = ("stack", *IDENTITY)
_SYSTEM = "/api/v1/namespaces/kube-system"


class ClusterError(Exception):
    """The cluster can't be used as it is; the message says what to do."""


class PinnedCluster(Resource, module="cluster", name="Pinned"):
    """The cluster of a stack. Its inputs say where to look; the cluster's identity is added by the provider."""

    server: pulumi.Output[str]
    authority: pulumi.Output[str]
    uid: pulumi.Output[str]

    def __init__(self, stack: str, setting: str | None, context: str, opts: pulumi.ResourceOptions) -> None:
        self.stack = stack
        properties = {"stack": stack, "kubeconfig": setting or "", "context": context, **dict.fromkeys(IDENTITY)}
        super().__init__(PinnedClusterProvider(), NAME, properties, opts)


class PinnedClusterProvider(ResourceProvider):
    """Only `create` and `update` write the stack's own kubeconfig, and only for the recorded cluster."""

    serialize_as_secret_always = False

    def configure(self, req: ConfigureRequest) -> None:  # noqa: ARG002
        """Called before anything else in the provider's process, and only there."""
        sys.tracebacklimit = 0

    def check(self, olds: dict[str, Any], news: dict[str, Any]) -> CheckResult:
        """Add the identity of the cluster that the context leads to, and refuse another than the recorded one.

        A cluster that can't be asked is as it was recorded: a preview may have none, and an update has looked before.
        """
        recorded = {key: olds[key] for key in IDENTITY if key in olds}
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
        """Its file is written again when it is lost or old; where the user's kubeconfig lies decides nothing."""
        moved = any(news[key] != olds.get(key) for key in _KEPT if key in news)
        return DiffResult(changes=moved or _is_old(news), replaces=[])

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Write the file; raises ClusterError when the cluster is another than a moment ago, or can't be asked."""
        return CreateResult(str(props.get("uid")), _write(props, props))

    def update(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> UpdateResult:
        """Write the file again, for the cluster that was recorded and no other.

        After `pulumi stack rename` under the old name, too: what is in the state is reached by that until the update's
        end, where `DestroyCheck` removes it. Refused where another stack has that name, and its file, by now.
        """
        before, now = olds["stack"], news["stack"]
        if before != now and kube.own_text(before) is not None and not _leads_to(before, olds, news):
            raise ClusterError(_taken(before, now))
        written = _write(olds, news)
        if before != now and kube.own_text(before) is None:
            kube.write_own(before, kube.own_text(now) or "")
        return UpdateResult(written)

    def read(self, id_: str, props: dict[str, Any]) -> ReadResult:
        """A refresh that can't tell which cluster it would read fails and says it: raises ClusterError."""
        try:
            _look(props)
        except KubeError as error:
            more = way_in(error) if error.status else f" {kube.patience('refresh')}"
            raise ClusterError(f"{error}\nNothing was read.{more}") from None
        return ReadResult(id_, props)

    def delete(self, _id: str, props: dict[str, Any]) -> None:
        """Nothing of the stack is left in the cluster: remove its credentials."""
        kube.remove_own(props["stack"])


class DestroyCheck(Resource, module="cluster", name="DestroyCheck"):
    """Made after everything in the cluster, and so deleted before it: the first to see that the way there is gone.

    What protects another cluster is the stack's own kubeconfig; this says why nothing is deleted, and what to do.
    """

    def __init__(self, pinned: PinnedCluster, after: Sequence[pulumi.Resource], parent: pulumi.Resource) -> None:
        identity = {"server": pinned.server, "authority": pinned.authority, "uid": pinned.uid}
        options = pulumi.ResourceOptions(parent=parent, depends_on=list(after))
        super().__init__(DestroyCheckProvider(), "destroy-check", {"stack": pinned.stack, **identity}, options)


class DestroyCheckProvider(ResourceProvider):
    """Looks when it is deleted; before that it keeps what it will compare."""

    serialize_as_secret_always = False

    def configure(self, req: ConfigureRequest) -> None:  # noqa: ARG002
        """Called before anything else in the provider's process, and only there."""
        sys.tracebacklimit = 0

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        """In place. What is not known yet (`pulumi.output.Unknown`) differs from everything."""
        return DiffResult(changes=any(news.get(key) != olds.get(key) for key in _KEPT), replaces=[])

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Nothing but what is kept."""
        return CreateResult("destroy-check", props)

    def update(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> UpdateResult:
        """Likewise; after `pulumi stack rename` nothing needs the file of the old name any more, but a new stack."""
        before = olds["stack"]
        if before != news["stack"] and not _has_settings(before) and _leads_to(before, olds, news):
            kube.remove_own(before)
        return UpdateResult(news)

    def delete(self, _id: str, props: dict[str, Any]) -> None:
        """Raises ClusterError without the stack's own kubeconfig, or when its cluster is another or does not answer."""
        try:
            _look(props)
        except KubeError as error:
            raise ClusterError(f"{error}\nNothing was deleted.{way_in(error)}") from None


def way_in(error: KubeError) -> str:
    """What helps where the cluster answers and refuses to say which it is; "" where it does not answer."""
    ways = {
        401: f" Its credentials have expired: log in, and then\n  pulumi up --target '**{NAME}'",
        403: " Which cluster it is tells the namespace kube-system, which this user may not read; with the right to:\n"
        f"  pulumi up --target '**{NAME}'",
    }
    return ways.get(error.status, "")


def _look(props: Mapping[str, Any]) -> None:
    """Look where the stack's own kubeconfig leads to; raises ClusterError, and KubeError where nothing answers."""
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
    """Whether the file of that name has the address and the authority of one of these, as far as it says itself."""
    try:
        own = Selected("", "", yaml.safe_load(kube.own_text(stack) or ""))
        return (own.server, own.authority) in {(each.get("server"), each.get("authority")) for each in recorded}
    except (yaml.YAMLError, ValueError, KeyError, IndexError, TypeError):
        return False


def _has_settings(stack: str) -> bool:
    """Whether there is a stack of that name, as far as this checkout has its settings: a rename takes them along."""
    return (PROJECT / stack_file(stack)).exists()


def identify(selected: Selected) -> dict[str, str]:
    """The identity of the cluster that a context leads to; raises KubeError."""
    return {
        "server": selected.server,
        "authority": selected.authority,
        "uid": _uid(kube.connect(selected.content)),
    }


def _uid(api: Any) -> str:
    return str(kube.get(api, _SYSTEM)["metadata"]["uid"])


def _is_old(news: Mapping[str, Any]) -> bool:
    """Whether the file is not as it would be written now, where that is known."""
    if any(isinstance(value, Unknown) for value in news.values()):
        return True
    try:
        selected = kubeconfig.select(news["kubeconfig"], news["context"])
    except KubeError:
        return False
    return kube.own_text(news["stack"]) != selected.text


def _write(recorded: Mapping[str, Any], news: Mapping[str, Any]) -> dict[str, Any]:
    """The properties with the identity, after the file was written."""
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
    """Why an update is not made in another cluster, and each way to go on."""
    return f"""stack {stack} belongs to another cluster than the one that context {selected.context} leads to now.
  the stack's: {_described(recorded)}
  the context's: {_described(identity)}, of {selected.source}
Nothing was changed in either. One of these helps:
  kubectl config get-contexts       # then, with the one of the stack's cluster: pulumi config set kubeContext NAME
  pulumi destroy                    # removes the stack from its own cluster; the next `pulumi up` makes it in the other
  pulumi stack init NAME            # a stack of its own for the other cluster"""


def lost(stack: str, recorded: Mapping[str, Any]) -> str:
    """What to do without the stack's own file."""
    return f"""{kube.own_path(stack)} is gone, and with it the way to the cluster of stack {stack}: \
{_described(recorded)}.
Nothing was read, changed or deleted. To write it again, with kubeContext leading to that cluster:
  pulumi up --target '**{NAME}'"""


def _taken(before: str, now: str) -> str:
    """What to do where the file under the name before a rename is of another cluster by now."""
    file = kube.own_path(before)
    return f"""stack {now} was named {before}, and until this update ends what it has is reached by {file}. \
That file leads to another cluster: another stack has the name by now. Nothing was changed. Without that file:
  mv {file} {file}.kept
  pulumi up --stack {now}
  mv {file}.kept {file}"""


def _described(identity: Mapping[str, Any]) -> str:
    authority = f"authority {identity['authority'][:12]}…" if identity.get("authority") else "a public authority"
    return f"{identity.get('server')} (kube-system {identity.get('uid')}, {authority})"
