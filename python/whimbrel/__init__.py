"""
Whimbrel: one query engine for every clock speed and every size of machine.

Sources make sharded streams, methods build plans over them, actions run the plans::

    clicks = wb.read("clicks.parquet", time="time")
    per_item = (
        clicks.rekey(lambda e: e.item)
        .redistribute()
        .query(lambda q: q.hopping("5m", hop="1m").aggregate(n=wb.count()))
    )
    per_item.to_polars()

- SQL: `sql`.
- Sources: `read`, `follow`, `kafka`, `values`, `from_arrow`, `from_polars`, `from_pandas`, `from_rows`,
  `from_events`, `live`, `live_events`; of your own, `from_source` with a `ReplayableSource`.
- Streams: `ShardedStream` moves data between shards and runs queries on them; `Stream` is what a query
  works on.
- Expressions: `col`, `lit`, `when`, the functions in `fn`, `udf`; lambdas of a row are traced into these.
- Aggregates: `count`, `count_non_null`, `sum`, `avg` (`mean`), `min`, `max`, `first`, `last`,
  `count_distinct`; `var`, `std`, `median`, `percentile`, `product`, `sum_squares`, `avg_squares`; `max_by`,
  `min_by`, `top_k`, `collect`, `single`; your own with `aggregate_function`. For relations, DataFusion's in
  `agg`, window functions with `Aggregate.over`, and grouping sets with `grouping_sets`, `rollup`, `cube`.
- Patterns of events, for `Stream.detect`: `event`, `events_at_once`, `automaton`, `Pattern`.
- Programs: `Program`, a plan as the text of a program that builds it (`ShardedStream.to_python`).
- Databases for web applications, whose queries have a proven bound: `bounded`.
- Events: `interval`, `start_edge`, `end_edge`, `punctuation`, `low_watermark`.
- Clusters of processes that survive the loss of any of them: `cluster`. Stateless functions over object
  storage, paid by the query: `functions`.
- Settings: `config`. Threads for many queries: `Scheduler`. Errors: `WhimbrelError` and its subclasses,
  one for each remedy.
"""

from __future__ import annotations

__all__ = [
    "Aggregate",
    "AggregateFunction",
    "Candidate",
    "ConflictError",
    "DataError",
    "END",
    "EarlyResult",
    "Event",
    "Expr",
    "GroupingSets",
    "INFINITY",
    "InternalError",
    "InvalidError",
    "Job",
    "JobSink",
    "KafkaSink",
    "KafkaSource",
    "LiveStream",
    "Over",
    "Pattern",
    "Program",
    "Progressive",
    "Query",
    "ReplayableSource",
    "ResourceExhaustedError",
    "Row",
    "Scheduler",
    "Schema",
    "ShardedStream",
    "SourceShard",
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
    "automaton",
    "avg",
    "avg_squares",
    "bounded",
    "cluster",
    "col",
    "collect",
    "config",
    "count",
    "count_distinct",
    "count_non_null",
    "cube",
    "end_edge",
    "event",
    "events_at_once",
    "first",
    "fn",
    "follow",
    "from_arrow",
    "from_bytes",
    "from_events",
    "from_pandas",
    "from_polars",
    "from_rows",
    "from_source",
    "functions",
    "grouping_sets",
    "interval",
    "kafka",
    "last",
    "lit",
    "live",
    "live_events",
    "low_watermark",
    "max",
    "max_by",
    "mean",
    "median",
    "min",
    "min_by",
    "percentile",
    "product",
    "punctuation",
    "read",
    "rollup",
    "single",
    "sql",
    "start_edge",
    "std",
    "sum",
    "sum_squares",
    "top_k",
    "udf",
    "values",
    "var",
    "when",
]

from . import interpreters

# Imported here, and not on the first use of a name, which may be on any thread.
with interpreters.main_only():
    from . import _whimbrel as _whimbrel

# Type checkers recognize this name; an import of `typing` would slow the start of the command.
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
            from .attribute_errors import for_module

            functions = {"fn": _whimbrel.function_names(), "agg": _whimbrel.call_names()}
            raise AttributeError(for_module(name, __all__, functions))
        import whimbrel.api as api

        globals().update({public: getattr(api, public) for public in __all__})
        return globals()[name]

    def __dir__() -> list[str]:
        """List all names, loaded or not."""
        return sorted({*globals(), *__all__})
