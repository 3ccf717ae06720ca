"""What a wheel takes: packed, unpacked, and what its native library is made of.

.venv/bin/python tests/wheel_size.py dist/*.whl
"""

from __future__ import annotations

import struct
import sys
import zipfile
from pathlib import Path

MEGABYTE = 1_000_000
SECTION_HEADER = struct.Struct("<IIQQQQ24x")
NOT_IN_THE_FILE = 8
"""The type of a section that only takes memory (`SHT_NOBITS`)."""


def unpacked_size(wheel: Path) -> int:
    """The bytes of all files of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return sum(entry.file_size for entry in archive.infolist())


def native_library(wheel: Path) -> tuple[str, bytes]:
    """The name and the bytes of the library in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(entry for entry in archive.namelist() if entry.endswith(".so"))
        return name, archive.read(name)


def sections(library: bytes) -> dict[str, int]:
    """The bytes of each section of a 64-bit ELF file; nothing for other forms."""
    if not library.startswith(b"\x7fELF\x02\x01"):
        return {}
    (start,) = struct.unpack_from("<Q", library, 0x28)
    width, count, names_at = struct.unpack_from("<HHH", library, 0x3A)
    headers = [SECTION_HEADER.unpack_from(library, start + place * width) for place in range(count)]
    names = headers[names_at][4]
    sizes = {}
    for name, kind, _, _, _, size in headers:
        end = library.index(b"\0", names + name)
        sizes[library[names + name : end].decode()] = 0 if kind == NOT_IN_THE_FILE else size
    return sizes


def report(wheel: Path) -> str:
    """The sizes of a wheel in megabytes, the larger sections of its library below it."""
    name, library = native_library(wheel)
    rows = [("packed", wheel.stat().st_size), ("unpacked", unpacked_size(wheel)), (name, len(library))]
    largest = sorted(sections(library).items(), key=lambda section: -section[1])
    rows += [(f"  {section}", size) for section, size in largest if size >= MEGABYTE / 10]
    return "\n".join([str(wheel), *(f"{size / MEGABYTE:7.1f} MB  {what}" for what, size in rows)])


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(report(Path(argument)))
