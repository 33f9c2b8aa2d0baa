"""A user's kubeconfig reduced to the one context that a stack uses.

Reads files; contacts no cluster. Merges as kubectl does: the first file with a name defines it.

kubectl itself is not used, because some users have none, for example with MicroK8s. `kubectl config view` also prints
paths as they stand in whichever file they come from, and with `--flatten` copies certificates that their owner renews.
The Python client's merger is not used, because in it the last file's current context wins, and it refuses nothing.
"""

import base64
import hashlib
import os
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from infra.places.cluster.api.kube import KubeError
from infra.settings.problem import set_line
from training.contract.provenance import PROJECT

LONGEST_BYTES = 10 * 2**20
_ANOTHER_FILE = "To use another file:\n  pulumi config set kubeconfig PATH"
_IMPERSONATION = ("as", "as-uid", "as-groups", "as-user-extra")
_FILES = ("certificate-authority", "client-certificate", "client-key", "tokenFile")


Entry = dict[str, Any]


class KubeconfigError(KubeError):
    """Raised if a kubeconfig cannot be used; the message has the command line that fixes it."""


class NotHereError(KubeconfigError):
    """Raised if the kubeconfig or the context is missing on this machine. A preview may run without both."""


@dataclass(frozen=True)
class Selected:
    """One context of a user's kubeconfig, whose file paths are all absolute."""

    context: str
    source: str
    """The files from which the context was read, as text for messages."""
    content: Entry
    """A complete kubeconfig that contains only this context."""

    @property
    def server(self) -> str:
        """Return the API server's address."""
        return str(self._cluster["server"])

    @property
    def authority(self) -> str:
        """Return the SHA-256 of the cluster's CA certificate; empty for a public authority that the system trusts."""
        data = self._cluster.get("certificate-authority-data")
        return hashlib.sha256(base64.b64decode(data)).hexdigest() if data else ""

    @property
    def text(self) -> str:
        """Return the kubeconfig as YAML."""
        return yaml.safe_dump(self.content)

    @property
    def _cluster(self) -> Entry:
        return dict(self.content["clusters"][0]["cluster"])

    def __str__(self) -> str:
        return f"context {self.context} of {self.source}, at {self.server}"


def current_context(setting: str | None) -> str | None:
    """Return the current context of the user's kubeconfig, for a message; None without a usable one."""
    try:
        merged = _Merged(setting)
    except KubeconfigError:
        return None
    return merged.current if merged.current in merged.entries["contexts"] else None


def select(setting: str | None, context: str) -> Selected:
    """Return the context from the file in `setting`; without `setting`, from KUBECONFIG or ~/.kube/config. Raise
    KubeconfigError if the kubeconfig or the context cannot be used."""
    merged = _Merged(setting)
    links = merged.entry("contexts", context)
    for kind in ("cluster", "user"):
        if not links.get(kind):
            raise KubeconfigError(
                f"context {context} of {merged.source} names no {kind}:\n"
                f"  kubectl config set-context {context} --{kind}=NAME"
            )
    cluster_name, user_name = str(links["cluster"]), str(links["user"])
    cluster = _pinned(cluster_name, merged.entry("clusters", cluster_name, context), merged.source)
    user = merged.entry("users", user_name, context)
    _refuse_impersonation(user_name, user, merged.source)
    _refuse_missing_program(user_name, user, merged.source)
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": context,
        "clusters": [{"name": cluster_name, "cluster": cluster}],
        "users": [{"name": user_name, "user": user}],
        "contexts": [{"name": context, "context": {"cluster": cluster_name, "user": user_name}}],
    }
    return Selected(context, merged.source, content)


class _Merged:
    """All files of a user's kubeconfig merged: their entries by kind and name, with absolute paths in each entry."""

    def __init__(self, setting: str | None) -> None:
        files = _files(setting)
        read = {file: content for file in files if (content := _read(file)) is not None}
        self.source = os.pathsep.join(map(str, read or files))
        if not read:
            raise NotHereError(f"there is no kubeconfig {self.source}. {_ANOTHER_FILE}")
        self.current = ""
        self.entries: dict[str, dict[str, Entry]] = {"contexts": {}, "clusters": {}, "users": {}}
        for file, content in read.items():
            self.current = self.current or str(content.get("current-context") or "")
            for kinds, known in self.entries.items():
                for name, entry in _named(file, kinds, content.get(kinds)).items():
                    known.setdefault(name, entry)

    def entry(self, kinds: str, name: str, of_context: str = "") -> Entry:
        """Return the entry with this name. Raise KubeconfigError if there is no such entry."""
        known = self.entries[kinds]
        if name in known:
            return known[name]
        if of_context:
            raise KubeconfigError(
                f"context {of_context} of {self.source} names the {kinds[:-1]} {name}, which is not there"
                f" (there are: {', '.join(known) or 'none'}):\n"
                f"  kubectl config set-context {of_context} --{kinds[:-1]}=NAME"
            )
        raise NotHereError(
            f"{self.source} has no context {name}; it has {', '.join(known) or 'none'}:\n  "
            + (set_line("kubeContext", self.current or next(iter(known))) if known else _ANOTHER_FILE)
        )


def _files(setting: str | None) -> list[Path]:
    if setting:
        return [PROJECT / setting]
    listed = [text for text in os.environ.get("KUBECONFIG", "").split(os.pathsep) if text]
    return [Path(text).absolute() for text in listed] or [Path.home() / ".kube" / "config"]


