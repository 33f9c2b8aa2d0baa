"""Population based training without Ray in it: a trial in segments, each of which begins with the checkpoint that one
before it has left, of the same trial or of a better one.

Whether a segment began with that very folder is not taken from who handed it over: digests are taken where it was
left and where it was found, and compared at the end (`check`). Standard library only.
"""

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from training.contract.codec import decode, encode, write_whole
from training.contract.recipe import canonical
from training.workloads.search import detail
from training.workloads.search.detail import Segment, Trial
from training.workloads.search.plan import TRIALS
from training.workloads.search.recipe import CHECKPOINT

SEGMENTS = "segments"
"""Folder of a trial's segments, in the trial's folder; each segment has a folder in it, named by its number."""
SEGMENT = "segment.json"
"""Name of the file, in a segment's folder, of a segment that has ended."""
ORIGIN, FILES = "origin.json", "files"
"""Names in a checkpoint that Ray keeps: the file that says who left it, and a copy of the script's own folder."""
KEPT = "ray"
"""Name of the folder, in the run's folder, in which Ray keeps checkpoints."""
NUMBERS = "numbers"
"""Name of the folder, in the run's folder, with the trials' numbers by Ray's names of the trials."""
READ_BYTES = 2**20


class HandOverError(RuntimeError):
    """In this search a trial began with another folder than the one from which it was to continue."""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The trial and the segment that left a checkpoint."""

    trial: int
    segment: int
    until: int
    """Number of epochs that were trained before the checkpoint was left."""


def digest(folder: Path) -> str:
    """Return the SHA-256 over a folder: over the names in it, and over every byte of its files."""
    whole = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        kind = "link" if path.is_symlink() else "folder" if path.is_dir() else "file"
        whole.update(f"{kind} {path.relative_to(folder).as_posix()!r}\n".encode())
        if kind == "link":
            whole.update(f"{path.readlink().as_posix()!r}\n".encode())
        elif kind == "file":
            content = hashlib.sha256()
            with path.open("rb") as file:
                while part := file.read(READ_BYTES):
                    content.update(part)
            whole.update(content.digest())
    return whole.hexdigest()


def save(folder: Path, checkpoint: Path, origin: Origin) -> None:
    """Copy the script's folder into a checkpoint, and write there which segment left the folder."""
    shutil.copytree(folder, checkpoint / FILES, symlinks=True)
    write_whole(checkpoint / ORIGIN, json.dumps(encode(origin)))


def load(checkpoint: Path, folder: Path) -> Origin:
    """Replace the script's folder by a checkpoint's files, and return which segment left them."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(checkpoint / FILES, folder, symlinks=True)
    return cast("Origin", decode(Origin, json.loads((checkpoint / ORIGIN).read_text(encoding="utf-8")), ORIGIN))


def remove_checkpoints(folder: Path) -> None:
    """Delete the checkpoints that Ray and the trials have kept in a run's folder."""
    for checkpoint in [*folder.glob(f"{KEPT}/search/*/checkpoint_*"), *folder.glob(f"{TRIALS}/*/{CHECKPOINT}")]:
        shutil.rmtree(checkpoint, ignore_errors=True)
    shutil.rmtree(folder / NUMBERS, ignore_errors=True)


def segment_of(record: Trial, until: int, origin: Origin | None, digests: tuple[str, str]) -> Segment:
    """Return the segment that one start of the script made, given the record of that start. `digests` are those of the
    checkpoint's folder before and after the start."""
    return Segment(
        config=record.config, began=record.began, ended=record.ended, until=until, epochs=record.epochs,
        metric=record.metric, origin=[origin.trial, origin.segment] if origin else None, digest_before=digests[0],
        digest_after=digests[1],
    )  # fmt: skip


def why_not(segment: Segment, before: int, empty: str) -> str:
    """Return why a start of the script that ended well does not count as a segment; "" if it does. `before` is the
    number of epochs in the checkpoint that it began with; `empty` is the digest of an empty folder."""
    wanted = segment.until - before
    if segment.epochs is not None and segment.epochs != wanted:
        return (
            f"a segment had {wanted} epochs to train, to the {segment.until} that {{epochs}} said, and trained "
            f"{segment.epochs}: the script has to go on from what it finds in {{checkpoint}}"
        )
    if segment.digest_after == empty:
        return "it left nothing in {checkpoint}, so no segment could go on from there"
    return ""


def failed(record: Trial, why: str) -> Trial:
    """Return the record of a start of the script that ended well, changed to say that it made no segment."""
    return replace(record, state="failed", why=why)


def joined(number: int, parts: Sequence[Trial], segments: Sequence[Segment]) -> Trial:
    """Return the record of a trial, made from the records of its segments: `parts` has one for each start of the
    script, in order."""
    last, began = parts[-1], parts[0].began
    return replace(
        last,
        number=number,
        began=began,
        epochs=_sum([part.epochs for part in parts]),
        steps=_sum([part.steps for part in parts]),
        points=[[at + part.began - began, value] for part in parts for at, value in part.points],
        peak_memory_bytes=max((part.peak_memory_bytes for part in parts if part.peak_memory_bytes), default=None),
        segments=[*segments],
    )


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def folders(trial_folder: Path) -> list[Path]:
    """Return the folders of a trial's segments, in order."""
    return sorted((trial_folder / SEGMENTS).glob("*"), key=lambda folder: int(folder.name))


def read(folder: Path) -> Segment | None:
    """Return the segment in a folder; None if the segment has not ended."""
    try:
        text = (folder / SEGMENT).read_text(encoding="utf-8")
    except OSError:
        return None
    return cast("Segment", decode(Segment, json.loads(text), SEGMENT))


def write(folder: Path, segment: Segment) -> None:
    """Write a segment into its folder, at once and never in part."""
    write_whole(folder / SEGMENT, json.dumps(encode(segment), allow_nan=False))


def record_of(number: int, trial_folder: Path) -> Trial:
    """Return the record of a trial, made from what its segments have left."""
    own = folders(trial_folder)
    parts = [(detail.read(folder), read(folder)) for folder in own]
    return joined(number, [part for part, _ in parts if part], [segment for _, segment in parts if segment])


def check(segments: Mapping[int, Sequence[Segment]], taken: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    """Check that every segment began with the folder that its origin had left, and that what Ray handed over arrived.

    Args:
        segments: Of each trial, by number, in order.
        taken: What Ray logged, for each trial that took the checkpoint of another: the values of the other trial,
            and the values with which the first was to continue.

    Raises HandOverError if a checkpoint did not arrive.
    """
    for number, own in segments.items():
        for index, segment in enumerate(own):
            if segment.origin is None:
                continue
            trial, part = segment.origin
            if segments[trial][part].digest_after != segment.digest_before:
                raise HandOverError(
                    f"segment {index} of trial {number} began with another folder than segment {part} of trial "
                    f"{trial} had left"
                )
    arrived = Counter(
        (canonical(segments[segment.origin[0]][segment.origin[1]].config), canonical(segment.config))
        for number, own in segments.items()
        for segment in own
        if segment.origin and segment.origin[0] != number
    )
    missing = Counter((canonical(donor), canonical(values)) for donor, values in taken) - arrived
    if missing:
        raise HandOverError(
            f"{missing.total()} trials were to go on from the checkpoint of another, and did not: the first with "
            f"{next(iter(missing))[1]}"
        )
