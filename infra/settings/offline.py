"""Reads the folder `offline`, whose files take the place of what a cluster's stack downloads otherwise.

Each file is for one download; what has no file is downloaded as without the folder. The page: docs/offline.md.
"""

import hashlib
import os
import re
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path

from infra.settings.draft import Draft
from infra.settings.problem import Problem, set_line
from infra.settings.rules import BASE_IMAGE, Supplies, image, matching
from training.contract.rules import Rule, choice

CHART = "kuberay-operator"
"""The chart's name: in KubeRay's repository, and at the beginning of its file's name."""
SUMS = "SHA256SUMS"
MANIFEST = "network.yaml"
LISTS: dict[str, tuple[Rule, bool]] = {
    "base-image.txt": (image(), True),
    "images.txt": (image(), False),
    "network.txt": (choice(["auto", "calico", "cilium", "kindnet"]), True),
    "addons.txt": (matching("[a-z0-9-]+", "names of Minikube addons, one a line"), False),
}
"""Text files of one value a line: the rule for each, and whether there is exactly one."""
_SUM = re.compile(r"([0-9a-f]{64}) [ *](\S.*)", re.ASCII)
_CHECKED = (".txt", ".yaml", ".yml")
"""Endings of files that have to be known: a misspelt name would be downloaded instead."""


def folder_of(draft: Draft) -> Path | None:
    """Return the folder; None if the key is not set, or it is none that can be read."""
    folder = draft.path(draft.cluster.offline_folder)
    try:
        if folder:
            list(folder.iterdir())
    except (OSError, ValueError):  # none, no permission, a name too long, a NUL
        return None
    return folder


def supplies_of(draft: Draft) -> Supplies:
    """Return where the parts of a cluster come from; for a file that cannot be used, as if it was not there."""
    folder = folder_of(draft)
    if folder is None:
        return Supplies()
    archive, manifest = folder / chart_file(draft), folder / MANIFEST
    base_image, network = _values(folder, "base-image.txt"), _values(folder, "network.txt")
    addons, standard = _values(folder, "addons.txt"), Supplies()
    typed = Path(os.path.expanduser(draft.cluster.offline_folder or ""))  # noqa: PTH111 (Path's raises for an unknown ~user)
    return Supplies(
        base_image=base_image[0] if base_image else BASE_IMAGE,
        chart=str(typed / archive.name) if archive.is_file() else None,
        chart_digest=_sums(folder).get(archive.name, ""),
        images=_values(folder, "images.txt") or (),
        network=str(typed / MANIFEST) if manifest.is_file() else network[0] if network else standard.network,
        network_digest=hashlib.sha256(manifest.read_bytes()).hexdigest() if manifest.is_file() else "",
        addons=standard.addons if addons is None else addons,
    )


def chart_file(draft: Draft) -> str:
    """Return the name of the chart's archive, as `helm pull` writes it."""
    return f"{CHART}-{draft.cluster.kuberay_version}.tgz"


def problems(draft: Draft) -> Iterator[Problem]:
    """Refuse a folder that is none, and what is wrong in one: a problem a file."""
    if not draft.cluster.offline_folder:
        return
    folder = folder_of(draft)
    if folder is None:
        yield _problem(draft, "", draft.keys["offline"].rule.allowed, "there is no such folder, or it can't be read")
        return
    for file, (rule, is_one) in LISTS.items():
        yield from _wrong_lines(draft, folder / file, rule, is_one=is_one)
    yield from _wrong_sums(draft, folder / SUMS)
    if (folder / MANIFEST).exists() and (folder / "network.txt").exists():
        yield _problem(draft, MANIFEST, f"{MANIFEST}, or network.txt", "each of them names a pod network")
    yield from _unknown_files(draft, folder)
    if draft.cluster.operator == "install":
        yield from _another_version(draft, folder)


def _problem(draft: Draft, file: str, allowed: str, why: str, *fixes: str) -> Problem:
    what = f"{draft.shown('offline')}: {file}" if file else draft.shown("offline")
    return Problem(what, allowed, (*fixes, "pulumi config rm offline"), why=why)


def _lines(file: Path) -> dict[int, str] | None:
    """Return a file's lines by number, without comments and empty ones; None if there is no file. Raises OSError and
    ValueError."""
    if not file.exists():
        return None
    if not file.is_file():
        raise ValueError(f"{file.name} is no file")
    lines = enumerate(file.read_text(encoding="utf-8").splitlines(), start=1)
    return {number: text.strip() for number, text in lines if text.strip() and not text.strip().startswith("#")}


def _values(folder: Path, name: str) -> tuple[str, ...] | None:
    """Return a file's values; None if it is not there, or cannot be used."""
    rule, _ = LISTS[name]
    try:
        lines = _lines(folder / name)
        return None if lines is None else tuple(str(rule.parse(text)) for text in lines.values())
    except (OSError, ValueError):
        return None


def _wrong_lines(draft: Draft, file: Path, rule: Rule, *, is_one: bool) -> Iterator[Problem]:
    try:
        lines = _lines(file)
    except (OSError, ValueError) as error:
        yield _problem(draft, file.name, "a readable text file", type(error).__name__)
        return
    for number, text in (lines or {}).items():
        try:
            rule.parse(text)
        except ValueError:
            yield _problem(draft, f"{file.name}, line {number}", rule.allowed, "the line holds something else")
    if is_one and lines is not None and len(lines) != 1:
        yield _problem(draft, file.name, "one line", f"it has {len(lines)}, besides comments")


def _sums(folder: Path) -> dict[str, str]:
    """Return digests by file name, whatever folder sha256sum was called in; lines that are none are left out."""
    try:
        sums = (_SUM.fullmatch(text) for text in (_lines(folder / SUMS) or {}).values())
    except (OSError, ValueError):
        return {}
    return {Path(match[2]).name: match[1] for match in sums if match}


def _wrong_sums(draft: Draft, file: Path) -> Iterator[Problem]:
    try:
        lines = _lines(file) or {}
    except (OSError, ValueError) as error:
        yield _problem(draft, file.name, "a readable text file", type(error).__name__)
        return
    for number in (number for number, text in lines.items() if not _SUM.fullmatch(text)):
        allowed = "what sha256sum prints: 64 hexadecimal digits, two blanks, a file's name"
        yield _problem(draft, f"{file.name}, line {number}", allowed, "the line holds something else")


def _unknown_files(draft: Draft, folder: Path) -> Iterator[Problem]:
    known = [*LISTS, MANIFEST]
    names = sorted(file.name for file in folder.iterdir() if file.suffix in _CHECKED and not file.name.startswith("."))
    for name in (name for name in names if name not in known and not name.upper().startswith("README")):
        close = get_close_matches(name, known, n=1)
        meant = f"; did you mean {close[0]}?" if close else ""
        shown = name if name.isprintable() else ascii(name)
        yield _problem(draft, shown, f"{', '.join(known)}{meant}", "no other file of this kind is read")


def _another_version(draft: Draft, folder: Path) -> Iterator[Problem]:
    """Refuse a folder with charts of other versions alone: an update would download the one that is missing."""
    charts = sorted(file.name for file in folder.glob(f"{CHART}-*.tgz"))
    wanted = chart_file(draft)
    if not charts or wanted in charts:
        return
    version = charts[-1].removeprefix(f"{CHART}-").removesuffix(".tgz")
    try:
        fixes = [set_line("kuberayVersion", draft.keys["kuberayVersion"].rule.parse(version))]
    except ValueError:
        fixes = []
    yield _problem(draft, ", ".join(charts), wanted, f"{draft.shown('kuberayVersion')}", *fixes)
