"""Trill's own tests, as data, over the Python API."""

from __future__ import annotations

import re
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

import whimbrel as wb

from . import equality, pipeline
from .equality import Said
from .pipeline import Fields, Items, UnknownFieldError

_DISORDER = {"throw": "raise", "adjust": "adjust", "drop": "drop"}
_ON_COMPLETED = {"end_of_stream": "end_of_stream", "flush": "flush", "none": "nothing"}
# When Trill hands out batches that are not full: no answer depends on it.
_FLUSH = ("none", "on_punctuation", "on_low_watermark", "on_batch_boundary")
_KINDS = ("interval", "start", "end", "punctuation", "low_watermark")


def test_case(case: dict[str, Any]) -> None:
    unknown = pipeline.known(case["pipeline"])
    if unknown is not None:
        pytest.fail(f"the runner does not know {unknown}")
    check(case)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wb.UntracedLambdaWarning)
        _COMPARE[case["compare"]](case)


@pytest.fixture(scope="module")
def functions() -> Iterator[wb.functions.LocalFunctions]:
    with wb.functions.start(concurrency=2, small=0) as started:
        yield started


def test_case_on_functions(case: dict[str, Any], functions: wb.functions.LocalFunctions) -> None:
    with wb.config(on=functions):
        try:
            test_case(case)
        except wb.InvalidError as refusal:
            if re.search("run it in this process|belongs to this process", str(refusal)):
                pytest.skip(str(refusal))
            raise


def check(case: dict[str, Any]) -> None:
    """Refuse fields and words that the runner does not know; those of the pipeline are read one by one."""
    fields = Fields(case, "a case")
    for told in ("id", "source", "operator", "description", "tags", "note", "pipeline"):
        fields.get(told)
    fields.word("compare", "", *_COMPARE)
    _ingress(case)
    _declared(case)
    for stream in fields["inputs"]:
        known = Fields(stream, "an input")
        known["stream"]
        check_events(known.get("events", []))
        known.all_read()
    for step in fields.get("steps", []):
        known = Fields(step, "a step")
        known.word("action", "none", "none", "flush", "complete")
        for events in known.get("feed", {}).values():
            check_events(events)
        check_events(known.get("expect") or [])
        known.all_read()
    check_events(fields.get("expected") or [])
    for lifetime in fields.get("expected_logical") or []:
        known = Fields(lifetime, "an expected lifetime")
        for name in ("start", "end", "payload", "partition"):
            known.get(name)
        known.all_read()
    fields.get("ingress")
    fields.get("params")
    fields.all_read()


def check_events(events: list[dict[str, Any]]) -> None:
    """Refuse events with fields or words that the runner does not know."""
    for event in events:
        fields = Fields(event, "an event")
        kind = fields.word("kind", "", *_KINDS)
        marks = kind in ("punctuation", "low_watermark")
        for name in (kind, "partition") if marks else ("start", "end", "payload", "partition"):
            fields.get(name)
        fields.all_read()


# What the modes mean.


def exact_sequence(case: dict[str, Any]) -> None:
    said, expected = run(case), [equality.of_case(event) for event in case["expected"]]
    if "guaranteed disjoint" in case["operator"]:
        # Trill's DisjointUnion lets rows overtake punctuations of their own instant. We have the ordinary
        # union, of which the case says that it is correct too.
        said, expected = equality.punctuated_first(said), equality.punctuated_first(expected)
    if not any(event.kind in equality.MARKS for event in expected):
        # A case that lists no punctuation, not even that of the end, speaks of rows only.
        said = [event for event in said if event.kind not in equality.MARKS]
    assert said == expected


def multiset_physical(case: dict[str, Any]) -> None:
    assert Counter(run(case)) == Counter(equality.of_case(event) for event in case["expected"])


def logical(case: dict[str, Any]) -> None:
    assert equality.steps(run(case)) == equality.steps(equality.of_lifetimes(case["expected_logical"]))


def throws(case: dict[str, Any]) -> None:
    with pytest.raises(wb.WhimbrelError):
        run(case)


def prefix_property(case: dict[str, Any]) -> None:
    """What is said will be said in the end too, is complete up to the last input, and nothing is later."""
    said = run(case)
    data = [equality.of_case(event) for stream in case["inputs"] for event in stream["events"]]
    last = max(event.sync for event in data if event.start != equality.END_OF_TIME)
    whole = run({**case, "ingress": {**case["ingress"], "on_completed": "end_of_stream"}})
    assert equality.before(equality.steps(said), last) == equality.before(equality.steps(whole), last)
    assert all(event.sync <= last for event in said)
    closed = {
        (e.start, e.payload) for e in said if e.kind == "end" or (e.kind == "interval" and e.end is not None)
    }
    ended = [e for e in equality_intervals(whole) if e.end is not None and e.end <= last]
    assert {(e.start, e.payload) for e in ended} <= closed


