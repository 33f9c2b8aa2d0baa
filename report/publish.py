"""A comparison as a folder: results/<stack>/<time>-<recipe>/, with what a reader needs and where its runs lie.

Comparison and text appear together or not at all; the HTML page is drawn after them, so that no picture can cost a
result. Publishing the same comparison again changes nothing but a page that is missing. It never deletes a result and
never touches a run.
"""

import json
import os
import re
import shutil
from pathlib import Path

from compare.measurement import CompareError
from compare.schema import Comparison
from report import stored, table
from report.errors import PageError, PublishError
from report.links import run_files
from report.stored import COMPARISON, LATEST, PAGE, newest_start, publish_again
from training.contract.codec import write_whole
from training.contract.workload import recipe_of
from training.machine.command_line import rwi

TEXT, RUNS = "report.txt", "runs.json"


def publish(comparison: Comparison, stack: str, project: Path) -> Path:
    """Write the comparison's folder, let `latest` point to it, and return its path.

    A folder that already holds this comparison is kept: a missing page is drawn, and the state of its runs is updated.
    Raises PublishError if the name is not a valid folder name, if the comparison has no runs, or if a file cannot be
    written; raises PageError if only the page is missing.
    """
    if not re.fullmatch(r"\w[\w.-]*", stack, re.ASCII):
        raise PublishError(f"{stack!r} is no stack name: letters, digits, '-', '_' and '.'; see `pulumi stack ls`")
    results = project / "results" / stack
    try:
        folder = _find(comparison, results) or _write_new(comparison, stack, project)
        _write_if_changed(folder / RUNS, _runs(comparison, folder, project))
        _point(results / LATEST, folder.name)
    except OSError as error:
        raise PublishError(
            f"{error.filename or results} cannot be written: {error.strerror}. Nothing is lost: the runs are in runs/, "
            "the comparison in `pulumi stack output comparison --show-secrets`. Make room or fix the folder, then run "
            f"`{rwi('report open', stack)}`"
        ) from None
    if not (folder / PAGE).is_file():
        _write_page(comparison, folder, stack, project)
    return folder


def _write_page(comparison: Comparison, folder: Path, stack: str, project: Path) -> None:
    """Draw the page of a result. Raises PageError if that fails for any reason, a missing package included: the rest of
    the result is complete without the page."""
    try:
        from report import html

        write_whole(folder / PAGE, html.render(comparison, stack, project))
    except Exception as error:
        raise PageError(
            folder,
            f"{PAGE} could not be made: {type(error).__name__}: {error}. The result is whole in {folder} "
            f"({COMPARISON}, {TEXT}); to try the page again: `{publish_again(folder, stack)}`",
        ) from error


def _find(comparison: Comparison, results: Path) -> Path | None:
    """Return the newest folder with this comparison's name if it holds exactly this comparison, else None."""
    same_name = sorted(results.glob(f"{_name(comparison)}*"), key=_edition)
    if same_name and (same_name[-1] / COMPARISON).is_file():
        text = (same_name[-1] / COMPARISON).read_text(encoding="utf-8")
        try:
            return same_name[-1] if Comparison.from_json(text) == comparison else None
        except CompareError:
            return None
    return None


def _write_new(comparison: Comparison, stack: str, project: Path) -> Path:
    """Write the result under a temporary name, rename it and return its folder: no half of a result is ever visible."""
    results = project / "results" / stack
    results.mkdir(parents=True, exist_ok=True)
    folder = _unused(results, _name(comparison))
    temporary = results / f".{folder.name}.{os.getpid()}"
    temporary.mkdir()
    try:
        write_whole(temporary / COMPARISON, comparison.to_json() + "\n")
        write_whole(temporary / TEXT, table.render(comparison) + "\n")
        made_from = stored.described_source(comparison, project)
        if made_from:
            write_whole(temporary / stored.SOURCE, made_from)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def _name(comparison: Comparison) -> str:
    """Return the result's name, the same each time: the start of the newest run (UTC) and the recipe's digest."""
    measured_at = newest_start(comparison)
    if measured_at is None:
        raise PublishError(f"this comparison has no runs: the last `pulumi up` finished none; run `{rwi('up')}`")
    try:
        digest = recipe_of(comparison.recipe).digest()
    except ValueError as error:
        raise PublishError(f"this comparison is of another version: {error}") from None
    return f"{measured_at:%Y%m%dT%H%M%SZ}-{digest}"


def _unused(results: Path, name: str) -> Path:
    """Return the folder `name`, or `name.2` and so on if an earlier comparison of the same runs has that name. Such a
    comparison differs because of a newer program or a lost run."""
    edition = 1 + max((_edition(path) for path in results.glob(f"{name}*")), default=0)
    return results / (name if edition == 1 else f"{name}.{edition}")


def _edition(path: Path) -> int:
    suffix = path.name.rpartition(".")[2]
    return int(suffix) if suffix.isdigit() else 1


def _runs(comparison: Comparison, folder: Path, project: Path) -> str:
    """Return JSON with links from the result's folder to its runs, and whether each is still the compared file."""
    links = [
        {
            "name": file.link.name,
            "path": os.path.relpath(project / file.link.path, folder),
            "sha256": file.link.sha256,
            "state": file.state,
        }
        for file in run_files(comparison, project)
    ]
    return json.dumps(links, indent=1) + "\n"


def _write_if_changed(path: Path, text: str) -> None:
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        write_whole(path, text)


def _point(latest: Path, name: str) -> None:
    """Let `latest` point to the result of this name, in one step, so that the symlink always exists."""
    if latest.is_symlink() and latest.readlink() == Path(name):
        return
    temporary = latest.with_name(f".{LATEST}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(name, target_is_directory=True)
    try:
        temporary.replace(latest)
    finally:
        temporary.unlink(missing_ok=True)
