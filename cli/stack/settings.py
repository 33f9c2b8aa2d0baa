"""Reads the settings of a stack as the program does, without an update: from Pulumi.yaml, the stack's file and a call.
The engine is not asked."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from cli.setup.project import SWEEP_PREFIX, ToolError, project_name
from cli.stack import config as stack_config
from cli.stack.lines import for_rwi
from infra.settings.facts import Facts, machine_facts
from infra.settings.problem import InvalidSettingsError
from infra.settings.table import read
from training.machine.command_line import assignment

if TYPE_CHECKING:
    from infra.settings.settings import Settings

T = TypeVar("T")
_SECURE = "secure"
"""The key under which a stack's file holds an encrypted value."""


def load(stack: str, overrides: Mapping[str, str]) -> Settings:
    """Return the settings of `stack`; a stack of a sweep has those of the stack from which the sweep was made. Raise
    ToolError that lists all problems."""
    from infra.places.place import settings_of  # loads Pulumi

    try:
        return settings_of(*_texts_and_facts(stack, overrides))
    except InvalidSettingsError as error:
        raise ToolError(for_rwi(str(error), stack, overrides)) from None


def refuse_wrong(stack: str, overrides: Mapping[str, str]) -> None:
    """Raise ToolError that lists unknown keys, and values that the rules of their keys refuse. Only what can be checked
    without Pulumi is checked."""
    if problems := read(*_texts_and_facts(stack, overrides)).problems:
        raise ToolError(for_rwi(str(InvalidSettingsError(stack, problems)), stack, overrides))


def _texts_and_facts(stack: str, overrides: Mapping[str, str]) -> tuple[dict[str, str], Facts]:
    """Return this project's keys as texts, from the stack's file and the call, and the facts of this machine."""
    stack_values = stack_config.config_of(stack.removeprefix(SWEEP_PREFIX))
    project = project_name()
    values = _own(stack_values, project)
    secret = {key for key, value in values.items() if isinstance(value, dict) and value.keys() == {_SECURE}}
    texts = {key: _text(value) for key, value in values.items() if key not in secret}
    facts = machine_facts(project, stack, frozenset(secret), [*stack_values, *overrides])
    return {**facts.declared, **texts, **_own(overrides, project)}, facts


def _own(values: Mapping[str, T], project: str) -> dict[str, T]:
    """Return the values of this project's keys, by key without the project's name. Keys of other projects, such as
    `aws:region`, are left out."""
    parts = ((*key.rpartition(":")[::2], value) for key, value in values.items())
    return {key: value for namespace, key, value in parts if namespace in ("", project)}


def kept_at(settings: Settings) -> str:
    """Return the address of the stack's folder in storage, and set the variables that it is reached with. Raise
    ToolError if there is no such folder, or this machine cannot reach it.

    The credentials are this process's own, because those of pods are not read here. A call may name another address of
    the server, such as that of a port forwarded to this machine.
    """
    stack, storage = settings.stack, settings.storage
    if storage is None:
        line = for_rwi("pulumi config set storage kept", stack, {})
        raise ToolError(f"stack {stack} keeps nothing: its key storage is not set, `{line}`")
    if storage.claim:
        raise ToolError(f"storage of stack {stack} is a claim of its cluster, which pods alone can read")
    if storage.endpoint:
        _refuse_unknown_name(storage.endpoint)
    os.environ.update(storage.variables())
    return f"{storage.address}/{stack}"


def _refuse_unknown_name(endpoint: str) -> None:
    """Raise ToolError for a host name that only pods can resolve, such as a Service's, with the lines that forward its
    port to this machine."""
    server = urlsplit(endpoint)
    host, port = server.hostname or "", server.port or server.scheme
    try:
        socket.getaddrinfo(host, port)
    except OSError:
        service, _, rest = host.partition(".")
        namespace = rest.partition(".")[0] or "NAMESPACE"
        here = assignment("storageEndpoint", f"{server.scheme}://127.0.0.1:9000")
        raise ToolError(
            f"this machine does not know the server of storage, {endpoint}; one in the cluster is brought here so,"
            " and used with your own AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY:\n"
            f"  kubectl --namespace {namespace} port-forward service/{service} 9000:{port} &\n"
            f"  --set {here}    (with the same command)"
        ) from None


def _text(value: object) -> str:
    """Return a value as the text that Pulumi makes of it: YAML's true and 2.0 become `true` and `2`, an empty value
    becomes "", and a list becomes JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    return json.dumps(whole, separators=(",", ":"), ensure_ascii=False, default=str).strip('"')