def equality_intervals(events: Iterable[Said]) -> list[Said]:
    """Put start and end edges together."""
    return [e for e in events if e.kind == "interval"] + [e for e in events if e.kind == "end"]


def steps_exact(case: dict[str, Any]) -> None:
    said: list[Said] = []
    streams = {stream["stream"]: stream.get("events", []) for stream in case["inputs"]}
    lives = {
        name: wb.live_events(_schema(events), **_settings(case, events)) for name, events in streams.items()
    }
    nodes: dict[str, Any] = {
        name: (_as_declared(case, live, streams[name]), _fields(streams[name]))
        for name, live in lives.items()
    }
    result, fields = build(case["pipeline"], nodes, no_ties=_has_no_ties(case))
    with result.subscribe(
        lambda event: said.append(_said(event, fields)), form="events", runtime="library"
    ) as subscription:
        for step in case["steps"]:
            before = len(said)
            for name, events in step["feed"].items():
                lives[name].push([_event(event) for event in events])
            if step["action"] == "complete":
                for live in lives.values():
                    live.close()
                subscription.wait(10)
            if step["expect"] is not None:
                expected = [equality.of_case(event) for event in step["expect"]]
                assert settled(said, before, expected) == expected


def settled(said: list[Said], before: int, expected: list[Said]) -> list[Said]:
    """
    Wait until there is as much as is expected, and a little longer for what is too much.

    A live source announces by itself how far time has come, which a file of cases cannot know of:
    punctuations that are not expected are left out.
    """

    def news() -> list[Said]:
        return [event for event in said[before:] if event.kind != "punctuation" or event in expected]

    until = time.monotonic() + 60
    while len(news()) < len(expected) and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(0.1)
    return news()


def per_partition_exact(case: dict[str, Any]) -> None:
    """Each partition has its own order, and so have low watermarks."""
    said, expected = run(case), [equality.of_case(event) for event in case["expected"]]
    assert by_partition(said) == by_partition(expected)


def by_partition(events: Iterable[Said]) -> dict[Any, list[Said]]:
    """Take the events of each partition apart; low watermarks are of none."""
    parts: dict[Any, list[Said]] = {}
    for event in events:
        parts.setdefault(event.partition, []).append(event)
    return parts


_COMPARE = {
    "exact_sequence": exact_sequence,
    "multiset_physical": multiset_physical,
    "logical": logical,
    "throws": throws,
    "prefix_property": prefix_property,
    "steps_exact": steps_exact,
    "per_partition_exact": per_partition_exact,
}


# How a case is run.


def run(case: dict[str, Any]) -> list[Said]:
    """Run a case from beginning to end; give what comes out."""
    nodes = {}
    for stream in case["inputs"]:
        given = stream.get("events", [])
        source = wb.from_events([_event(event) for event in given], _schema(given), **_settings(case, given))
        nodes[stream["stream"]] = (_as_declared(case, source, given), _fields(given))
    result, fields = build(case["pipeline"], nodes, no_ties=_has_no_ties(case))
    if isinstance(case["pipeline"], dict) and case["pipeline"]["op"] == "coalesce":
        return coalesced(result, fields)
    said = [_said(event, fields) for event in result.to_events(runtime="library")]
    if any(_is_partitioned(stream.get("events", [])) for stream in case["inputs"]):
        # What is said of all partitions is a low watermark.
        marks = {"punctuation": "low_watermark"}
        said = [event._replace(kind=marks.get(event.kind, event.kind)) for event in said]
    return said


def coalesced(result: wb.ShardedStream, fields: tuple[str, ...] | None) -> list[Said]:
    """Read the result as a table of intervals, whose end is the end of the stream."""
    said = [
        Said("start" if row["end"] is None else "interval", row["start"], row["end"], _payload(row, fields))
        for row in result.to_rows(runtime="library")
    ]
    return [*said, Said("punctuation", equality.END_OF_TIME, None, None)]


def _has_no_ties(case: dict[str, Any]) -> bool:
    return bool((case.get("params") or {}).get("declared_simultaneity_free"))


def build(
    plan: Any, sources: dict[str, tuple[wb.ShardedStream, Any]], *, no_ties: bool = False
) -> tuple[wb.ShardedStream, Any]:
    """Build a pipeline as one query over all its inputs."""
    fields: list[Any] = []

    def query(*streams: wb.Stream) -> wb.Stream:
        nodes = {
            name: pipeline.Node(stream, known, no_ties)
            for (name, (_, known)), stream in zip(sources.items(), streams, strict=True)
        }
        node = pipeline.apply(plan, nodes)
        fields.append(node.fields)
        return node.stream.select(*node.columns) if node.stream.columns != list(node.columns) else node.stream

    first, *rest = [source for source, _ in sources.values()]
    return first.query(*rest, query), fields[0]


