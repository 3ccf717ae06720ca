"""
Packs the program of functions for AWS Lambda: `python deploy/functions/package.py PROGRAM`.

The package is a zip with one file, `bootstrap`, as the runtime `provided.al2023` wants it. The template
beside this file uploads `dist/function.zip`, a link to the last one made. What Lambda would refuse is refused
here.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

DIST = Path(__file__).parents[2] / "dist"

# What Lambda takes in an upload without a bucket.
PACKAGE_MEGABYTES = 50

# The version of the C library of Amazon Linux 2023.
GLIBC = (2, 34)

ARCHITECTURES = {"x86_64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}


def newest_glibc(program: bytes) -> tuple[int, int]:
    """Find the newest version of the C library whose functions a program calls."""
    versions = re.findall(rb"GLIBC_(\d+)\.(\d+)", program)
    return max(((int(major), int(minor)) for major, minor in versions), default=(0, 0))


def stripped(program: Path, folder: Path) -> Path:
    """Copy a program without its symbols, if there is a tool for that."""
    copy = folder / "bootstrap"
    shutil.copy(program, copy)
    if tool := shutil.which("strip"):
        subprocess.run([tool, copy], check=True)
    return copy


def pack(program: Path, into: Path) -> Path:
    """Make the package; raises ValueError for a program that Lambda would refuse."""
    into.mkdir(exist_ok=True)
    package = into / f"function-{ARCHITECTURES[platform.machine()]}.zip"
    with tempfile.TemporaryDirectory() as folder:
        bootstrap = stripped(program, Path(folder))
        if (needed := newest_glibc(bootstrap.read_bytes())) > GLIBC:
            needed_text, there = (".".join(map(str, version)) for version in (needed, GLIBC))
            raise ValueError(
                f"{program} needs glibc {needed_text}, and Amazon Linux 2023 has {there}; "
                "build it on an older system"
            )
        with zipfile.ZipFile(package, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            entry = zipfile.ZipInfo("bootstrap", date_time=(1980, 1, 1, 0, 0, 0))
            entry.external_attr = 0o755 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, bootstrap.read_bytes())
    if (size := package.stat().st_size) > PACKAGE_MEGABYTES << 20:
        raise ValueError(f"{package} has {size >> 20} MB, and Lambda takes {PACKAGE_MEGABYTES}")
    link = into / "function.zip"
    link.unlink(missing_ok=True)
    link.symlink_to(package.name)
    return package


def main() -> int:
    """Pack the program that was named."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        package = pack(Path(sys.argv[1]), DIST)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    megabytes = package.stat().st_size / (1 << 20)
    print(f"{package}: {megabytes:.1f} MB; deploy it with deploy/functions/template.yaml")
    return 0


if __name__ == "__main__":
    sys.exit(main())
