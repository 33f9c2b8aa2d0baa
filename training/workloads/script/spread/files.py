"""Files that a rank other than 0 writes: in a folder of its own, where it reads them back.

What the script opens, makes, renames, links or removes by Python's own functions is looked up there first, and so is
its folder. Files of the system (/dev, /proc, /sys) are as they are. `library_files` adds what libraries open.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import io
import os
import pathlib
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .originals import OPEN

SYSTEM = ("/dev/", "/proc/", "/sys/")
MAKE = os.makedirs
WRITING = set("wax+")


class Layer:
    """A folder that overlays all other folders for a rank, with the paths that the rank has removed. What the rank
    writes is only in this folder."""

    def __init__(self, folder: str, others: Sequence[str]) -> None:
        """Start with an empty folder. `others`: folders that are not overlaid, in which the rank writes as usual."""
        self.folder = os.path.abspath(folder)
        self._others = (*SYSTEM, *(os.path.join(each, "") for each in others))
        self.removed: set[str] = set()
        self._lexists, self._stat, self._mkdir = os.lstat, os.stat, os.mkdir

    def own(self, path: Any) -> tuple[str, str] | None:
        """Return the absolute path, and its place in the overlay; None for a path that is not overlaid."""
        if isinstance(path, int) or path is None:
            return None
        text = os.fsdecode(os.fspath(path))
        full = os.path.abspath(text)
        if full.startswith(self.folder + os.sep):  # below the folder that a process of its own has been given
            full = full[len(self.folder) :]
        if os.path.join(full, "").startswith(self._others):
            return None
        return full, self.folder + full

    def _is(self, path: str) -> bool:
        try:
            self._lexists(path)
        except OSError:
            return False
        return True

    def to_read(self, path: Any) -> Any:
        """Return where a path is to be read: in the overlay if the rank has written or removed it, else where it is."""
        both = self.own(path)
        if both is None:
            return path
        if self._is(both[1]) or both[0] in self.removed:
            return both[1]
        return path

    def to_write(self, path: Any, *, keeps: bool = False) -> Any:
        """Return where a path is to be written: in the overlay, where its parent folders are created as needed. With
        `keeps` the present content of the file is copied there first."""
        both = self.own(path)
        if both is None:
            return path
        full, own = both
        parent = os.path.dirname(full)
        if self._is(self.to_read(parent)):
            self.folders(os.path.dirname(own))
        if keeps and not self._is(own) and full not in self.removed and self._is_a(stat.S_ISREG, full):
            with io.FileIO(full) as source, io.FileIO(own, "w") as target:
                shutil.copyfileobj(source, target)
        self.removed.discard(full)
        return own

    def folders(self, path: str) -> None:
        """Create a folder of the overlay and its parents. Ranks of a port share an overlay, so another rank may have
        created the folder."""
        if not self._is(path):
            self.folders(os.path.dirname(path))
            with contextlib.suppress(FileExistsError):
                self._mkdir(path)

    def remove(self, path: Any) -> Any:
        """Record that a path is removed; return the path that is really to be removed, a copy in the overlay."""
        both = self.own(path)
        if both is None or both[0] in self.removed:
            return path if both is None else both[1]
        full, own = both
        if self.names(full):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        if not self._is(own) and self._is(full):
            if self._is_a(stat.S_ISDIR, full):
                self.folders(own)
            else:
                OPEN(self.to_write(path), "w").close()
        if self._is(full):
            self.removed.add(full)
        return own

    def names(self, path: Any) -> dict[str, str] | None:
        """Return the place of each entry of a folder, by name; None if the path is not a folder, or is not overlaid."""
        both = self.own("." if path is None else path)
        if both is None:
            return None
        full, own = both
        if not any(self._is_a(stat.S_ISDIR, each) for each in both):
            return None
        names: dict[str, str] = {}
        if self._is_a(stat.S_ISDIR, full) and full not in self.removed:
            names = {name: os.path.join(full, name) for name in LISTDIR(full)}
            names = {name: place for name, place in names.items() if place not in self.removed}
        if self._is_a(stat.S_ISDIR, own):
            names |= {name: os.path.join(own, name) for name in LISTDIR(own)}
        return names

    def _is_a(self, kind: Callable[[int], bool], path: str) -> bool:
        try:
            return kind(self._stat(path).st_mode)
        except OSError:
            return False


class Entry:
    """An entry of a folder, like those that `os.scandir` yields."""

    def __init__(self, folder: str, name: str, place: str) -> None:
        """Create the entry. `place`: the path at which the entry really is."""
        self.name, self.path, self._place = name, os.path.join(folder, name), place

    def __fspath__(self) -> str:
        return self.path

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return the entry's status, as `os.DirEntry.stat` does."""
        return os.stat(self._place, follow_symlinks=follow_symlinks)

    def inode(self) -> int:
        """Return the entry's inode number, as `os.DirEntry.inode` does."""
        return os.lstat(self._place).st_ino

    def is_symlink(self) -> bool:
        """Return whether the entry is a symbolic link, as `os.DirEntry.is_symlink` does."""
        return os.path.islink(self._place)

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Return whether the entry is a folder, as `os.DirEntry.is_dir` does."""
        return os.path.isdir(self._place) and (follow_symlinks or not self.is_symlink())

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Return whether the entry is a file, as `os.DirEntry.is_file` does."""
        return os.path.isfile(self._place) and (follow_symlinks or not self.is_symlink())


