"""Cuts the symbol tables off shared libraries and programs of an image: what lies behind the last part that is loaded.

    python strip_symbols.py FOLDER

A loader reads what the program headers name, and debuggers the rest: a quarter of TensorFlow's and Ray's binaries,
whose wheels are not stripped. Done here because slim base images have no `strip`. Standard library only: it runs while
an image is built.
"""

import struct
import sys
from pathlib import Path

MAGIC = b"\x7fELF\x02\x01"
"""First bytes of an ELF file with 64 bits and little-endian numbers, as on x86-64 and arm64."""
_HEADER = struct.Struct("<16xHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SECTIONS_AT, _COUNTS_AT = 40, 60
"""Positions, in the file's header, of the section table's address and of the number of its entries."""


def strip(path: Path) -> int:
    """Cut the symbol tables off a file, and return by how many bytes that made it shorter; 0 for any other file."""
    with path.open("r+b") as file:
        start = file.read(_HEADER.size)
        if len(start) < _HEADER.size or not start.startswith(MAGIC):
            return 0
        _, _, _, _, segments_at, _, _, _, size, count, *_ = _HEADER.unpack(start)
        file.seek(segments_at)
        segments = [_SEGMENT.unpack(file.read(size)[: _SEGMENT.size]) for _ in range(count)]
        ends = [offset + length for _, _, offset, _, _, length, _, _ in segments]
        end: int = max([segments_at + size * count, *ends])
        before = path.stat().st_size
        if not segments or end >= before:
            return 0
        for offset, nothing in ((_SECTIONS_AT, bytes(8)), (_COUNTS_AT, bytes(4))):
            file.seek(offset)
            file.write(nothing)
        file.truncate(end)
    return before - end


def main() -> None:
    """Strip every binary below the folder that the command line names, and print by how much that made them smaller."""
    files = [path for path in Path(sys.argv[1]).rglob("*") if path.is_file() and not path.is_symlink()]
    print(f"{sum(strip(path) for path in files) / 1e6:.0f} MB of symbol tables cut off")


if __name__ == "__main__":
    main()
