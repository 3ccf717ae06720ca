"""Make the tables of TPC-DS as Parquet files, and its queries, once; print the folder they are in.

Run with DuckDB's extension `tpcds` on the path, which is for one release of DuckDB only:

PYTHONPATH=.venv/tpcds .venv/bin/python tests/tpcds/data.py 0.1
"""

from __future__ import annotations

import os
import sys
import tempfile
from importlib import import_module
from pathlib import Path

import duckdb

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "whimbrel" / "tpcds"


def write(target: Path, scale: float) -> None:
    """Write `TABLE.parquet` for every table and `qNN.sql` for every query."""
    [package] = import_module("duckdb_extension_tpcds").__path__
    [extension] = Path(package).rglob("tpcds.duckdb_extension")
    connection = duckdb.connect()
    connection.execute(f"load '{extension}'")
    connection.execute(f"call dsdgen(sf={scale})")
    for (table,) in connection.execute("select table_name from duckdb_tables()").fetchall():
        connection.execute(f"copy {table} to '{target}/{table}.parquet'")
    for number, sql in connection.execute("from tpcds_queries()").fetchall():
        (target / f"q{number:02}.sql").write_text(sql)


def folder(scale: str) -> Path:
    """Return the folder with the tables at a scale factor; they appear in it all at once."""
    made = CACHE / f"sf{scale}"
    if not made.is_dir():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as temporary:
            parts = Path(temporary) / "tables"
            parts.mkdir()
            write(parts, float(scale))
            try:
                parts.rename(made)
            except OSError:
                # Another process was faster.
                if not made.is_dir():
                    raise
    return made


if __name__ == "__main__":
    print(folder(sys.argv[1]))
