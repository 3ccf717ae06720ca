"""Write DuckDB's answers into SQL logic tests: the peer says what a query gives, a person looks at it.

    .venv/bin/python tests/slt/complete.py tests/slt/joins.slt …           # rewrites the files
    .venv/bin/python tests/slt/complete.py --check tests/slt/joins.slt …   # says where DuckDB disagrees

Everything runs in a database of its own, from top to bottom. A record under a comment that begins with
`# by hand` is left as it is: DuckDB cannot run it, or differs from standard SQL there (the comment says how).
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

import duckdb

WHOLE = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?$", re.IGNORECASE)
FRACTION = re.compile(r"(FLOAT|DOUBLE|DECIMAL)", re.IGNORECASE)


def text(value: Any) -> str:
    """Write a value as it stands in the files."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(text, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {text(each)}" for name, each in value.items()) + "}"
    return str(value) or "(empty)"


def letter(kind: str) -> str:
    """Say what kind of value a column has: whole numbers, fractions, anything else."""
    if WHOLE.match(kind):
        return "I"
    return "R" if FRACTION.match(kind) else "T"


def query_record(connection: duckdb.DuckDBPyConnection, head: str, sql: str) -> list[str]:
    """Write a query with DuckDB's answer."""
    result = connection.execute(sql)
    letters = "".join(letter(str(column[1])) for column in result.description or [])
    rows = ["\t".join(map(text, row)) for row in result.fetchall()]
    sort = [word for word in head.split() if word in ("rowsort", "valuesort", "nosort")]
    if sort == ["rowsort"]:
        rows.sort()
    return [" ".join(["query", letters, *sort]), *sql.splitlines(), "----", *rows]


def record(connection: duckdb.DuckDBPyConnection, block: list[str]) -> list[str]:
    """Run a block between empty lines; give it back, a query with its answer."""
    comments = [line for line in block if line.startswith("#")]
    rest = block[len(comments) :]
    if not rest or any(line.startswith("# by hand") for line in comments):
        return block
    head, body = rest[0], rest[1:]
    sql = "\n".join(body[: body.index("----")] if "----" in body else body)
    if head.startswith("query"):
        return [*comments, *query_record(connection, head, sql)]
    if head.startswith("statement error"):
        try:
            connection.execute(sql)
        except duckdb.Error:
            return block
        raise SystemExit(f"this has to fail, and DuckDB runs it:\n{sql}")
    if head.startswith("statement"):
        connection.execute(sql)
    return block


def completed(path: Path) -> str:
    """Give a file with DuckDB's answers."""
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    connection.execute(f"set file_search_path = '{path.parent}'")
    out = []
    for block in re.split(r"\n\n+", path.read_text().strip("\n")):
        try:
            out.append("\n".join(record(connection, block.splitlines())))
        except duckdb.Error as error:
            raise SystemExit(f"{path}: {error}\n{block}") from error
    return "\n\n".join(out) + "\n"


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--check", action="store_true", help="write nothing, fail if something would change")
    arguments = parser.parse_args()
    changed = []
    for path in arguments.files:
        new = completed(path)
        if new != path.read_text():
            changed.append(str(path))
            if not arguments.check:
                path.write_text(new)
    if arguments.check and changed:
        raise SystemExit(f"DuckDB answers differently: {', '.join(changed)}")


if __name__ == "__main__":
    main()