def _is_partitioned(events: Iterable[dict[str, Any]]) -> bool:
    return any("partition" in event or event["kind"] == "low_watermark" for event in events)


def _settings(case: dict[str, Any], events: list[dict[str, Any]]) -> dict[str, Any]:
    partition = {"partition_by": pipeline.PARTITION} if _is_partitioned(events) else {}
    return {**_ingress(case), **partition}


def _ingress(case: dict[str, Any]) -> dict[str, Any]:
    settings = Fields(case["ingress"], "ingress")
    settings.word("flush", "on_punctuation", *_FLUSH)
    read = {
        "disorder": _DISORDER[settings.word("disorder", "throw", *_DISORDER)],
        "reorder_latency": settings.get("reorder_latency", 0),
        "punctuate": settings.get("periodic_punctuation"),
        "on_completed": _ON_COMPLETED[settings.word("on_completed", "end_of_stream", *_ON_COMPLETED)],
    }
    settings.all_read()
    return read


def _declared(case: dict[str, Any]) -> Any:
    """Tell how long all rows of the inputs live, if the case says so; None: it does not."""
    params = Fields(case.get("params") or {}, "params")
    # Where it is declared, patterns take events as they come.
    params.get("declared_simultaneity_free")
    # No answer depends on it.
    params.get("batch_size")
    duration = params.get("declared_constant_duration")
    params.all_read()
    return duration


def _as_declared(
    case: dict[str, Any], source: wb.ShardedStream, events: list[dict[str, Any]]
) -> wb.ShardedStream:
    """Tell the product what the case declares of the lifetimes, which the events have to keep."""
    duration = _declared(case)
    if duration is None:
        return source
    for event in events:
        lives = "inf" if event["kind"] == "start" else None
        if event["kind"] == "interval":
            lives = event["end"] - event["start"]
        if event["kind"] not in equality.MARKS and lives != duration:
            raise UnknownFieldError(f"not all rows live {duration}, as is declared: {event}")
    ticks = float("inf") if duration == "inf" else duration
    return source.query(lambda q: q.alter_duration(ticks))


def _event(event: dict[str, Any]) -> wb.Event:
    partition = {pipeline.PARTITION: event["partition"]} if "partition" in event else {}
    if event["kind"] in equality.MARKS:
        time = wb.INFINITY if event[event["kind"]] == "inf" else event[event["kind"]]
        if event["kind"] == "low_watermark":
            return wb.low_watermark(time)
        return wb.punctuation(time, partition or None)
    payload = event.get("payload")
    row = {**(payload if isinstance(payload, dict) else {pipeline.SCALAR: payload}), **partition}
    if event["kind"] == "interval":
        return wb.interval(event["start"], event["end"], row)
    if event["kind"] == "start":
        return wb.start_edge(event["start"], row)
    return wb.end_edge(event["start"], event["end"], row)


def _payloads(events: list[dict[str, Any]]) -> list[Any]:
    return [event.get("payload") for event in events if event["kind"] not in equality.MARKS]


def _fields(events: list[dict[str, Any]]) -> tuple[str, ...] | None:
    names: dict[str, None] = {}
    for payload in _payloads(events):
        if isinstance(payload, dict):
            names.update(dict.fromkeys(payload))
    return tuple(names) or None


def _schema(events: list[dict[str, Any]]) -> dict[str, str | None]:
    fields, payloads = _fields(events), _payloads(events)
    partition: dict[str, str | None] = {}
    if _is_partitioned(events):
        partition[pipeline.PARTITION] = _type([event.get("partition") for event in events])
    if fields is None:
        return {pipeline.SCALAR: _type(payloads), **partition}
    types = {name: _type([p.get(name) for p in payloads if p is not None]) for name in fields}
    return {**types, **partition}


def _type(values: list[Any]) -> str | None:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return "bool"
    if kinds <= {int, bool}:
        return "int64"
    if kinds <= {int, float, bool}:
        return "float64"
    # What is made of parts is looked at by the product itself.
    return "string" if kinds <= {str} else None


def _payload(row: Any, fields: tuple[str, ...] | None) -> Any:
    if isinstance(fields, Items):
        return equality.canonical(tuple(row[name] for name in fields))
    payload = row[pipeline.SCALAR] if fields is None else {name: row[name] for name in fields}
    return equality.canonical(payload)


def _said(event: wb.Event, fields: tuple[str, ...] | None) -> Said:
    if event.kind == "punctuation":
        return Said("punctuation", equality.instant(event.start), None, None)
    start, end = equality.instant(event.start), event.end
    partition = dict(event.row).get(pipeline.PARTITION)
    end = None if end is None else equality.instant(end)
    return Said(event.kind, start, end, _payload(event.row, fields), partition)
