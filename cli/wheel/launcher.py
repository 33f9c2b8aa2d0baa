"""`rwi` without a clone: lays the project's tree down, and goes on as its `./rwi`. Knows nothing of its commands.

The tree comes as one archive. It is laid into the user's data folder, a folder for each version, where no run writes. A
home (`.rwi`) is a project's folder as a clone is one: a copy of the tree, with the environment, state, runs and
results of one place. It is a copy and not a link, because Python writes bytecode next to modules, and finds a module's
folder through links. Runs on Python 3.9 with its standard library alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import IO, NoReturn
from urllib.parse import unquote, urlsplit

NAME = ".rwi"
PACKAGE = "ray-worth-it"
OPTION = "--home"
DOOR = "RWI_DOOR"
"""The environment variable that holds what a user types instead of `./rwi`."""
LAID = ".tree.json"
"""The file that names the version in a home (a folder with the project's files) and the hashes of its files. The
version is written last."""
OWN = "stacks/"
"""The folder with the settings of stacks, which users change. Changed files stay when a home gets another version."""


def main() -> NoReturn:
    """Replace this process by `./rwi` of the home, into which this version's files are laid first if needed."""
    if os.name != "posix":
        sys.exit("error: Linux, macOS, or Windows with WSL2 is needed: install it there")
    try:
        home, arguments = place(sys.argv[1:])
        os.environ[DOOR] = door(home if arguments != sys.argv[1:] else None)
        (archive,) = Path(__file__).parent.glob("*.zip")
        ready(home, archive, data_folder())
    except OSError as error:
        path = error.filename2 or error.filename or "the project files"
        sys.exit(
            f"error: {path}: {error.strerror}. Fix that, or choose other folders:"
            f" rwi {OPTION} FOLDER for what belongs to this place, the variable XDG_DATA_HOME for what all places share"
        )
    except ValueError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        print("Stopped before it started; the same command goes on from there.", file=sys.stderr)
        sys.exit(130)
    os.execv(sys.executable, [sys.executable, str(home / "rwi"), *arguments])  # noqa: S606 - the same call, in the home


def place(arguments: Sequence[str]) -> tuple[Path, list[str]]:
    """Return the home and the arguments without `--home`, which comes first. Without it, the home is the user's nearest
    one from the current folder upwards, or a new one in that folder. Raise ValueError if `--home` is used wrongly."""
    first, equals, text = arguments[0].partition("=") if arguments else ("", "", "")
    if first == OPTION:
        value, rest = (text, arguments[1:]) if equals else ("".join(arguments[1:2]), arguments[2:])
        if not value or value.startswith("-"):
            raise ValueError(f"{OPTION} needs a folder: rwi {OPTION} ~/measurements try train.py")
        return Path(os.path.abspath(os.path.expanduser(value))), list(rest)  # noqa: PTH100, PTH111 - as it is typed
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if late := next((word for word in own if word.partition("=")[0] == OPTION), ""):
        raise ValueError(f"{late} comes before the command: rwi {OPTION} FOLDER {first}")
    here = Path.cwd()
    home = next(filter(_is_home, (folder / NAME for folder in (here, *here.parents))), here / NAME)
    if home.is_symlink() or home.exists():
        _check_owner(home)
    return home, list(arguments)


def _is_home(folder: Path) -> bool:
    """Return whether a folder is a home of this user. Code in another user's home, or behind another user's link, would
    run with this user's rights."""
    with suppress(OSError):
        return {os.geteuid()} == {path.lstat().st_uid for path in (folder, folder / LAID)}
    return False


def _check_owner(home: Path) -> None:
    if home.lstat().st_uid != os.geteuid():
        raise ValueError(
            f"{home} is another user's, whose code would run as you: rwi {OPTION} FOLDER, with one of your own"
        )


def data_folder() -> Path:
    """Return the folder of all versions, by the XDG Base Directory Specification. Raise ValueError without a home."""
    data = os.environ.get("XDG_DATA_HOME", "")
    home = os.path.expanduser("~")  # noqa: PTH111 - Path.home raises where there is none
    if not os.path.isabs(data) and not os.path.isabs(home):  # noqa: PTH117
        raise ValueError("this user has no home: set the variable HOME or XDG_DATA_HOME to a folder of yours")
    return (Path(data) if os.path.isabs(data) else Path(home) / ".local" / "share") / PACKAGE  # noqa: PTH117


def door(home: Path | None) -> str:
    """Return the command that a user types to call this program again. With `uvx` the program itself is in a cache, so
    its path is not used."""
    name = Path(sys.argv[0]).name
    words = [sys.executable, "-m", __package__] if name == "__main__.py" else [sys.argv[0]]
    if any((folder / "CACHEDIR.TAG").exists() for folder in Path(sys.prefix).parents):
        origin = _origin()
        words = ["uvx", "--from", origin, "rwi"] if origin else ["uvx", PACKAGE]
    elif (on_path := shutil.which(name)) and Path(on_path).samefile(sys.argv[0]):
        words = [name]
    return shlex.join([*words, *([OPTION, str(home)] if home else [])])


def _origin() -> str:
    """Return the address from which the package was installed, as recorded by PEP 610; "" for a package index."""
    with suppress(metadata.PackageNotFoundError):
        known = json.loads(metadata.distribution(PACKAGE).read_text("direct_url.json") or "{}")
        address = str(known.get("url", ""))
        if address.startswith("file://"):
            return unquote(urlsplit(address).path)
        return f"{known['vcs_info']['vcs']}+{address}" if "vcs_info" in known else address
    return ""


def ready(home: Path, archive: Path, data: Path) -> None:
    """Put the archive's files into the home. While this process runs, also after it became another program, no other
    version can replace them, so that a command's modules are of one version."""
    if home.exists() and not home.is_dir():
        raise ValueError(f"{home} is not a folder: rwi {OPTION} FOLDER, with another one")
    known = laid(home)
    digest = archive.stem.rpartition("-")[2]
    hashes = {} if known.get("digest") == digest else _hashes(archive)
    if not known:
        _refuse_project(home, {}, hashes)
    home.mkdir(parents=True, exist_ok=True)
    lock = os.open(home / ".lock", os.O_RDWR | os.O_CREAT, 0o644)  # never closed: the next program has it, too
    os.set_inheritable(lock, True)
    while True:
        _lock(lock, exclusive=False)
        of_tree = laid(home).get("digest")
        if of_tree == digest:
            return
        _lock(lock, exclusive=True, waiting=f"another version of rwi is at work in {home}: waiting" if of_tree else "")
        if laid(home).get("digest") != digest:
            furnish(home, lay(archive, data), digest, hashes or _hashes(archive))


def _lock(lock: int | IO[str], *, exclusive: bool, waiting: str = "") -> None:
    import fcntl  # not on Windows, where WSL2 is needed

    how = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
    try:
        fcntl.flock(lock, how | fcntl.LOCK_NB)
    except BlockingIOError:
        if waiting:
            print(waiting, file=sys.stderr, flush=True)
        fcntl.flock(lock, how)


def _hashes(archive: Path) -> dict[str, str]:
    """Return the hashes of the archive's files. The archive's name contains its version and its own hash. Raise
    ValueError if that hash is not the content's."""
    if _hash(archive) != archive.stem.rpartition("-")[2]:
        raise ValueError(f"{archive} is damaged: install {PACKAGE} again")
    with zipfile.ZipFile(archive) as files:
        return {name: hashlib.sha256(files.read(name)).hexdigest() for name in files.namelist()}


def laid(home: Path) -> dict[str, object]:
    """Return the archive's hash ("" until the home is complete) and the hashes of a home's files; empty if unknown."""
    try:
        known: dict[str, object] = json.loads((home / LAID).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known


def lay(archive: Path, data: Path) -> Path:
    """Return the folder with all files of the archive. They are unpacked if the folder is missing, or if a file differs
    from the archive."""
    version, _, digest = archive.stem.rpartition("-")
    folder = data / f"{version}-{digest[:12]}"
    data.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive) as files, _alone(data):
        if not all(_is(folder / name, files.read(name)) for name in files.namelist()):
            for left in data.glob(".partial-*"):  # of a launcher that was killed
                shutil.rmtree(left, ignore_errors=True)
            with tempfile.TemporaryDirectory(dir=data, prefix=".partial-") as name:
                partial = Path(name)
                files.extractall(partial / "tree")
                (partial / "tree" / "rwi").chmod(0o755)
                if folder.exists():
                    folder.rename(partial / "damaged")
                (partial / "tree").rename(folder)
    return folder


@contextmanager
def _alone(data: Path) -> Iterator[None]:
    with (data / ".lock").open("w", encoding="utf-8") as lock:
        _lock(lock, exclusive=True)
        yield


def _is(path: Path, content: bytes) -> bool:
    with suppress(OSError):
        return path.read_bytes() == content
    return False


def furnish(home: Path, tree: Path, digest: str, hashes: Mapping[str, str]) -> None:
    """Copy the files of a version's tree into a home, and remove the files of the version before.

    Files in `stacks/` that a user changed stay, and so do files that are in neither version. Raise ValueError as
    `_refuse_project` does.
    """
    before = _files(laid(home).get("files"))
    _refuse_project(home, before, hashes)
    _note(home, "", {**hashes, **before})  # until it is complete, it is of no version
    ignored = home / ".gitignore"
    if not ignored.exists():
        ignored.write_text("*\n", encoding="utf-8")
    for name in before.keys() - hashes.keys():
        if not _is_changed(home, name, before):
            (home / name).unlink(missing_ok=True)
    for name in hashes:
        if not _is_changed(home, name, before):
            _copy(tree / name, home / name)
    _note(home, digest, hashes)


def _refuse_project(home: Path, before: Mapping[str, str], hashes: Mapping[str, str]) -> None:
    """Raise ValueError if the folder is somebody's project: has other files of these names, or a repository."""
    mine = [name for name in hashes if name not in before and not name.startswith(OWN) and _differs(home, name, hashes)]
    if not before and (home / ".git").exists():
        mine = [".git", *mine]
    if mine:
        raise ValueError(
            f"{home} is a project of its own: it has {', '.join(mine[:3])}. Nothing was changed there. Choose a folder"
            f" that is empty or not there yet: rwi {OPTION} FOLDER"
        )


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _differs(home: Path, name: str, hashes: Mapping[str, str]) -> bool:
    path = home / name
    return os.path.lexists(path) and not (path.is_file() and _hash(path) == hashes[name])


def _note(home: Path, digest: str, files: Mapping[str, str]) -> None:
    partial = home / f"{LAID}.partial"
    partial.write_text(json.dumps({"digest": digest, "files": files}, indent=0) + "\n", encoding="utf-8")
    partial.replace(home / LAID)


def _files(known: object) -> dict[str, str]:
    return {str(name): str(value) for name, value in known.items()} if isinstance(known, Mapping) else {}


def _is_changed(home: Path, name: str, before: Mapping[str, str]) -> bool:
    """Return whether a user changed the file, which is only possible in `stacks/`."""
    path = home / name
    return name.startswith(OWN) and path.is_file() and _hash(path) != before.get(name)


def _copy(source: Path, target: Path) -> None:
    """Replace a file in one step, so that who reads it gets all of the old or all of the new content."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{target.name}.partial")
    shutil.copy2(source, partial)
    partial.replace(target)


if __name__ == "__main__":
    main()
