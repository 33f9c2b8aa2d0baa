"""Checks between the settings of every workload: workers, seeds, storage, tracking.

Not here: the rules of one key (`infra.settings.table`), and the checks of one workload (`infra.settings.cnn`) or one
place (`infra.places`).
"""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from urllib.parse import urlsplit

from infra.settings.draft import Draft, Problem, UnparsedKeyError, set_line
from infra.settings.key import CLUSTER, LOCAL
from infra.settings.rules import CLAIM, MOUNTED

OF_OFFLINE = "infra.settings.offline"
"""The module that reads the folder `offline`; loaded only for a cluster's stack."""
OF_POD_TEMPLATE = "infra.settings.pod_template"
"""The module that reads the file of `podTemplate`; loaded only for a cluster's stack."""
OF_STORAGE = "infra.settings.storage"
"""The module with the settings of storage; loaded only for a stack that has storage."""
STORAGE_KEYS = (
    "storage",
    "storageEndpoint",
    "storageRegion",
    "storageCredentials",
    "storageRole",
    "storageSecret",
    "serviceAccount",
    "storageClass",
    "storageSize",
)


@dataclass(frozen=True)
class Check:
    """A check, and the keys that must have been parsed before it runs."""

    run: Callable[[Draft], Iterator[Problem]]
    keys: tuple[str, ...]


def run_checks(draft: Draft, checks: tuple[Check, ...]) -> list[Problem]:
    """Return the problems that the checks find; a check stops at a key that could not be parsed, listed or not."""
    problems: list[Problem] = []
    for check in checks:
        if set(check.keys) <= set(draft.values):
            with suppress(UnparsedKeyError):
                problems.extend(check.run(draft))
    return problems


def path_of(draft: Draft, key: str) -> Path | None:
    """Return the path on this machine that a key names, relative to the project's folder; None if it names none."""
    if not draft.get(key) or in_storage(draft, key):
        return None
    return draft.facts.folder / os.path.expanduser(str(draft[key]))  # noqa: PTH111 (Path's raises for an unknown ~user)


def in_storage(draft: Draft, key: str) -> str | None:
    """Return the address in storage that a key names: a bucket's, or a path in the pods' claim; None for neither."""
    address = str(draft.get(key) or "").rstrip("/")
    is_in_claim = draft.target in CLUSTER and draft.get("storage") == CLAIM and address.startswith(f"{MOUNTED}/")
    return address if "://" in address or is_in_claim else None


def is_set(draft: Draft, key: str) -> bool:
    """Return whether a key has a value other than its default; true for a secret, which only an engine decrypts."""
    if key in draft.facts.secret_keys:
        return True
    return draft.texts.get(key, "").strip() not in ("", draft.keys[key].default_for(draft.target))


def is_readable(path: Path | None) -> bool:
    """Return whether the path is a file or folder that can be read."""
    try:
        return path is not None and path.exists() and os.access(path, os.R_OK)
    except (OSError, ValueError):  # no permission on the way there, a name too long
        return False


def is_readable_folder(path: Path) -> bool:
    """Return whether the path is a folder whose files can be listed; false for a broken link, or one in a circle."""
    try:
        return path.is_dir() and os.access(path, os.R_OK | os.X_OK)
    except (OSError, ValueError):  # no permission on the way there, a name too long, a NUL
        return False


def fewer_workers(draft: Draft) -> tuple[int, ...]:
    """Return the numbers of workers in `workersCurve` other than `workers`, ascending."""
    return tuple(sorted(set(draft["workersCurve"]) - {draft["workers"]}))


def _curve_ends_at_workers(draft: Draft) -> Iterator[Problem]:
    curve, workers = draft["workersCurve"], draft["workers"]
    if not curve or (fewer_workers(draft) and max(curve) <= workers):
        return
    raised = [set_line("workers", max(curve))] if len(set(curve)) > 1 else []
    fitting = [number for number in fewer_workers(draft) if number < workers] or [1]
    lowered = [set_line("workersCurve", ",".join(map(str, (*fitting, workers))))] if workers > 1 else []
    yield Problem(
        f"{draft.shown('workersCurve')} with {draft.shown('workers')}",
        "none, or numbers up to workers with at least one below it",
        (*lowered, *raised, set_line("workersCurve", "none")),
        why="the curve ends at `workers`, whose runs the comparison has anyway",
    )


def _seeds_stay_valid(draft: Draft) -> Iterator[Problem]:
    rule, repeats = draft.keys["seed"].rule, draft["repeats"]
    try:
        rule.parse(str(draft["seed"] + repeats - 1))
    except ValueError:
        yield Problem(
            f"{draft.shown('seed')} with {draft.shown('repeats')}",
            f"{rule.allowed}, for the last repeat too",
            (set_line("seed", draft["seed"] - repeats + 1),),
            why=f"repeat {repeats} uses seed + {repeats - 1}",
        )


def lines_for_storage(draft: Draft) -> tuple[str, ...]:
    """Return the lines that give a stack storage; empty on a target that has none."""
    key, role = draft.keys["storage"], draft.keys["storageRole"]
    if draft.target in LOCAL:
        return (set_line(key.name, "kept"),)
    let_in = f"{set_line(key.name, key.example)} && {set_line(role.name, role.example)}"
    return (let_in,) if draft.target in key.targets else ()


def _storage_is_reached(draft: Draft) -> Iterator[Problem]:
    """Check storage if any of its keys is set; loads the module only then."""
    if any(is_set(draft, key) for key in STORAGE_KEYS):
        yield from import_module(OF_STORAGE).problems(draft)


def _tracking_is_an_address(draft: Draft) -> Iterator[Problem]:
    """Refuse anything but an address, without showing it: the comparison is public, and the rest may be a
    credential."""
    key = draft.keys["trackingUri"]
    if key.name in draft.facts.secret_keys:
        yield Problem(
            f"{key.name} is set with --secret", key.rule.allowed,
            (f"pulumi config rm {key.name} && {set_line(key.name, key.example)}",),
            why="the comparison says to which server it was written",
        )  # fmt: skip
        return
    address = _address_alone(draft["trackingUri"] or "")
    if address != (draft["trackingUri"] or ""):
        yield Problem(
            f"{key.name} holds more than the address of a server", key.rule.allowed,
            (set_line(key.name, address or key.example),),
            why="MLflow's client takes user and password from MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, "
            "a token from MLFLOW_TRACKING_TOKEN: `export` them before `make up`",
        )  # fmt: skip


def _address_alone(address: str) -> str:
    """Return scheme, host, port and path; "" without a host, or with an invalid port."""
    try:
        parts = urlsplit(address)
        usable = parts.hostname and (parts.port is None or parts.port)
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if usable else ""


def _tracking_is_installed(draft: Draft) -> Iterator[Problem]:
    if draft["trackingUri"] and not draft.facts.tracking_installed:
        yield Problem(
            draft.shown("trackingUri"), "not set, unless MLflow's client is installed",
            ("uv sync --frozen --inexact --extra tracking", "pulumi config rm trackingUri"),
            why="`make up` installs it for a stack that sets this key",
        )  # fmt: skip


CHECKS = (
    Check(_curve_ends_at_workers, ("workers", "workersCurve")),
    Check(_seeds_stay_valid, ("seed", "repeats")),
    Check(_storage_is_reached, STORAGE_KEYS),
    Check(_tracking_is_an_address, ("trackingUri",)),
    Check(_tracking_is_installed, ("trackingUri",)),
)
