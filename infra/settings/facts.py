"""The facts that settings depend on in addition to their values: the stack, its file, and this machine."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import yaml

from training.contract import provenance
from training.machine import cpu, topology

YAML_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The class that loads YAML: if installed, libyaml's, which is eight times as fast as PyYAML's own."""


@dataclass(frozen=True)
class Facts:
    """What settings depend on in addition to their values: facts about the stack and this machine."""

    project: str
    stack: str
    folder: Path
    """The project's folder, which relative paths start from."""
    cpus_allowed: int
    physical_cores: int
    memory_bytes: int
    secret_keys: frozenset[str] = frozenset()
    """The keys that were set with --secret. No message may show their values."""
    dashboard_installed: bool = True
    """Whether the packages of Ray's dashboard can be imported here."""
    tracking_installed: bool = True
    """Whether MLflow's client can be imported here."""
    optuna_installed: bool = True
    """Whether Optuna can be imported here."""
    cpu_quota: float | None = None
    """The number of CPUs that a quota of this machine or container allows; None without a quota."""
    cores_by_kind: tuple[int, ...] = ()
    """The number of physical cores among the allowed CPUs by kind, fastest first; empty if kinds are not known."""
    lacks_bfloat16: bool = False
    """Whether the CPU is known to have no instructions for bfloat16."""
    declared: Mapping[str, str] = field(default_factory=dict)
    """The defaults in Pulumi.yaml by key, which the engine passes as if the user had set them."""
    elsewhere: frozenset[str] = frozenset()
    """Keys of other prefixes than the project's name, such as `aws:region`. Their values are not read."""
    set_twice: tuple[str, ...] = ()
    """Keys that the stack's file contains twice: without a prefix, and with the project's name."""


def of_stack() -> Facts:
    """Return the facts of the stack for which the engine runs this program."""
    import pulumi  # `rwi try` reads settings where it is not installed
    from pulumi.runtime.config import get_config_env, get_config_secret_keys_env

    prefix = f"{pulumi.get_project()}:"
    secret = frozenset(key.removeprefix(prefix) for key in get_config_secret_keys_env())
    return machine_facts(pulumi.get_project(), pulumi.get_stack(), secret, get_config_env())


def machine_facts(project: str, stack: str, secret_keys: frozenset[str], configured: Iterable[str] = ()) -> Facts:
    """Return the facts of a stack on this machine. `configured`: all keys that the engine or a stack's file has."""
    host = provenance.host()
    return Facts(
        project=project,
        stack=stack,
        folder=provenance.PROJECT,
        cpus_allowed=host.cpus_allowed,
        physical_cores=psutil.cpu_count(logical=False) or host.cpus_allowed,
        memory_bytes=host.memory_bytes,
        secret_keys=secret_keys,
        dashboard_installed=find_spec("aiohttp_cors") is not None,
        tracking_installed=find_spec("mlflow") is not None,
        optuna_installed=find_spec("optuna") is not None,
        cpu_quota=host.cpu_quota,
        cores_by_kind=topology.cores_by_kind(topology.read(provenance.allowed_cpus()) or ()),
        lacks_bfloat16=cpu.lacks_bfloat16(),
        declared=declared(provenance.PROJECT),
        elsewhere=frozenset(key for key in configured if key.rpartition(":")[0] not in ("", project)),
        set_twice=set_twice(provenance.PROJECT / stack_file(stack), project),
    )


def declared(folder: Path) -> dict[str, str]:
    """Return the keys that the Pulumi.yaml in a folder declares, with their defaults.

    Other entries are skipped: entries with a `value`, which Pulumi writes for keys of other projects, and entries that
    are not a mapping.
    """
    config = _yaml(folder / "Pulumi.yaml")["config"]
    entries = {key: entry for key, entry in config.items() if isinstance(entry, dict)}
    return {key: str(entry["default"]) for key, entry in entries.items() if "default" in entry}


def set_twice(file: Path, project: str) -> tuple[str, ...]:
    """Return the keys that a file has with the project's name and without. Pulumi takes either value, by chance."""
    try:
        keys = set((_yaml(file) or {}).get("config") or {})
    except (OSError, ValueError, AttributeError, TypeError, yaml.YAMLError):  # no file, or none that Pulumi reads
        return ()
    return tuple(sorted(key for key in keys if f"{project}:{key}" in keys))


def _yaml(file: Path) -> Any:
    return yaml.load(file.read_text(encoding="utf-8"), YAML_LOADER)  # noqa: S506 - the safe one


def stack_file(stack: str) -> str:
    """Return the path of a stack's settings file, relative to the project's folder."""
    return f"stacks/Pulumi.{stack}.yaml"
