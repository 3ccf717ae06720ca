"""Messages for attributes that do not exist: what other libraries mean by the name, or the nearest name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from inspect import signature
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

_STREAM = {
    "filter": ".where(lambda e: …)",
    "query": "this stream itself: it is inside a query already",
    "map": ".select(…)",
    "project": ".select(…)",
    "with_column": ".with_columns(…)",
    "assign": ".with_columns(…)",
    "mutate": ".with_columns(…)",
    "flat_map": ".select_many(…)",
    "explode": ".select_many(…)",
    "unnest": ".select_many(…)",
    "group_by": ".group_apply(key, lambda g: g.aggregate(n=wb.count()))",
    "groupby": ".group_apply(key, lambda g: g.aggregate(n=wb.count()))",
    "agg": ".aggregate(name=wb.sum(…))",
    "count": ".aggregate(n=wb.count())",
    "sum": '.aggregate(total=wb.sum("column"))',
    "order_by": ".sort(…)",
    "orderby": ".sort(…)",
    "sort_by": ".sort(…)",
    "sort_values": ".sort(…)",
    "head": ".limit(n)",
    "take": ".limit(n)",
    "merge": ".join(…)",
    "concat": ".union(…)",
    "union_all": ".union(…)",
    "unique": ".distinct()",
    "drop_duplicates": ".distinct()",
    "window": ".tumbling(…), .hopping(…), .sliding(…) or .session(…)",
    "rekey": ".group_apply(key, lambda g: …), or .rekey(…) on the sharded stream, before .query(…)",
    "redistribute": ".redistribute(…) on the sharded stream, outside of .query(…)",
}
"""What other libraries call the methods of `Stream`."""

_TABLE = {
    "rows": ".to_rows()",
    "to_pylist": ".to_rows()",
    "to_list": ".to_rows()",
    "fetchall": ".to_rows()",
    "df": ".to_pandas()",
    "pl": ".to_polars()",
    "arrow": ".to_arrow()",
    "shape": ".num_rows and .columns",
    "height": ".num_rows",
    "num_columns": "len(table.columns)",
    "column_names": ".columns",
    "names": ".columns",
    "collect": "the table itself: it is a result already",
    "slice": ".head(n)",
    "limit": ".head(n)",
}

_QUESTIONS = ("where", "select", "sort", "join", "with_columns", "aggregate", "distinct", "union")
"""Methods of streams that are looked for on tables."""

_EXPRESSION = {
    "is_in": ".isin([…])",
    "in_": ".isin([…])",
    "isnull": ".is_null()",
    "isna": ".is_null()",
    "notnull": ".is_not_null()",
    "notna": ".is_not_null()",
    "fillna": ".fill_null(value)",
    "astype": '.cast("int64")',
    "label": '.alias("name")',
    "as_": '.alias("name")',
    "rename": '.alias("name")',
    "starts_with": ".startswith(prefix)",
    "ends_with": ".endswith(suffix)",
    "strip": "wb.fn.btrim(text)",
    "lstrip": "wb.fn.ltrim(text)",
    "rstrip": "wb.fn.rtrim(text)",
    "title": "wb.fn.initcap(text)",
    "split": "wb.fn.split_part(text, separator, n)",
    "sum": "wb.sum(…) in .aggregate(…)",
    "mean": "wb.mean(…) in .aggregate(…)",
    "count": "wb.count() in .aggregate(…)",
    "min": "wb.min(…) in .aggregate(…)",
    "max": "wb.max(…) in .aggregate(…)",
}

_MODULE = {
    "read_csv": "wb.read(path)",
    "read_parquet": "wb.read(path)",
    "read_json": "wb.read(path)",
    "scan_parquet": "wb.read(path)",
    "scan_csv": "wb.read(path)",
    "connect": "wb.sql(text)",
    "execute": "wb.sql(text)",
    "query": "wb.sql(text)",
    "column": "wb.col(name)",
    "literal": "wb.lit(value)",
    "average": "wb.avg(…)",
    "dataframe": "wb.from_rows(rows)",
    "from_dicts": "wb.from_rows(rows)",
    "from_records": "wb.from_rows(rows)",
    "from_csv": "wb.read(path)",
    "functions": "wb.fn",
    "case": "wb.when(condition).then(value).otherwise(value)",
}


_AGGREGATE = {
    "filter": 'the argument where=, as in wb.sum("price", where=wb.col("price") > 0)',
    "where": 'the argument where=, as in wb.sum("price", where=wb.col("price") > 0)',
    "alias": ".aggregate(name=wb.sum(…)): the argument is the name",
    "label": ".aggregate(name=wb.sum(…)): the argument is the name",
}

_SUBSCRIPTION = {
    "join": ".wait()",
    "result": ".wait()",
    "cancel": ".stop()",
    "close": ".stop()",
    "rows": "what is called for each row, or .maintain() and its .snapshot()",
}

_VIEW = dict.fromkeys(("rows", "to_rows", "collect", "get", "read", "to_dicts"), ".snapshot()")

_DATABASE = {
    "query": ".execute(sql, …) or .prepare(sql)",
    "sql": ".execute(sql, …) or .prepare(sql)",
    "run": ".execute(sql, …)",
    "cursor": ".execute(sql, …) or .prepare(sql)",
    "commit": "nothing: each statement is written when its call returns",
}

_QUERY = dict.fromkeys(("execute", "run", "call", "fetchall"), "a call of it, query(…)")

_ROWS = dict.fromkeys(("rows", "to_rows", "fetchall", "to_list"), "the page itself, a sequence of rows")

_BOUNDED = {"connect": "wb.bounded.open(address)", "database": "wb.bounded.open(address)"}

_CLUSTER = {"open": "wb.cluster.connect(address)"}


class NearNames:
    """A class whose instances say which name is meant instead of one that they have not."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(for_instance(self, name))


