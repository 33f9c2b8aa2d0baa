"""Checks that a stack's storage can be used, before anything is created: from this machine, if it has credentials.

If only pods have credentials, a pod checks it (`infra.places.cluster.manifests.storage_access`).
"""

import os
import subprocess
import sys

import pulumi

from infra.programs import ProgramError
from infra.settings.settings import Settings
from infra.settings.storage import Storage
from infra.storage_role import assumed
from training.contract.provenance import PROJECT
from training.launch import environment
from training.machine import output

SECONDS = 90.0
"""The most seconds that the whole check may take. The client asks a server several times before it gives up."""


def refuse_unusable(settings: Settings) -> None:
    """Raise RunError if the storage cannot be used from this machine. Log remarks about the storage as a warning."""
    assert settings.storage is not None  # noqa: S101 - callers check settings.storage first
    try:
        known = ask(settings.storage, settings.run.run_timeout_minutes, data_of(settings))
    except ProgramError as failure:
        raise pulumi.RunError(f"nothing was changed: {failure}") from None
    if known:
        pulumi.log.warn(known)


def data_of(settings: Settings) -> str:
    """Return the address of the runs' data in storage; empty if the data is not in storage."""
    return settings.dataset_path or "" if settings.data_in_storage else ""


def ask(storage: Storage, timeout_minutes: float, data: str = "") -> str:
    """Return remarks about the storage, or an empty text. Raise ProgramError if it, or `data` in it, cannot be used."""
    command = [sys.executable, "-m", "training.launch.storage.probe", storage.address, "--way", way_of(storage)]
    command += ["--data", data] if data else []
    variables = _variables(storage, timeout_minutes)
    try:
        done = output.capture_text(command, seconds=SECONDS, cwd=PROJECT, env=variables)
    except subprocess.TimeoutExpired:
        raise ProgramError(
            f"storage {storage.address} did not answer within {SECONDS:.0f} s; to name another server:\n"
            "  pulumi config set storageEndpoint …"
        ) from None
    if done.returncode:
        message = done.stderr.strip()
        raise ProgramError(message[message.rfind("error: ") + len("error: ") :] if "error: " in message else message)
    return done.stdout.strip()


def way_of(storage: Storage) -> str:
    """Return the key that gives runs their credentials; `own` if runs use those that AWS' tools find."""
    ways = {
        "storageCredentials": storage.credentials,
        "storageRole": storage.role,
        "storageSecret": storage.secret,
        "serviceAccount": storage.service_account,
    }
    return next((key for key, is_set in ways.items() if is_set), "own")


def _variables(storage: Storage, timeout_minutes: float) -> dict[str, str]:
    """Return the environment variables that runs will have while they train."""
    credentials = storage.credentials
    if storage.role:
        credentials = assumed(storage.role, timeout_minutes, "write-test").variables()
    own = environment.training(os.environ, storage.address)
    return environment.let_in(own, credentials) | storage.variables()