class Entries:
    """The iterator that the replaced `os.scandir` returns."""

    def __init__(self, entries: list[Entry]) -> None:
        """Iterate over the entries in this order."""
        self._entries = iter(entries)

    def __iter__(self) -> Iterator[Entry]:
        return self._entries

    def __next__(self) -> Entry:
        return next(self._entries)

    def __enter__(self) -> Entries:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Do nothing, because nothing is open."""


LISTDIR = os.listdir


def redirect(folder: str, others: Sequence[str] = ()) -> Layer:
    """Redirect all files that this process writes by Python's functions into `folder`, except files in the folders
    `others`; return the Layer that finds them."""
    layer = Layer(folder, others)
    tempfile.tempdir = os.path.join(layer.folder, "t")  # sockets are made there, too, which nothing redirects
    MAKE(tempfile.tempdir, exist_ok=True)
    _redirect_open(layer)
    _redirect_names(layer)
    return layer


def _redirect_open(layer: Layer) -> None:
    def open_(file: Any, mode: str = "r", *args: Any, **more: Any) -> Any:
        if WRITING & set(mode):
            if "x" in mode and os.path.lexists(file):
                raise FileExistsError(17, "File exists", file)
            return OPEN(layer.to_write(file, keeps="a" in mode or "r" in mode), mode, *args, **more)
        return OPEN(layer.to_read(file), mode, *args, **more)

    low = os.open

    def low_open(path: Any, flags: int, *args: Any, **more: Any) -> int:
        if more.get("dir_fd") is not None:
            return low(path, flags, *args, **more)
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            if flags & os.O_EXCL and os.path.lexists(path):
                raise FileExistsError(17, "File exists", path)
            return low(layer.to_write(path, keeps=not flags & os.O_TRUNC), flags, *args, **more)
        return low(layer.to_read(path), flags, *args, **more)

    builtins.open = io.open = open_
    os.open = low_open
    _replace_kept(open_)


def _replace_kept(open_: Any) -> None:
    """Replace `open` in modules that kept a reference to it when they were imported, as NumPy and `tarfile` do. Modules
    of this package, and Python's own `_io`, keep the original, because they need it."""
    for name, module in list(sys.modules.items()):
        if name != "_io" and not name.startswith(__package__ or name):
            for key, value in list(getattr(module, "__dict__", {}).items()):
                if value is OPEN:
                    setattr(module, key, open_)
    if numpy := sys.modules.get("numpy.lib._datasource"):
        with contextlib.suppress(AttributeError):
            numpy._file_openers._file_openers[None] = open_