def message(
    what: str,
    name: str,
    existing: Iterable[str],
    form: str = ".{}",
    synonyms: Mapping[str, str] | None = None,
) -> str:
    """Write that there is no attribute of this name, and which one may be meant."""
    from difflib import get_close_matches

    synonyms = synonyms or {}
    instead = synonyms.get(name.lower())
    if instead is not None:
        return f"{what} has no attribute {name!r}; use {instead}"
    public = [each for each in existing if not each.startswith("_")]
    near = get_close_matches(name, public, 1) or get_close_matches(name, synonyms, 1)
    if near and near[0] not in public:
        return f"{what} has no attribute {name!r}; use {synonyms[near[0]]}"
    if near:
        return f"{what} has no attribute {name!r}; did you mean {form.format(near[0])}?"
    return f"{what} has no attribute {name!r}"


def for_module(name: str, existing: Iterable[str], functions: Mapping[str, Iterable[str]]) -> str:
    """Write that the package has no such name; a function of `fn` or `agg` may be meant."""
    group = next((group for group, names in functions.items() if name in names), None)
    if group is not None and name not in _MODULE:
        return f"the module whimbrel has no attribute {name!r}; use wb.{group}.{name}(…)"
    return message("the module whimbrel", name, existing, "wb.{}", _MODULE)


def for_submodule(module: ModuleType, name: str) -> str:
    """Write that a module of the package has no such name."""
    if name.startswith("_"):
        return f"module {module.__name__!r} has no attribute {name!r}"
    short = module.__name__.rpartition(".")[2]
    synonyms = {"bounded": _BOUNDED, "cluster": _CLUSTER}.get(short)
    public = getattr(module, "__all__", dir(module))
    return message(f"the module {module.__name__}", name, public, f"wb.{short}.{{}}", synonyms)


def for_instance(instance: object, name: str) -> str:
    """Write that an instance of one of our classes has no such attribute."""
    kind = type(instance)
    what = f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}"
    # A property whose own code fails with an AttributeError comes here, too.
    if name.startswith("_") or name in dir(kind):
        return f"{what} has no attribute {name!r}"
    named = [_SYNONYMS[base.__name__] for base in kind.__mro__ if base.__name__ in _SYNONYMS]
    synonyms = next((each for each in named if name.lower() in each), None)
    return message(what, name, dir(instance), synonyms=synonyms)


