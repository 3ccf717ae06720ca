"""Pipelines of the case format, written in the product's Python API.

A payload that is a dict has its fields as columns, any other is the column `value`. Expressions of a case are
Python; they become lambdas, which the product traces or runs as black boxes. Where an operator needs columns
besides the payload (keys), they are added before it and dropped after it. A payload of several values in an
order has them as the columns `_0`, `_1`, ...

Every field of an operator is read, or the case is refused: where one is passed over, a case passes or fails
by luck.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import whimbrel as wb

SCALAR = "value"
PARTITION = "__partition"
"""The columns of a payload that is one value, and of the partitions."""


class UnknownFieldError(Exception):
    """A case has a field, or a word in one, that the runner does not know."""


class Fields:
    """The fields of one part of a case, and which of them have been read."""

    def __init__(self, of: dict[str, Any], what: str) -> None:
        self._of, self._what = of, what
        self._read: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        """Read a field that may be left out."""
        self._read.add(name)
        return self._of.get(name, default)

    def __getitem__(self, name: str) -> Any:
        self._read.add(name)
        return self._of[name]

    def __contains__(self, name: str) -> bool:
        return name in self._of

    def first(self, *names: str) -> Any:
        """Read the one of these names that is there; they mean the same."""
        given = [name for name in names if name in self]
        if len(given) != 1:
            raise UnknownFieldError(f"{self._what} has {given or 'none'} of {names}, and needs one")
        return self[given[0]]

    def word(self, name: str, default: str, *known: str) -> str:
        """Read a word that is one of a few."""
        value = self.get(name, default)
        if value not in known:
            raise UnknownFieldError(f"the runner does not know {name} {value!r} of {self._what}")
        return str(value)

    def unread(self) -> dict[str, Any]:
        """List the fields that have not been read."""
        return {name: value for name, value in self._of.items() if name not in self._read}

    def all_read(self) -> None:
        """Refuse what has not been read."""
        for name in self.unread():
            raise UnknownFieldError(f"the runner does not know the field {name!r} of {self._what}")


class Items(tuple[str, ...]):
    """The columns of a payload that is several values in an order."""

    __slots__ = ()

    @staticmethod
    def of(count: int) -> Items:
        """Name so many columns."""
        return Items(f"_{i}" for i in range(count))

    def __repr__(self) -> str:
        return f"Items({tuple(self)!r})"


@dataclass(frozen=True)
class Node:
    """A stream, and which of its columns are the payload; no columns: one value, in the column `value`."""

    stream: wb.Stream
    fields: tuple[str, ...] | None
    no_ties: bool = False
    """Whether the case declares that no two events of a group start at one instant."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The payload's columns."""
        return (SCALAR,) if self.fields is None else self.fields


class Side:
    """The payload of one side of a pair, under a prefix."""

    def __init__(self, row: Any, prefix: str, fields: tuple[str, ...]) -> None:
        self._row, self._prefix, self._fields = row, prefix, fields

    def keys(self) -> tuple[str, ...]:
        """List the fields."""
        return self._fields

    def __getitem__(self, name: str) -> Any:
        return self._row[self._prefix + name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)


def payload_of(row: Any, fields: tuple[str, ...] | None, prefix: str = "") -> Any:
    """Give the payload in a row: a value, several, or something that is used like a dict."""
    if isinstance(fields, Items):
        return tuple(row[prefix + name] for name in fields)
    return row[prefix + SCALAR] if fields is None else Side(row, prefix, fields)


def function(source: str, **bind: str) -> Callable[..., Any]:
    """
    Make a lambda of an expression: `bind` says how each of its names comes from the row.

    The expression is code of the lambda itself, so that the product sees all of it.
    """
    names, values = ", ".join(bind), ", ".join(bind.values())
    takes = "row, s" if "s" in bind else "row"
    known = {"payload_of": payload_of, "Items": Items}
    made = eval(f"lambda {takes}: (lambda {names}: ({source}))({values})", known)
    made.__name__ = source
    return made


def from_row(fields: tuple[str, ...] | None, prefix: str = "") -> str:
    """Write the code that takes a payload from `row`."""
    return f"payload_of(row, {fields!r}, {prefix!r})"


