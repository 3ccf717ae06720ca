"""
Bounded queries: SQL over a key/value store, and what a query can cost at most is known before it runs.

    db = wb.bounded.open("app.redb")
    db.execute("create table if not exists users (name varchar(20) primary key, town varchar(40))")
    find = db.prepare("select town from users where name = :name")
    print(find.bound)
    page = find(name="ann")

`open` gives a `Database`, `Database.prepare` a `Query`, and calling that a `Page`. `open_async` is the same
for asyncio. All of these can be used from many threads at once. The guide: docs/guides/bounded.md.

- **Parameters** are `:name`, `?` or `$1`; values are given as in a Python call, by place or by name. `None`
  is null; `in (? limit 50)` takes any iterable of at most 50 values; a UUID is a text or sixteen bytes, as
  its column is.
- **Rows** are named tuples: `row.town`, `row[0]`, `name, town = row`, `row._asdict()`. A column without a
  name that Python can have (`count(*)`) is called by its place, `_0`; give it one with `as`.
- **Instants** are stored in UTC: a datetime with a time zone is converted, one without is taken to be in UTC,
  and what comes back has no time zone.
- **Errors** are those of `whimbrel.errors`; a query without a bound raises `UnboundedError`, with `fixes`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NoReturn

from .._whimbrel import Bound, Fix, LatencyChart, Operations, Prediction
from ..attribute_errors import for_submodule
from .asynchronous import AsyncDatabase, AsyncQuery, Opening, open_async
from .database import Database, Executor, Query, Repaired, open
from .page import AsyncPage, Page, Rows

__all__ = [
    "AsyncDatabase",
    "AsyncPage",
    "AsyncQuery",
    "Bound",
    "Database",
    "Executor",
    "Fix",
    "LatencyChart",
    "Opening",
    "Operations",
    "Page",
    "Prediction",
    "Query",
    "Repaired",
    "Rows",
    "open",
    "open_async",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> NoReturn:
        raise AttributeError(for_submodule(sys.modules[__name__], name))