_SYNONYMS = {
    "Aggregate": _AGGREGATE,
    "Subscription": _SUBSCRIPTION,
    "View": _VIEW,
    "Database": _DATABASE,
    "AsyncDatabase": _DATABASE,
    "Query": _QUERY,
    "AsyncQuery": _QUERY,
    "Rows": _ROWS,
}
"""What other libraries call the attributes of our classes."""


def near_arguments(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that it says which argument is meant instead of one that it has not."""
    names = [name for name in signature(function).parameters if name != "self"]

    @wraps(function)
    def checked(*arguments: Any, **named: Any) -> Any:
        for name in named:
            if name not in names:
                raise TypeError(no_argument(function, name, names))
        return function(*arguments, **named)

    return checked


def no_argument(function: Callable[..., Any], name: str, existing: list[str]) -> str:
    """Write that a function has no such argument; which one may be meant, or which there are."""
    from difflib import get_close_matches

    near = get_close_matches(name, existing, 1, cutoff=0.7)
    what = function.__qualname__.removesuffix(".__init__")
    hint = f"did you mean {near[0]}=?" if near else f"there are {', '.join(f'{each}=' for each in existing)}"
    return f"{what} has no argument {name}=; {hint}"


def for_stream(name: str, existing: Iterable[str]) -> str:
    """Write that a stream has no such method."""
    if name in ("collect", "show", "to_arrow", "to_polars", "to_pandas", "to_rows", "subscribe"):
        return (
            f"a Stream has no attribute {name!r}: it is what the lambda of .query(…) works on; "
            f"run the result, stream.query(lambda q: …).{name}()"
        )
    return message("a Stream", name, existing, synonyms=_STREAM)


def for_sharded_stream(name: str, existing: Iterable[str], of_stream: Iterable[str]) -> str:
    """Write that a sharded stream has no such method; that of its shards may be meant."""
    from difflib import get_close_matches

    what = "a ShardedStream"
    of_stream = list(of_stream)
    if name.lower() in ("group_by", "groupby"):
        grouped = ".rekey(key).query(lambda q: q.aggregate(n=wb.count()))"
        return f"{what} has no attribute {name!r}; use {grouped}"
    if name in of_stream:
        return f"{what} has no attribute {name!r}; use .query(lambda q: q.{name}(…))"
    method = _STREAM.get(name.lower(), "")
    if method.startswith(".") and name.lower() != "query":
        return f"{what} has no attribute {name!r}; use .query(lambda q: q{method})"
    own = list(existing)
    public = sorted(each for each in {*own, *of_stream} if not each.startswith("_"))
    near = get_close_matches(name, public, 1)
    if near and near[0] not in own:
        return f"{what} has no attribute {name!r}; did you mean .query(lambda q: q.{near[0]}(…))?"
    inner = {word: f".query(lambda q: q{call})" for word, call in _STREAM.items() if call.startswith(".")}
    return message(what, name, own, synonyms={word: inner[word] for word in inner if word != "query"})


def for_table(name: str, existing: Iterable[str], columns: Iterable[str]) -> str:
    """Write that a table has no such method; a column may be meant."""
    if name in columns:
        return f"a Table has no attribute {name!r}; use table[{name!r}] for the values of the column"
    method = _STREAM.get(name.lower(), f".{name}(…)" if name in _QUESTIONS else "")
    if name.lower() not in _TABLE and method.startswith("."):
        again = f"wb.from_arrow(table).query(lambda q: q{method})"
        return f"a Table has no attribute {name!r}: it is a result; ask its query for that, or {again}"
    return message("a Table", name, existing, synonyms=_TABLE)


def for_expression(name: str, existing: Iterable[str], functions: Iterable[str]) -> str:
    """Write what to use instead of a method that columns have not."""
    from difflib import get_close_matches

    functions = list(functions)
    instead = _EXPRESSION.get(name.lower())
    if instead is not None:
        return f"use {instead}"
    if name in functions:
        return f"use the function wb.fn.{name}(…)"
    near = get_close_matches(name, [each for each in existing if not each.startswith("_")], 1)
    if near:
        return f"did you mean .{near[0]}?"
    near = get_close_matches(name, functions, 1)
    return f"look for the function among wb.fn, e.g. wb.fn.{near[0]}" if near else "look for it among wb.fn"