def shape(source: str, **known: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Tell the fields that an expression makes; None for a single value."""
    return _shape(ast.parse(source, mode="eval").body, known)


def _shape(node: ast.expr, known: dict[str, tuple[str, ...] | None]) -> tuple[str, ...] | None:
    if isinstance(node, (ast.Tuple, ast.List)):
        return Items.of(len(node.elts))
    if isinstance(node, ast.Dict):
        return tuple(ast.literal_eval(key) for key in node.keys if key is not None)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
        first = _shape(node.args[0], known) if node.args else ()
        return tuple(dict.fromkeys([*(first or ()), *(k.arg for k in node.keywords if k.arg is not None)]))
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.IfExp):
        return _shape(node.body, known) or _shape(node.orelse, known)
    return None


def select(stream: wb.Stream, source: str, fields: tuple[str, ...] | None, **bind: str) -> Node:
    """Compute a new payload."""
    made = function(source, **bind)
    if fields is None:
        return Node(stream.select(value=made), None)
    if isinstance(fields, Items):
        return Node(stream.select(function(f"dict(zip({tuple(fields)!r}, {source}))", **bind)), fields)
    if ast.parse(source, mode="eval").body.__class__ is ast.Name:
        made = function(f"dict({source})", **bind)
    return Node(stream.select(made), fields)


def apply(pipeline: Any, inputs: dict[str, Node]) -> Node:
    """Build a pipeline over named inputs."""
    if isinstance(pipeline, str):
        return inputs[pipeline]
    fields = Fields(pipeline, pipeline["op"])
    node = _OPERATORS[fields["op"]](fields, inputs)
    fields.all_read()
    return node


def _names(source: str) -> set[str]:
    """List the names that an expression uses."""
    return {name.id for name in ast.walk(ast.parse(source)) if isinstance(name, ast.Name)}


def _source(node: Fields, inputs: dict[str, Node]) -> Node:
    return apply(node["src"], inputs)


def _where(node: Fields, inputs: dict[str, Node]) -> Node:
    source = _source(node, inputs)
    return replace(source, stream=source.stream.where(function(node["expr"], e=from_row(source.fields))))


def _select(node: Fields, inputs: dict[str, Node]) -> Node:
    source, expression = _source(node, inputs), node["expr"]
    bind = {"e": from_row(source.fields)}
    if "s" in _names(expression):
        bind["s"] = "s"
    return select(source.stream, expression, shape(expression, e=source.fields), **bind)


def _select_many(node: Fields, inputs: dict[str, Node]) -> Node:
    source = _source(node, inputs)
    lists = function(f"list({node['expr']})", e=from_row(source.fields))
    many = source.stream.select_many(lists, "__item")
    item = many.schema["__item"]
    if item.startswith("struct["):
        fields = tuple(part.split(":")[0].strip() for part in item[len("struct[") : -1].split(","))
        return Node(many.select(**{f: wb.col("__item")[f] for f in fields}), fields)
    return Node(many.select(value="__item"), None)


def _ticks(value: Any) -> Any:
    """Read a length: ticks, `"inf"`, or an expression over the start `s` and the end `e`."""
    if value == "inf":
        return float("inf")
    if isinstance(value, str):
        return eval(f"lambda s, e: ({value})" if "e" in _names(value) else f"lambda s: ({value})")
    return value


def _alter_lifetime(node: Fields, inputs: dict[str, Node]) -> Node:
    source = _source(node, inputs)
    start, duration = _ticks(node.get("start")), _ticks(node.get("duration"))
    return replace(source, stream=source.stream.alter_lifetime(start, duration))


def _alter_duration(node: Fields, inputs: dict[str, Node]) -> Node:
    source = _source(node, inputs)
    return replace(source, stream=source.stream.alter_duration(_ticks(node.first("duration", "expr"))))


def _chop(node: Fields, inputs: dict[str, Node]) -> Node:
    source = _source(node, inputs)
    return replace(source, stream=source.stream.chop(node["period"], offset=node.get("offset", 0)))


def _shift(node: Fields, inputs: dict[str, Node]) -> Node:
    source = _source(node, inputs)
    by = node["by"]
    moved = (
        source.stream.shift(by) if isinstance(by, int) else source.stream.alter_lifetime(_ticks(f"s+({by})"))
    )
    return replace(source, stream=moved)


def _hopping(node: Fields, inputs: dict[str, Node]) -> Node:
    source = _source(node, inputs)
    size = node["size"]
    hop, offset = node.get("period", size), node.get("offset", 0)
    stream = source.stream.hopping(size, hop, offset=offset, closed="right", snapped=size % hop != 0)
    return replace(source, stream=stream)


def _session(node: Fields, inputs: dict[str, Node]) -> Node:
    source = _source(node, inputs)
    stream = source.stream.session(node["timeout"], max_duration=node.get("max_duration"), cap="grid")
    return replace(source, stream=stream)


def _clip(node: Fields, inputs: dict[str, Node]) -> Node:
    source = _source(node, inputs)
    return replace(source, stream=source.stream.clip(node.first("limit", "duration")))


def _point_at_end(node: Fields, inputs: dict[str, Node]) -> Node:
    source = _source(node, inputs)
    return replace(source, stream=source.stream.point_at_end())


def _extend(node: Fields, inputs: dict[str, Node]) -> Node:
    source = _source(node, inputs)
    return replace(source, stream=source.stream.extend(node.first("by", "duration")))


def _stitch(node: Fields, inputs: dict[str, Node]) -> Node:
    source = _source(node, inputs)
    return replace(source, stream=source.stream.stitch())


def _quantize(node: Fields, inputs: dict[str, Node]) -> Node:
    source = _source(node, inputs)
    size = node["size"]
    stream = source.stream.quantize(
        size, node.get("period", size), progress=node.get("progress"), offset=node.get("offset", 0)
    )
    return replace(source, stream=stream)


def _repetitive_hopping(node: Fields, inputs: dict[str, Node]) -> Node:
    hopped = _hopping(node, inputs)
    period, offset = node.get("period", node["size"]), node.get("offset", 0)
    return replace(hopped, stream=hopped.stream.chop(period, offset=offset))


def _asserted(node: Fields, inputs: dict[str, Node]) -> Node:
    """Properties that a case asserts and its events keep; an answer depends on one of them only."""
    words = str([node.get(name) for name in ("property", "properties", "value", "name")]).lower()
    source = _source(node, inputs)
    return replace(source, no_ties=source.no_ties or "simultan" in words)


def _detect(node: Fields, inputs: dict[str, Node]) -> Node:
    source = _source(node, inputs)
    initial = node.get("register")
    pattern = _pattern(node["pattern"], source) if "pattern" in node else _arcs(node, source)
    updates = "agg" in str(node.get("pattern") or node.get("arcs"))
    register: dict[str, Any] = {}
    if updates or initial is not None:
        register[SCALAR] = wb.lit(None, source.stream.schema[SCALAR]) if initial is None else initial
    found = source.stream.detect(
        pattern,
        within=node["max_duration"],
        register=register,
        overlap=node.get("allow_overlap", True),
        simultaneous="absent" if source.no_ties else "kill",
    )
    return Node(found, None if register else ())


def _pattern(tree: dict[str, Any], source: Node) -> wb.Pattern:
    """Read a regular expression over events."""
    fields = Fields(tree, "a pattern")
    (word,) = [name for name in tree if name != "agg"]
    value = fields[word]
    if word in ("el", "list"):
        pattern = _element(fields, source, word)
    elif word in ("seq", "or", "alt"):
        first, *rest = [_pattern(part, source) for part in value]
        pattern = first.then(*rest) if word == "seq" else reduce(operator.or_, rest, first)
    elif word not in ("star", "plus", "opt"):
        raise UnknownFieldError(f"the runner does not know {word!r} in a pattern")
    else:
        of = _pattern(value, source)
        pattern = {"star": of.star, "plus": of.plus, "opt": of.optional}[word]()
    fields.all_read()
    return pattern


def _arcs(node: Fields, source: Node) -> wb.Pattern:
    arcs = []
    for given in node["arcs"]:
        fields = Fields(given, "an arc")
        word = next((name for name in ("el", "list") if name in fields), None)
        element = None if word is None else _element(fields, source, word)
        arcs.append((fields["frm"], fields["to"], element))
        fields.all_read()
    return wb.automaton(arcs, final=node["final"])


def _element(fields: Fields, source: Node, word: str) -> wb.Pattern:
    """Read what takes an event, or all events of an instant as the list `es`."""
    make, name = (wb.event, "e") if word == "el" else (wb.events_at_once, "es")
    payload = from_row(source.fields)
    if word == "list" and source.fields is not None:
        payload = f"[dict(zip({tuple(source.fields)!r}, row_)) for row_ in zip(*{payload}.values())]"

    def lambda_of(expression: str) -> Callable[..., Any]:
        known = {"payload_of": payload_of, "Items": Items}
        code = f"lambda row, register: (lambda {name}, reg: ({expression}))({payload}, register[{SCALAR!r}])"
        if "reg" not in _names(expression):
            code = f"lambda row: (lambda {name}: ({expression}))({payload})"
        return eval(code, known)

    update = fields.get("agg")
    condition = lambda_of(str(fields[word]))
    return make(condition) if update is None else make(condition, **{SCALAR: lambda_of(update)})


def _consecutive_pairs(node: Fields, inputs: dict[str, Node]) -> Node:
    source = _source(node, inputs)
    return _result(node["result"], _following(node, source).stream, source, source)


def _followed_by(node: Fields, inputs: dict[str, Node]) -> Node:
    """Read pairs of events of which the second is the very next one, of one stream or of two."""
    if "left" in node:
        left, right = apply(node["left"], inputs), apply(node["right"], inputs)
        sides = [
            side.stream.with_columns(__side=lambda e, name=name: wb.lit(name))
            for side, name in ((left, "l"), (right, "r"))
        ]
        both = replace(left, stream=sides[0].union(sides[1]))
        pairs = _following(node, both, "__side").stream
        pairs = pairs.where(lambda e: (e["l___side"] == "l") & (e["r___side"] == "r"))
        return _result(node["result"], pairs, left, right)
    source = _source(node, inputs)
    pairs = _following(node, source).stream
    for name, prefix in (("first", "l_"), ("second", "r_")):
        pairs = pairs.where(function(node[name], e=from_row(source.fields, prefix)))
    return _result(node["result"], pairs, source, source)


def _sessionize(node: Fields, inputs: dict[str, Node]) -> Node:
    """Read pairs of the event that opens a session and the first one after it that closes it."""
    source = _source(node, inputs)
    keys = _keys(node["key"], source, "__on")[0] if "key" in node else {}
    stream = source.stream.with_columns(**keys) if keys else source.stream
    sides = []
    for name, prefix in (("is_start", "l_"), ("is_end", "r_")):
        rows = stream.where(function(node[name], e=from_row(source.fields)))
        sides.append(rows.select(*keys, **{prefix + column: column for column in source.columns}))
    pairs = sides[0].followed_by(sides[1], on=list(keys) or None)
    return _result(node["result"], pairs, source, source)


def _following(node: Fields, source: Node, *further: str) -> Node:
    """Pair each event with the next; Trill takes those that come less than `within` later."""
    within = node.get("within", node.get("duration"))
    within = None if within in (None, "inf") else within - 1
    columns = [*source.columns, *further]
    left, right = (
        source.stream.select(**{prefix + name: name for name in columns}) for prefix in ("l_", "r_")
    )
    return replace(source, stream=left.followed_by(right, within=within))


def _distinct(node: Fields, inputs: dict[str, Node]) -> Node:
    source = _source(node, inputs)
    if "of" in node:
        source = select(
            source.stream, node["of"], shape(node["of"], e=source.fields), e=from_row(source.fields)
        )
    return replace(source, stream=source.stream.distinct())


_AGGREGATES: dict[str, Callable[..., wb.Aggregate]] = {
    "sum": wb.sum,
    "average": wb.avg,
    "avg": wb.avg,
    "min": wb.min,
    "max": wb.max,
    "first": wb.first,
    "last": wb.last,
    "count_not_null": wb.count_non_null,
    "count_non_null": wb.count_non_null,
    "count_distinct": wb.count_distinct,
    "product": wb.product,
    "sum_squares": wb.sum_squares,
    "average_squares": wb.avg_squares,
    "avg_squares": wb.avg_squares,
    "variance": wb.var,
    "stddev": wb.std,
    "standard_deviation": wb.std,
    "variance_pop": partial(wb.var, population=True),
    "population_variance": partial(wb.var, population=True),
    "stddev_pop": partial(wb.std, population=True),
    "population_standard_deviation": partial(wb.std, population=True),
    "single_or_default": wb.single,
}

_PERCENTILES = {
    "percentile_cont": True,
    "percentile_continuous": True,
    "percentile_disc": False,
    "percentile_discrete": False,
}

_BY = {"max_by": wb.max_by, "min_by": wb.min_by}
_TOP = ("top_k", "topk")


def _function_of(spec: Fields) -> str:
    """Name the aggregate: in a field of its own, or as the operator (`{"op": "count", ...}`)."""
    return str(spec["agg"] if "agg" in spec else spec["op"])


def _aggregate_of(spec: Fields, source: Node) -> wb.Aggregate:
    row = from_row(source.fields)
    condition = spec.first("where", "filter") if "where" in spec or "filter" in spec else None
    where = None if condition is None else function(condition, e=row)
    name, of = _function_of(spec), spec.get("of", "e")
    if name == "count":
        return wb.count(where=where)
    if name in _PERCENTILES:
        fraction = spec.first("p", "fraction", "percentile")
        return wb.percentile(function(of, e=row), fraction, continuous=_PERCENTILES[name], where=where)
    if name in _TOP:
        return wb.top_k(function(of, e=row), spec["k"], where=where)
    return _AGGREGATES[name](function(of, e=row), where=where)


def _aggregate(node: Fields, inputs: dict[str, Node]) -> Node:
    source = _source(node, inputs)
    if "aggs" not in node and _function_of(node) in _BY:
        return _row_by(node, source)
    if "aggs" not in node:
        result = Node(source.stream.aggregate(value=_aggregate_of(node, source)), None)
        return _ranked(result) if _function_of(node) in _TOP else result
    results: dict[str, wb.Aggregate] = {}
    for name, given in zip(Items.of(len(node["aggs"])), node["aggs"], strict=True):
        spec = Fields(given, "an aggregate")
        results[name] = _aggregate_of(spec, source)
        spec.all_read()
    columns = Items(results)
    merged = source.stream.aggregate(**results)
    if "result" not in node:
        return Node(merged, columns)
    return select(merged, node["result"], shape(node["result"], a=columns), a=from_row(columns))


def _row_by(node: Fields, source: Node) -> Node:
    """Take the whole row with the greatest or least key."""
    key = function(node.get("of", "e"), e=from_row(source.fields))
    payload = function(f"dict(({', '.join(f'({c!r}, e[{c!r}])' for c in source.columns)},))", e="row")
    best = source.stream.aggregate(__item=_BY[_function_of(node)](payload, key))
    fields = {name: wb.col("__item")[name] for name in source.columns}
    return replace(source, stream=best.select(**fields))


def _ranked(node: Node) -> Node:
    """Read a list of ranked values as pairs, as Trill gives it."""
    pairs = node.stream.select(value=lambda row: [(item["rank"], item["value"]) for item in row.value])
    return replace(node, stream=pairs)


def _group_apply(node: Fields, inputs: dict[str, Node]) -> Node:
    source = _source(node, inputs)
    depth = sum(name.startswith("__k") for name in source.stream.columns)
    keys, key_code = _keys(node["key"], source, f"__k{depth}_")
    inner: list[Node] = []

    def query(group: wb.Stream) -> wb.Stream:
        inner.append(apply(node["apply"], {**inputs, "group": replace(source, stream=group)}))
        return inner[0].stream

    applied = source.stream.with_columns(**keys).group_apply(list(keys), query)
    result = node.get("result", "v")
    v = inner[0].fields
    # The results of several aggregates are `a`.
    known = dict.fromkeys(("v", "a"), v)
    return select(applied, result, shape(result, **known), k=key_code, **dict.fromkeys(known, from_row(v)))


def _group_aggregate(node: Fields, inputs: dict[str, Node]) -> Node:
    """Aggregate the rows of each key."""
    outer = {name: node[name] for name in ("key", "src")}
    result = node.get("result", "v")
    inner = {name: node[name] for name in node.unread()}
    grouped = {"op": "group_apply", **outer, "result": result}
    return apply({**grouped, "apply": {"op": "aggregate", **inner, "src": "group"}}, inputs)


def _keys(source: str, node: Node, prefix: str) -> tuple[dict[str, Any], str]:
    """Make the key's columns, and the code that puts the key together again."""
    tree = ast.parse(source, mode="eval").body
    row = from_row(node.fields)
    if isinstance(tree, ast.Tuple):
        parts = [ast.unparse(part) for part in tree.elts]
        keys = {f"{prefix}{i}": function(part, e=row) for i, part in enumerate(parts)}
        return keys, "(" + "".join(f"row[{name!r}]," for name in keys) + ")"
    fields = shape(source, e=node.fields)
    if fields is None:
        return {f"{prefix}0": function(source, e=row)}, f"row[{prefix + '0'!r}]"
    places = range(len(fields)) if isinstance(fields, Items) else fields
    parts = [f"({source})[{place!r}]" for place in places]
    keys = {prefix + f: function(part, e=row) for f, part in zip(fields, parts, strict=True)}
    return keys, from_row(fields, prefix)


def _pair(node: Fields, inputs: dict[str, Node], *, prefixed: bool) -> tuple[Node, Node, list[str] | None]:
    """Give both sides with their keys as columns, and, if wanted, their payloads under prefixes."""
    left, right = apply(node["left"], inputs), apply(node["right"], inputs)
    left_key, right_key = node.get("left_key"), node.get("right_key")
    made: list[tuple[wb.Stream, list[str]]] = []
    for side, key, prefix in ((left, left_key, "l_"), (right, right_key, "r_")):
        keys = {} if key is None else _keys(key, side, "__on")[0]
        stream = side.stream.with_columns(**keys) if keys else side.stream
        names = [*keys, *(name for name in (PARTITION,) if name in stream.columns)]
        if prefixed:
            stream = stream.select(*names, **{prefix + name: name for name in side.columns})
        made.append((stream, names))
    on = made[0][1] or None
    return replace(left, stream=made[0][0]), replace(right, stream=made[1][0]), on


def _join(node: Fields, inputs: dict[str, Node]) -> Node:
    left, right, on = _pair(node, inputs, prefixed=True)
    joined = left.stream.join(right.stream, how="cross") if on is None else left.stream.join(right.stream, on)
    return _result(node["result"], joined, left, right)


def _result(source: str, joined: wb.Stream, left: Node, right: Node) -> Node:
    fields = shape(source, l=left.fields, r=right.fields)
    return select(joined, source, fields, l=from_row(left.fields, "l_"), r=from_row(right.fields, "r_"))


def _outer_join(node: Fields, inputs: dict[str, Node]) -> Node:
    """
    Left and full outer joins: what has no partner is computed by an expression of its own.

    Expressions are told apart by the sides that they use; `post` is computed of all that comes out.
    """
    left, right, on = _pair(node, inputs, prefixed=True)
    full = node["op"].startswith("full")
    post = node.get("post")
    both = _of_sides(node, "l", "r")
    parts = [_result(both, left.stream.join(right.stream, on), left, right)]
    sides = [("l", left, right)] + ([("r", right, left)] if full else [])
    for name, kept, other in sides:
        source, lonely = _of_sides(node, name), kept.stream.where_not_exists(other.stream, on)
        made = shape(source, **{name: kept.fields})
        parts.append(select(lonely, source, made, **{name: from_row(kept.fields, name + "_")}))
    joined = replace(parts[0], stream=parts[0].stream.union(*(part.stream for part in parts[1:])))
    if post is None:
        return joined
    return select(joined.stream, post, shape(post, e=joined.fields), e=from_row(joined.fields))


def _of_sides(node: Fields, *uses: str) -> str:
    """Find the one expression that uses exactly these of the sides `l` and `r`."""
    given = {name: value for name, value in node.unread().items() if isinstance(value, str)}
    found = [name for name, source in given.items() if _names(source) & {"l", "r"} == set(uses)]
    if len(found) != 1:
        raise UnknownFieldError(f"{node['op']} has {len(found)} expressions over {' and '.join(uses)}")
    return str(node[found[0]])


def _narrowed(name: str) -> Callable[[Fields, dict[str, Node]], Node]:
    """Operators that keep rows of the left side for as long as the right side lets them."""

    def narrow(node: Fields, inputs: dict[str, Node]) -> Node:
        left, right, on = _pair(node, inputs, prefixed=False)
        stream = getattr(left.stream, name)(right.stream, on=on)
        return replace(left, stream=stream.drop(*(name for name in on or () if name != PARTITION)))

    return narrow


def _union(node: Fields, inputs: dict[str, Node]) -> Node:
    sides = node["srcs"] if "srcs" in node else [node["left"], node["right"]]
    first, *rest = [apply(side, inputs) for side in sides]
    return replace(first, stream=first.stream.union(*(side.stream for side in rest)))


_OPERATORS: dict[str, Callable[[Fields, dict[str, Node]], Node]] = {
    "where": _where,
    "select": _select,
    "select_many": _select_many,
    "alter_duration": _alter_duration,
    "alter_lifetime": _alter_lifetime,
    "shift": _shift,
    "hopping_lifetime": _hopping,
    "hopping": _hopping,
    "tumbling_lifetime": _hopping,
    "tumbling": _hopping,
    "session": _session,
    "chop": _chop,
    "clip": _clip,
    "clip_constant": _clip,
    "clip_const": _clip,
    "clip_duration": _clip,
    "clip_join": _narrowed("clip"),
    "point_at_end": _point_at_end,
    "extend": _extend,
    "extend_lifetime": _extend,
    "stitch": _stitch,
    "quantize": _quantize,
    "quantize_lifetime": _quantize,
    "progressive_quantize": _quantize,
    "progressive_quantize_lifetime": _quantize,
    "repetitive_hopping_lifetime": _repetitive_hopping,
    "repetitive_hopping": _repetitive_hopping,
    "set_property": _asserted,
    "detect": _detect,
    "detect_afa": _detect,
    "publish": _source,
    "followed_by": _followed_by,
    "followed_by_immediate": _followed_by,
    "consecutive_pairs": _consecutive_pairs,
    "sessionize": _sessionize,
    "distinct": _distinct,
    "aggregate": _aggregate,
    "group_apply": _group_apply,
    "group_aggregate": _group_aggregate,
    "join": _join,
    "cross_join": _join,
    "left_outer_join": _outer_join,
    "left_outer": _outer_join,
    "full_outer_join": _outer_join,
    "full_outer": _outer_join,
    "where_exists": _narrowed("where_exists"),
    "where_not_exists": _narrowed("where_not_exists"),
    "union": _union,
    # A matter of egress: the runner asks for intervals.
    "coalesce": _source,
    # Trill's shortcuts: an aggregate as an operator.
    **dict.fromkeys(("count", *_AGGREGATES, *_PERCENTILES, *_BY, *_TOP), _aggregate),
}


def known(pipeline: Any) -> str | None:
    """Name the first operator or aggregate of a pipeline that has no translation, if any."""
    if isinstance(pipeline, list):
        return next(filter(None, map(known, pipeline)), None)
    if not isinstance(pipeline, dict):
        return None
    if "op" in pipeline and pipeline["op"] not in _OPERATORS:
        return pipeline["op"]
    is_element = "el" in pipeline or "list" in pipeline
    if (
        "agg" in pipeline
        and not is_element
        and pipeline["agg"] not in (*_AGGREGATES, *_PERCENTILES, *_BY, *_TOP, "count")
    ):
        return pipeline["agg"]
    return next(filter(None, map(known, pipeline.values())), None)