def _read(path: Path) -> Entry | None:
    """Return the mapping in a kubeconfig file; None without the file. Raise KubeconfigError if it holds no mapping."""
    raw = _bytes(path)
    if raw is None:
        return None
    try:
        content = yaml.safe_load(raw)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise KubeconfigError(f"the kubeconfig {path} is no YAML text. {_ANOTHER_FILE}") from None
    if not isinstance(content, dict):
        why = "holds no kubeconfig" if content else "is empty"
        raise KubeconfigError(f"the kubeconfig {path} {why}. {_ANOTHER_FILE}")
    return content


def _bytes(path: Path) -> bytes | None:
    """Return a file's bytes; None if the file does not exist. Raise KubeconfigError if it cannot be read or is too
    large, or is a pipe, which could block, or a device, which has no end."""
    try:
        if not path.exists():
            return None
        if path.is_file() and path.stat().st_size <= LONGEST_BYTES:
            return path.read_bytes()
    except OSError as error:
        raise KubeconfigError(
            f"{path} can't be read ({error.strerror}):\n  chmod u+r {path}\n{_ANOTHER_FILE}"
        ) from None
    raise KubeconfigError(f"{path} is not a file that holds a kubeconfig. {_ANOTHER_FILE}")


def _named(file: Path, kinds: str, listed: Any) -> dict[str, Entry]:
    """Return the entries of a list in a kubeconfig by name. Raise KubeconfigError if the list is malformed."""
    kind = kinds[:-1]
    try:
        return {str(item["name"]): _with_whole_paths(item.get(kind) or {}, file.parent) for item in listed or ()}
    except (TypeError, KeyError, AttributeError):
        raise KubeconfigError(
            f"in the kubeconfig {file}, {kinds} is no list of a name and a {kind}. {_ANOTHER_FILE}"
        ) from None


def _with_whole_paths(entry: Entry, folder: Path) -> Entry:
    """Return an entry with absolute paths. Its relative paths start at the folder of its file, but the stack's own
    kubeconfig is in another folder."""
    whole: Entry = {key: str(folder / str(entry[key])) for key in _FILES if entry.get(key)}
    program = entry.get("exec")
    if isinstance(program, Mapping) and os.sep in str(program.get("command") or ""):
        whole["exec"] = {**program, "command": str(folder / str(program["command"]))}
    return {**entry, **whole}


def _pinned(name: str, cluster: Entry, source: str) -> Entry:
    """Return the cluster with its CA certificate embedded. Raise KubeconfigError if another cluster at the same address
    could not be told from this cluster."""
    fix = f"kubectl config set-cluster {name}"
    if not str(cluster.get("server") or "").startswith("https://"):
        raise KubeconfigError(
            f"cluster {name} of {source} has the server {cluster.get('server') or '(none)'}, and https:// is"
            f" allowed: without a certificate nothing tells one cluster from another:\n  {fix} --server=https://HOST:PORT"
        )
    if cluster.pop("insecure-skip-tls-verify", False):
        raise KubeconfigError(
            f"cluster {name} of {source} has insecure-skip-tls-verify, and then nothing tells this cluster from"
            f" another at its address. Give it its certificate authority:\n"
            f"  {fix} --insecure-skip-tls-verify=false --certificate-authority=FILE --embed-certs"
        )
    file = cluster.pop("certificate-authority", None)
    data = cluster.get("certificate-authority-data")
    if file and not data:
        raw = _bytes(Path(file))
        if raw is None:
            raise KubeconfigError(
                f"cluster {name} of {source} names the certificate authority {file}, and there is no such"
                f" file:\n  {fix} --certificate-authority=FILE --embed-certs"
            )
        cluster["certificate-authority-data"] = base64.b64encode(raw).decode()
    try:
        base64.b64decode(data or "", validate=True)
    except (ValueError, TypeError):
        raise KubeconfigError(
            f"cluster {name} of {source} has a certificate-authority-data that is no base64:\n"
            f"  {fix} --certificate-authority=FILE --embed-certs"
        ) from None
    return cluster


def _refuse_impersonation(name: str, user: Entry, source: str) -> None:
    """Raise KubeconfigError if the user impersonates another user. The Python client does not support that, so this
    program's own requests would have the rights of the real user."""
    if keys := [key for key in _IMPERSONATION if user.get(key)]:
        lines = "\n".join(f"  kubectl config unset {shlex.quote(f'users.{name}.{key}')}" for key in keys)
        raise KubeconfigError(
            f"user {name} of {source} has {', '.join(keys)}, which are obeyed by Pulumi's provider alone: all else"
            f" would be done with the rights of {name} itself. A context whose user has the wanted rights:\n"
            f"  {set_line('kubeContext', 'NAME')}\nor, with the rights that {name} has:\n{lines}"
        )


def _refuse_missing_program(name: str, user: Entry, source: str) -> None:
    program = user.get("exec")
    if not isinstance(program, Mapping):
        return
    command = str(program.get("command") or "")
    if not shutil.which(command):
        hint = str(program.get("installHint") or "Install it, or choose another user for the context").strip()
        raise KubeconfigError(
            f"user {name} of {source} gets its credentials from `{command}`, which can't be run here:\n  {hint}"
        )
