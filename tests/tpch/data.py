"""Make the tables of TPC-H as Parquet files, once; print the folder they are in.

.venv/bin/python tests/tpch/data.py 0.1
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "whimbrel" / "tpch"
GENERATOR = Path(sys.executable).parent / "tpchgen-cli"


def folder(scale: str) -> Path:
    """Return the folder with the tables at a scale factor; they appear in it all at once."""
    made = CACHE / f"sf{scale}"
    if not made.is_dir():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as temporary:
            parts = Path(temporary) / "tables"
            command = [GENERATOR, "parquet", "--scale-factor", scale, "--output-dir", parts]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            try:
                parts.rename(made)
            except OSError:
                # Another process was faster.
                if not made.is_dir():
                    raise
    return made


if __name__ == "__main__":
    print(folder(sys.argv[1]))
