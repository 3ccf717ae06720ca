"""
Whimbrel: one query engine for every clock speed and every size of machine.

A query is a plan over a `ShardedStream`; sources make such streams, actions run them::

    clicks = wb.read("clicks.parquet", time="time")
    per_item = (
        clicks.rekey(lambda e: e.item)
        .redistribute()
        .query(lambda q: q.hopping("5m", hop="1m").aggregate(n=wb.count()))
    )
    per_item.to_polars()

- SQL: `sql`.
- Sources: `read`, `values`, `from_arrow`, `from_polars`, `from_pandas`, `from_rows`, `from_events`, `live`,
  `live_events`.
- Streams: `ShardedStream` moves data between shards and runs queries on them; `Stream` is what a query
  works on.
- Expressions: `col`, `lit`, `when`, the functions in `fn`, `udf`; lambdas of a row are traced into these.
- Aggregates: `count`, `count_non_null`, `sum`, `avg` (`mean`), `min`, `max`, `first`, `last`,
  `count_distinct`; your own with `aggregate_function`. For relations, DataFusion's in `agg`, over the rows
  around each row with `Aggregate.over`, and by several sets of groups with `grouping_sets`, `rollup` and
  `cube`.
- Programs: `Program`, a plan as a text that builds it again (`ShardedStream.to_python`).
- Databases for web applications, whose queries have a proven bound: `bounded`.
- Events: `interval`, `start_edge`, `end_edge`, `punctuation`.
- Settings: `config`. Errors: `WhimbrelError` and its subclasses, one for each remedy.
"""

from __future__ import annotations

__all__ = [
    "INFINITY",
    "Aggregate",
    "AggregateFunction",
    "ConflictError",
    "DataError",
    "Event",
    "Expr",
    "GroupingSets",
    "InternalError",
    "InvalidError",
    "LiveStream",
    "Over",
    "Program",
    "ResourceExhaustedError",
    "Row",
    "Schema",
    "Candidate",
    "Query",
    "ShardedStream",
    "Stream",
    "Subscription",
    "Table",
    "UnavailableError",
    "UnboundedError",
    "UntracedLambdaWarning",
    "View",
    "WhimbrelError",
    "__version__",
    "agg",
    "aggregate_function",
    "avg",
    "bounded",
    "col",
    "config",
    "count",
    "count_distinct",
    "count_non_null",
    "cube",
    "end_edge",
    "first",
    "fn",
    "from_arrow",
    "from_events",
    "from_pandas",
    "from_polars",
    "from_rows",
    "grouping_sets",
    "interval",
    "last",
    "lit",
    "live",
    "live_events",
    "max",
    "mean",
    "min",
    "punctuation",
    "read",
    "rollup",
    "sql",
    "start_edge",
    "sum",
    "udf",
    "values",
    "when",
]

from . import interpreters

# Now, and not when a name is used first: that may be in any thread.
with interpreters.main_only():
    from . import _whimbrel as _whimbrel

# Type checkers know it by this name; it is not taken from `typing`, which would have to be loaded for it.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from .api import *
    from .api import __version__
else:

    def __getattr__(name: str) -> object:
        """Load all names when one is used (PEP 562); the command starts without them."""
        if name not in __all__:
            if name.startswith("_"):
                raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
            from .names import of_module

            raise AttributeError(of_module(name, __all__))
        import whimbrel.api as api

        globals().update({known: getattr(api, known) for known in __all__})
        return globals()[name]

    def __dir__() -> list[str]:
        """List all names, loaded or not."""
        return sorted({*globals(), *__all__})
