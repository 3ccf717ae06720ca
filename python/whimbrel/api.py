"""The names that `whimbrel` offers, each from the module that has it."""

from __future__ import annotations

import whimbrel.bounded as bounded
import whimbrel.cluster as cluster
import whimbrel.functions as functions

from ._whimbrel import Row, __version__
from .aggregate_functions import AggregateFunction, aggregate_function
from .aggregates import (
    Aggregate,
    Over,
    avg,
    count,
    count_distinct,
    count_non_null,
    first,
    last,
    max,
    mean,
    min,
    sum,
)
from .conditions import when
from .connectors import END, JobSink, ReplayableSource, SourceShard
from .errors import (
    ConflictError,
    DataError,
    InternalError,
    InvalidError,
    ResourceExhaustedError,
    UnavailableError,
    UnboundedError,
    UntracedLambdaWarning,
    WhimbrelError,
)
from .events import INFINITY, Event, end_edge, interval, low_watermark, punctuation, start_edge
from .expressions import Expr, col, lit
from .kafka_topics import KafkaSink, KafkaSource, kafka
from .live_stream import LiveStream, live, live_events
from .patterns import Pattern, automaton, event, events_at_once
from .program import Program
from .progressive import EarlyResult, Progressive
from .query import Candidate, Query
from .relational import GroupingSets, agg, cube, grouping_sets, rollup
from .scalar_functions import fn
from .scheduler import Scheduler
from .schema import Schema
from .selections import collect, max_by, min_by, single, top_k
from .settings import config
from .sharded import ShardedStream
from .sources import (
    follow,
    from_arrow,
    from_bytes,
    from_events,
    from_pandas,
    from_polars,
    from_rows,
    from_source,
    read,
    values,
)
from .statements import sql
from .statistics import avg_squares, median, percentile, product, std, sum_squares, var
from .stream import Stream
from .subscription import Job, Subscription
from .table import Table
from .tracing import udf
from .view import View
