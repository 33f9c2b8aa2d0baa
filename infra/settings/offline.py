"""Reads the folder `offline`, whose files take the place of what a cluster's stack downloads otherwise.

Each file is for one download; what has no file is downloaded as without the folder. The page: docs/offline.md.
"""

import hashlib
import os
import re
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from infra.settings.draft import Draft, is_readable_folder, short
from infra.settings.problem import Problem, set_line
from infra.settings.rules import BASE_IMAGE, CHART, CHART_FILE, SUMS, Supplies, image, matching
from training.contract.rules import Rule, choice

MANIFEST = "network.yaml"
_SUM = re.compile(r"([0-9a-f]{64}) [ *](\S.*)", re.ASCII)


def _sum(text: str) -> tuple[str, str]:
    """Return the name of a file, without its folder, and its digest, from a line that sha256sum printed. Raise
    ValueError if the line is something else."""
    if not (match := _SUM.fullmatch(text)):
        raise ValueError(text)
    return Path(match[2]).name, match[1]


LISTS: dict[str, tuple[Rule, bool]] = {
    "base-image.txt": (image(), True),
    "images.txt": (image(), False),
    "network.txt": (choice(["auto", "calico", "cilium", "kindnet"]), True),
    "addons.txt": (matching("[a-z0-9-]+", "names of Minikube addons, one a line"), False),
    SUMS: (Rule(_sum, "what sha256sum prints: 64 hexadecimal digits, two blanks, a file's name"), False),
}
"""The text files of `offline` with a value in each line: the rule for these, and whether there is exactly one."""
_CHECKED = (".txt", ".yaml", ".yml")
"""The endings of files whose names must be known: what a misspelt one stands for would be downloaded."""
_NEAR = 0.85
"""How similar to a known name a file's must be to count as misspelt. SHA256SUM is, SHA256SUMS.asc is not."""
_ARCHIVES = (".tgz", ".tar.gz", ".tar", ".zip")


def folder_of(draft: Draft) -> Path | None:
    """Return the folder `offline`; None if the key is not set, or if the folder cannot be read."""
    folder = draft.path(draft.cluster.offline_folder)
    return folder if folder and is_readable_folder(folder) else None


def supplies_of(draft: Draft) -> Supplies:
    """Return where the parts of a cluster come from. A file that cannot be used is treated as missing."""
    folder = folder_of(draft)
    if folder is None:
        return Supplies()
    archive, manifest = folder / chart_file(draft), _content(folder / MANIFEST)
    base_image, network = _values(folder, "base-image.txt"), _values(folder, "network.txt")
    addons, standard = _values(folder, "addons.txt"), Supplies()
    typed = Path(os.path.expanduser(draft.cluster.offline_folder or ""))  # noqa: PTH111 (Path's raises for an unknown ~user)
    return Supplies(
        base_image=base_image[0] if base_image else BASE_IMAGE,
        chart=str(typed / archive.name) if _content(archive) is not None else None,
        chart_digest=dict(_values(folder, SUMS) or ()).get(archive.name, ""),
        images=_values(folder, "images.txt") or (),
        network=str(typed / MANIFEST) if manifest is not None else network[0] if network else standard.network,
        network_digest="" if manifest is None else hashlib.sha256(manifest).hexdigest(),
        addons=standard.addons if addons is None else addons,
    )


def chart_file(draft: Draft) -> str:
    """Return the name of the chart's archive."""
    return CHART_FILE.format(draft.cluster.kuberay_version)


def problems(draft: Draft) -> Iterator[Problem]:
    """Yield a problem if the folder `offline` cannot be read, and one for each file in it that cannot be used."""
    if not draft.cluster.offline_folder:
        return
    folder = folder_of(draft)
    if folder is None:
        yield _problem(draft, "", draft.keys["offline"].rule.allowed, "there is no such folder, or it can't be read")
        return
    for file, (rule, is_one) in LISTS.items():
        yield from _wrong_lines(draft, folder / file, rule, is_one=is_one)
    yield from _unreadable(draft, folder / MANIFEST)
    if os.path.lexists(folder / MANIFEST) and os.path.lexists(folder / "network.txt"):
        yield _problem(draft, MANIFEST, f"{MANIFEST}, or network.txt", "each of them names a pod network")
    yield from _unknown_files(draft, folder)
    if draft.cluster.operator == "install":
        yield from _unreadable(draft, folder / chart_file(draft))
        yield from _another_version(draft, folder)


def _problem(draft: Draft, file: str, allowed: str, why: str, *fixes: str) -> Problem:
    what = f"{draft.shown('offline')}: {file}" if file else draft.shown("offline")
    return Problem(what, allowed, (*fixes, "pulumi config rm offline"), why=why)


def _content(file: Path) -> bytes | None:
    """Return the bytes of a file; None if there is no such file, or if it cannot be read."""
    try:
        return file.read_bytes() if file.is_file() else None
    except OSError:
        return None


def _unreadable(draft: Draft, file: Path) -> Iterator[Problem]:
    """Yield a problem if a folder, a broken link or a file without permission has the name of a file that is needed,
    because that file would be downloaded instead."""
    if os.path.lexists(file) and _content(file) is None:
        yield _problem(draft, file.name, "a readable file", "it is none, or it can't be read")


def _lines(file: Path) -> dict[int, str] | None:
    """Return the lines of a file by number, without comments and empty lines; None if the file does not exist. Raise
    OSError or ValueError if the file cannot be read as text."""
    if not os.path.lexists(file):
        return None
    if not file.is_file():
        raise ValueError(f"{file.name} is no file")
    lines = enumerate(file.read_text(encoding="utf-8").splitlines(), start=1)
    return {number: text.strip() for number, text in lines if text.strip() and not text.strip().startswith("#")}


def _values(folder: Path, name: str) -> tuple[Any, ...] | None:
    """Return the values in a file; None if the file is missing or cannot be used."""
    rule, _ = LISTS[name]
    try:
        lines = _lines(folder / name)
        return None if lines is None else tuple(rule.parse(text) for text in lines.values())
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


def _unknown_files(draft: Draft, folder: Path) -> Iterator[Problem]:
    known = [*LISTS, MANIFEST]
    by_lower = {name.lower(): name for name in known}
    names = sorted(file.name for file in folder.iterdir() if not file.name.startswith(".") and file.name[-1] != "~")
    for name in (name for name in names if name not in known and not name.upper().startswith("README")):
        has_ending = Path(name).suffix.lower() in _CHECKED
        likes = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6 if has_ending else _NEAR)
        if not (has_ending or likes):
            continue
        close = [by_lower[like] for like in likes]
        meant = f"; did you mean {close[0]}?" if close else ""
        shown = name if name.isprintable() else ascii(name)
        yield _problem(draft, shown, f"{', '.join(known)}{meant}", "no other file of this kind is read")


def _another_version(draft: Draft, folder: Path) -> Iterator[Problem]:
    """Yield a problem if all charts in the folder have another version or name: an update would download one."""
    names = sorted(file.name for file in folder.iterdir())
    charts = [name for name in names if name.lower().startswith(CHART) and name.lower().endswith(_ARCHIVES)]
    wanted = chart_file(draft)
    if not charts or wanted in charts:
        return
    version = charts[-1].removeprefix(f"{CHART}-").removesuffix(".tgz")
    try:
        fixes = [set_line("kuberayVersion", draft.keys["kuberayVersion"].rule.parse(version))]
    except ValueError:
        fixes = []
    why = f"{draft.shown('kuberayVersion')}, and no other name is read"
    yield _problem(draft, ", ".join(map(short, charts)), wanted, why, *fixes)