def _redirect_names(layer: Layer) -> None:
    for names, wrap in (
        (("stat", "lstat", "access", "readlink", "statvfs", "getxattr", "listxattr"), _reading),
        (("chmod", "utime", "chown", "lchown", "setxattr", "removexattr"), _changing),
        (("remove", "unlink", "rmdir"), _removing),
        (("mkdir", "mkfifo"), _making),
        (("truncate",), _changing),
        (("rename", "replace"), _moving),
        (("link", "symlink"), _linking),
        (("chdir",), _entering),
    ):
        for name in (each for each in names if hasattr(os, each)):  # some are Linux's alone
            setattr(os, name, wrap(layer, getattr(os, name)))
    listdir, scandir = os.listdir, os.scandir

    def listed(path: Any = None) -> Any:
        names = layer.names(path)
        return listdir(path) if names is None else sorted(names)

    def scanned(path: Any = None) -> Any:
        names = layer.names(path)
        if names is None or isinstance(path, bytes):
            return scandir(path)
        folder = "." if path is None else os.fspath(path)
        return Entries([Entry(folder, name, place) for name, place in names.items()])

    os.listdir, os.scandir = listed, scanned
    shutil._use_fd_functions = False  # type: ignore[attr-defined]  # a folder is removed by names, which are redirected
    _redirect_accessor()


def _reading(layer: Layer, call: Any) -> Any:
    return lambda path, *args, **more: call(
        path if more.get("dir_fd") is not None else layer.to_read(path), *args, **more
    )


def _changing(layer: Layer, call: Any) -> Any:
    def change(path: Any, *args: Any, **more: Any) -> Any:
        own = layer.own(path)
        if own is None or more.get("dir_fd") is not None:
            return call(path, *args, **more)
        if os.path.isdir(path):
            layer.folders(own[1])
            return call(own[1], *args, **more)
        return call(layer.to_write(path, keeps=True), *args, **more)

    return change


def _removing(layer: Layer, call: Any) -> Any:
    return lambda path, *args, **more: call(
        path if more.get("dir_fd") is not None else layer.remove(path), *args, **more
    )


def _making(layer: Layer, call: Any) -> Any:
    def make(path: Any, *args: Any, **more: Any) -> Any:
        if os.path.lexists(path):
            raise FileExistsError(17, "File exists", path)
        return call(layer.to_write(path), *args, **more)

    return make


def _moving(layer: Layer, call: Any) -> Any:
    def move(src: Any, dst: Any, **more: Any) -> Any:
        kept = layer.to_write(src, keeps=True) if os.path.isfile(src) else layer.to_read(src)
        removed = layer.own(src)
        result = call(kept, layer.to_write(dst), **more)
        if removed is not None:
            layer.removed.add(removed[0])
        return result

    return move


def _linking(layer: Layer, call: Any) -> Any:
    """Return a replacement for a function that creates links. The target of a symbolic link is looked up from where the
    link is; a hard link becomes a copy, because its target need not be in the overlay."""

    def link(src: Any, dst: Any, *args: Any, **more: Any) -> Any:
        if os.path.lexists(dst):
            raise FileExistsError(17, "File exists", src, None, dst)
        if call.__name__ == "link":
            return shutil.copy2(src, dst)
        full = os.path.join(os.path.dirname(os.path.abspath(dst)), os.fspath(src))
        is_near = not os.path.isabs(src) and layer.to_read(full) != full
        return call(src if is_near else layer.to_read(full), layer.to_write(dst), *args, **more)

    return link


def _entering(layer: Layer, call: Any) -> Any:
    """Return a replacement for `os.chdir` that enters the folder in the overlay, if it is there; `os.getcwd` then
    returns the name that the script knows."""
    current = os.getcwd

    def getcwd() -> str:
        path = current()
        return path[len(layer.folder) :] if path.startswith(layer.folder + os.sep) else path

    os.getcwd = getcwd
    return lambda path: call(layer.to_read(path))


def _redirect_accessor() -> None:
    """Have `pathlib` use the replaced functions of `os`: before Python 3.11 it keeps references to the originals."""
    accessor = getattr(pathlib, "_NormalAccessor", None)
    for name in ("stat", "lstat", "mkdir", "unlink", "rmdir", "rename", "replace", "listdir", "scandir", "open"):
        if accessor is not None and hasattr(accessor, name):
            setattr(accessor, name, staticmethod(io.open if name == "open" else getattr(os, name)))
