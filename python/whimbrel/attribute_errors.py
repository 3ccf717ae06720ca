"""Messages for attributes that do not exist: what other libraries mean by the name, or the nearest name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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


def message(
    what: str,
    name: str,
    existing: Iterable[str],
    form: str = ".{}",
    synonyms: Mapping[str, str] | None = None,
) -> str:
    """Write that there is no attribute of this name, and which one may be meant."""
    from difflib import get_close_matches

    instead = (synonyms or {}).get(name.lower())
    if instead is not None:
        return f"{what} has no attribute {name!r}; use {instead}"
    public = [each for each in existing if not each.startswith("_")]
    near = get_close_matches(name, public, 1)
    if near:
        return f"{what} has no attribute {name!r}; did you mean {form.format(near[0])}?"
    return f"{what} has no attribute {name!r}"


def for_module(name: str, existing: Iterable[str]) -> str:
    """Write that the package has no such name."""
    return message("the module whimbrel", name, existing, "wb.{}", _MODULE)


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
    what = "a ShardedStream"
    if name.lower() in ("group_by", "groupby"):
        grouped = ".rekey(key).query(lambda q: q.aggregate(n=wb.count()))"
        return f"{what} has no attribute {name!r}; use {grouped}"
    if name in of_stream:
        return f"{what} has no attribute {name!r}; use .query(lambda q: q.{name}(…))"
    method = _STREAM.get(name.lower(), "")
    if method.startswith(".") and name.lower() != "query":
        return f"{what} has no attribute {name!r}; use .query(lambda q: q{method})"
    return message(what, name, existing)


def for_table(name: str, existing: Iterable[str], columns: Iterable[str]) -> str:
    """Write that a table has no such method; a column may be meant."""
    if name in columns:
        return f"a Table has no attribute {name!r}; use table[{name!r}] for the values of the column"
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
