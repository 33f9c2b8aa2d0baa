"""`rwi report fetch ray-1`: brings back what a run kept in storage: checkpoints, its model, artifacts of a script.

It writes into `runs/<stack>/<run>/kept`, or the folder of --to, where nothing else may be, and deletes nothing.
"""

import errno
import os
import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from pathlib import Path, PurePosixPath

from cli.setup.project import ROOT, ToolError
from cli.stack import settings as stack_settings
from report import terminal
from training.launch.storage.run_storage import Storage
from training.machine.command_line import quoted, rwi

MARK = ".ray-worth-it-run"
"""The file in a folder that names the run whose files are fetched into the folder."""
KEPT = "kept"
"""The subfolder of a run into which its files are fetched if no other folder is named."""
MOST_SHOWN = 5
NO_NAME = (errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ)
"""Errors of a file system for names that no file can have. An object's name may be four times as long."""


def bring_back(stack: str, overrides: Mapping[str, str], wanted: str, folder: str) -> int:
    """Fetch the files of the wanted run into a folder, and return the exit status."""
    where = stack_settings.kept_at(stack_settings.load(stack, overrides))
    try:
        storage = Storage.at(where)
        names = dict(storage.times())
        mine = _made_here(ROOT / "runs" / stack)
        run = chosen(names, wanted, where, mine)
        name = run.partition("/")[2]
        to = ROOT / os.path.expanduser(folder or f"runs/{stack}/{name}/{KEPT}")  # noqa: PTH111
        begin(to, run)
        files, left = fetch(storage.within(run), to)
    except OSError as error:
        raise ToolError(f"{where} does not give it: {error}") from None
    terminal.write(f"{len(files)} files of {name}: {to}")
    if others := _also(names, wanted, run):
        whose = "measured in this folder" if name in mine else "in storage"
        terminal.write(f"the newest that is called so {whose}; others in storage:  {', '.join(others)}")
    if left:
        shown = ", ".join(map(repr, left[:MOST_SHOWN])) + (", …" if len(left) > MOST_SHOWN else "")
        terminal.write(f"{len(left)} objects stay in storage, whose names no file below a folder can have: {shown}")
    return 0


def _made_here(runs: Path) -> frozenset[str]:
    """Return the names of the runs that this checkout made itself; their folders contain more than fetched files."""
    folders = runs.iterdir() if runs.is_dir() else ()
    return frozenset(run.name for run in folders if run.is_dir() and any(path.name != KEPT for path in run.iterdir()))


def chosen(names: Mapping[str, int], wanted: str, where: str, mine: Container[str] = ()) -> str:
    """Return the folder in storage of the newest run whose name fits `wanted`, if possible of a run in `mine`.

    Stacks have the same names in every checkout, so the newest run in a bucket that a team shares may be a colleague's.
    In a cluster a run has the name of its Job, which contains no time, so `names` says when each file was written.
    Raise ToolError that lists all runs if none fits.
    """
    counts = Counter("/".join(name.split("/")[:2]) for name in names if name.count("/") > 1)
    written: dict[str, int] = {}
    for name, time in names.items():
        run = "/".join(name.split("/")[:2])
        written[run] = max(time, written.get(run, 0))
    runs = sorted(counts, key=lambda run: (_started(run), written[run]))
    fitting = [run for run in runs if wanted and (_name(run) == wanted or _name(run).startswith(f"{wanted}-"))]
    if fitting:
        return ([run for run in fitting if _name(run) in mine] or fitting)[-1]
    listed = "\n".join(f"  {_name(run)}  {counts[run]} files" for run in runs) or "  none"
    problem = f"there is no run {wanted}" if wanted else "RUN is missing"
    raise ToolError(f"{problem}; in {where} there are\n{listed}")


def _also(names: Iterable[str], wanted: str, run: str) -> list[str]:
    """Return the names of the other runs that the wanted name fits too."""
    runs = {"/".join(name.split("/")[:2]) for name in names if name.count("/") > 1} - {run}
    return sorted(_name(other) for other in runs if _name(run) != wanted and _name(other).startswith(f"{wanted}-"))


def begin(to: Path, run: str) -> None:
    """Create the folder and mark it as the run's. Raise ToolError if it has other files, or cannot be written."""
    try:
        to.mkdir(parents=True, exist_ok=True)
        mark = to / MARK
        of = mark.read_text(encoding="utf-8") if mark.exists() else ""
        if of != run and any(to.iterdir()):
            name = _name(run)
            raise ToolError(
                f"{to} has files of {_name(of) or 'something else'}: allowed is a folder that is new, empty, or has"
                f" files of {name}\n  {rwi(f'report fetch {quoted(name)} --to {quoted(str(to / name))}')}"
            )
        mark.write_text(run, encoding="utf-8")
    except OSError as error:
        raise ToolError(f"{to} is no folder that can be written: {error}") from None


def fetch(run: Storage, to: Path) -> tuple[list[Path], list[str]]:
    """Fetch a run's files, and return their paths, and the names that no file can have. Raise ToolError and OSError.

    No file is written outside of `to`, or over the file that marks the folder, whatever the names in storage are.
    """
    names = list(run.names())
    folders = {str(folder) for name in names for folder in PurePosixPath(name).parents} | {MARK}
    files = [name for name in names if name not in folders and not name.startswith(f"{MARK}/")]
    fetched = []
    for name in files:
        target = (to / name).resolve()
        if not target.is_relative_to(to.resolve()):
            raise ToolError(f"{to}: {name} would be written to {target}: name a new folder with --to")
        try:
            run.fetch(name, to / name)
        except OSError as error:
            if error.errno not in NO_NAME:
                raise
            continue
        fetched.append(name)
    return [to / name for name in fetched], sorted({*names, *run.names_of_no_path()} - set(fetched))


def _name(run: str) -> str:
    return run.partition("/")[2]


def _started(run: str) -> str:
    """Return the time in a name `<arm>-<repeat>-<time>-<random>`; "" if the name has no time."""
    stamp = re.search(r"-(\d{8}T\d{6}Z)-[^-]+$", run)
    return stamp[1] if stamp else ""
