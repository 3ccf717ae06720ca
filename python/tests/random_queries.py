"""Random tables and random queries over them, in the SQL that Whimbrel and DuckDB share.

Everything follows from a seed. What the two understand differently is not generated, because it is a
matter of taste and not of being right: division of whole numbers, overflow, and nulls in an order by that
does not say where they go. Floats are multiples of a quarter, infinite or no numbers, so that sums do not
depend on an order. Some values of each type are near its limits.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from random import Random

import pyarrow as pa

TEXTS = ["", "a", "b", "ab", "A", "abc", "ünï", "x y", "%", "_", "zzz"]
DAY = datetime.date(2024, 2, 27)

TYPES: dict[str, pa.DataType] = {
    "int": pa.int64(),
    "float": pa.float64(),
    "decimal": pa.decimal128(10, 2),
    "text": pa.string(),
    "date": pa.date32(),
    "bool": pa.bool_(),
}

# Rare values: they are drawn now and then. Sums of the numbers are still exact.
EXTREMES: dict[str, list[object]] = {
    "int": [2**31, -(2**31), 2**53 + 1, -(2**53) - 1],
    "float": [0.0, -0.0, float("nan"), -float("nan"), float("inf"), float("-inf"), -0.25],
    "decimal": [Decimal("99999999.99"), Decimal("-99999999.99"), Decimal("0.00")],
    "text": ["", " ", "NaN", "null", "\u00e9", "e\u0301", "a" * 100],
    "date": [datetime.date(1, 1, 1), datetime.date(1582, 10, 15), datetime.date(9999, 12, 30)],
    "bool": [True, False],
}

COLUMNS = {
    "id": "int",
    "k": "int",
    "i": "int",
    "x": "float",
    "d": "decimal",
    "s": "text",
    "t": "date",
    "b": "bool",
}


@dataclass(frozen=True)
class Column:
    """A column that an expression may use."""

    name: str
    kind: str


def value(random: Random, kind: str) -> object:
    """Draw a value, from few: equal ones, and ones that meet in joins, have to be common."""
    if random.random() < 0.06:
        return random.choice(EXTREMES[kind])
    draws: dict[str, Callable[[], object]] = {
        "int": lambda: random.randint(-3, 6),
        "float": lambda: float("nan") if random.random() < 0.1 else random.randint(1, 12) / 4,
        "decimal": lambda: Decimal(random.randint(-300, 300)).scaleb(-2),
        "text": lambda: random.choice(TEXTS),
        "date": lambda: DAY + datetime.timedelta(days=random.randint(0, 5)),
        "bool": lambda: random.random() < 0.5,
    }
    return draws[kind]()


def table(random: Random, rows: int) -> pa.Table:
    """Draw a table; `id` is unique and never null."""
    nulls = random.choice([0.0, 0.2, 0.5])
    columns = {"id": pa.array(range(rows), pa.int64())}
    for name, kind in COLUMNS.items():
        if name != "id":
            values = [None if random.random() < nulls else value(random, kind) for _ in range(rows)]
            columns[name] = pa.array(values, TYPES[kind])
    return pa.table(columns)


def tables(seed: int) -> dict[str, pa.Table]:
    """Draw two to four tables; often one is empty."""
    random = Random(f"tables {seed}")
    names = ["t1", "t2", "t3", "t4"][: random.randint(2, 4)]
    return {name: table(random, random.choice([0, 1, 7, 20, 40])) for name in names}


class Query:
    """Draws a query over tables that have the columns of `COLUMNS`."""

    def __init__(self, random: Random, names: list[str]) -> None:
        self.random = random
        self.names = names
        self.aliases = 0

    def alias(self) -> str:
        """Make a name that the query does not have yet."""
        self.aliases += 1
        return f"q{self.aliases}"

    def chance(self, probability: float) -> bool:
        """Toss a coin."""
        return self.random.random() < probability

    # Expressions.

    def literal(self, kind: str) -> str:
        """Draw a literal."""
        drawn = value(self.random, kind)
        if self.chance(0.08):
            return f"cast(null as {SQL_TYPES[kind]})"
        return {
            "int": lambda: str(drawn),
            "float": lambda: f"cast({self.random.randint(1, 12) / 4} as double)",
            "decimal": lambda: f"cast({drawn} as decimal(10, 2))",
            "text": lambda: f"'{drawn}'",
            "date": lambda: f"date '{drawn}'",
            "bool": lambda: str(drawn).lower(),
        }[kind]()

    def leaf(self, columns: list[Column], kind: str) -> str:
        """Draw a column of a kind, or a literal."""
        fitting = [column.name for column in columns if column.kind == kind]
        return self.random.choice(fitting) if fitting and self.chance(0.8) else self.literal(kind)

    def expression(self, columns: list[Column], kind: str, depth: int) -> str:
        """Draw an expression of a kind."""
        if depth <= 0 or self.chance(0.35):
            return self.leaf(columns, kind)
        if kind == "bool":
            return self.condition(columns, depth)

        def inner(kind: str = kind) -> str:
            return self.expression(columns, kind, depth - 1)

        forms: list[Callable[[], str]] = [
            lambda: f"case when {inner('bool')} then {inner()} else {inner()} end",
            lambda: f"coalesce({inner()}, {inner()})",
            lambda: f"nullif({inner()}, {inner()})",
        ]
        if kind == "int":
            forms += [
                lambda: f"({inner()} + {inner()})",
                lambda: f"({inner()} - {inner()})",
                lambda: f"({inner()} * {self.random.randint(-2, 3)})",
                lambda: f"({inner()} % {self.random.randint(2, 5)})",
                lambda: f"abs({inner()})",
                lambda: f"length({inner('text')})",
                lambda: f"extract(day from {inner('date')})",
                lambda: f"cast({inner('bool')} as bigint)",
            ]
        elif kind == "float":
            forms += [lambda: f"({inner()} + {inner()})", lambda: f"cast({inner('int')} as double)"]
        elif kind == "decimal":
            forms += [lambda: f"({inner()} + {inner()})", lambda: f"({inner()} - {inner()})"]
        elif kind == "text":
            forms += [
                lambda: f"upper({inner()})",
                lambda: f"({inner()} || {inner()})",
                lambda: f"substr({inner()}, {self.random.randint(1, 3)}, {self.random.randint(0, 2)})",
                lambda: f"cast({inner('int')} as varchar)",
                lambda: f"trim({inner()})",
            ]
        return self.random.choice(forms)()

    def condition(self, columns: list[Column], depth: int) -> str:
        """Draw a condition."""
        kind = self.random.choice(["int", "int", "float", "decimal", "text", "date"])

        def side() -> str:
            return self.expression(columns, kind, depth - 1)

        def inner() -> str:
            return self.expression(columns, "bool", depth - 1)

        operator = self.random.choice(["=", "=", "<>", "<", "<=", ">", ">="])
        forms: list[Callable[[], str]] = [
            lambda: f"({side()} {operator} {side()})",
            lambda: f"({side()} {operator} {side()})",
            lambda: f"({inner()} and {inner()})",
            lambda: f"({inner()} or {inner()})",
            lambda: f"(not {inner()})",
            lambda: f"({side()} is {self.random.choice(['', 'not '])}null)",
            lambda: f"({side()} is {self.random.choice(['', 'not '])}distinct from {side()})",
            lambda: f"({side()} between {side()} and {side()})",
            lambda: f"({side()} {self.random.choice(['', 'not '])}in ({side()}, {side()}, {side()}))",
            lambda: f"({self.expression(columns, 'text', depth - 1)} like '{self.random.choice(PATTERNS)}')",
        ]
        return self.random.choice(forms)()

    def subquery_condition(self, columns: list[Column]) -> str:
        """Draw a condition with a subquery, which may know the columns outside of it."""
        name, alias = self.random.choice(self.names), self.alias()
        inside = [Column(f"{alias}.{column}", kind) for column, kind in COLUMNS.items()]
        outside = self.random.choice([column.name for column in columns if column.kind == "int"])
        correlated = (
            f"{alias}.k {self.random.choice(['=', '=', '<'])} {outside}" if self.chance(0.6) else "true"
        )
        where = f"from {name} {alias} where {correlated} and {self.condition(inside, 1)}"
        negated = self.random.choice(["", "not "])
        scalar = self.random.choice(["max", "min", "count", "sum"])
        forms = [
            f"({negated}exists (select 1 {where}))",
            f"({outside} {negated}in (select {alias}.i {where}))",
            f"({outside} {self.random.choice(['=', '<', '>='])} (select {scalar}({alias}.i) {where}))",
        ]
        return self.random.choice(forms)

    def where(self, columns: list[Column]) -> str:
        """Draw a where clause, or none."""
        if self.chance(0.3):
            return ""
        conditions = [self.condition(columns, 2)]
        if self.chance(0.35) and any(column.kind == "int" for column in columns):
            subquery = self.subquery_condition(columns)
            if self.chance(0.3):
                subquery = f"({self.random.choice(['', 'not '])}{subquery} or {self.condition(columns, 1)})"
            conditions.append(subquery)
        return f" where {' and '.join(conditions)}"

    # Relations.

    def source(self, depth: int) -> tuple[str, list[Column]]:
        """Draw a table or a subquery, with its columns."""
        alias = self.alias()
        if depth > 0 and self.chance(0.3):
            sql, kinds = self.body(depth - 1)
            return f"({sql}) as {alias}", [Column(f"{alias}.c{i}", kind) for i, kind in enumerate(kinds)]
        columns = [Column(f"{alias}.{name}", kind) for name, kind in COLUMNS.items()]
        return f"{self.random.choice(self.names)} as {alias}", columns

    def relation(self, depth: int) -> tuple[str, list[Column]]:
        """Draw a from clause: one relation, or a tree of joins."""
        sql, columns = self.source(depth)
        for _ in range(self.random.choice([0, 0, 1, 1, 2])):
            right, more = self.source(depth - 1)
            kind = self.random.choice(["join", "join", "left join", "right join", "full join", "cross join"])
            sql = f"{sql} {kind} {right}"
            if kind != "cross join":
                sql = f"{sql} on {self.join_condition(columns, more, kind)}"
            columns = columns + more
        return sql, columns

    def join_condition(self, left: list[Column], right: list[Column], join: str) -> str:
        """Draw a condition; one of two equal columns at least, which a full join needs."""
        pairs = [
            (a, b) for a in left for b in right if a.kind == b.kind and a.kind in ("int", "text", "date")
        ]
        if not pairs:
            return "true" if join != "full join" else "1 = 1"
        a, b = self.random.choice(pairs)
        condition = f"{a.name} = {b.name}"
        if join != "full join" and self.chance(0.3):
            condition += f" and {self.condition(left + right, 1)}"
        return condition

    # Queries.

    def kinds(self) -> list[str]:
        """Draw how many columns there are, and what they hold."""
        return [self.random.choice(list(TYPES)) for _ in range(self.random.randint(1, 3))]

    def body(self, depth: int, kinds: list[str] | None = None) -> tuple[str, list[str]]:
        """Draw a query without an order; its columns are `c0`, `c1`, …"""
        if kinds is None and depth > 0 and self.chance(0.2):
            kinds = self.kinds()
            operator = self.random.choice(["union", "union all", "intersect", "except"])
            left, right = (self.body(depth - 1, kinds)[0] for _ in range(2))
            return f"select * from ({left} {operator} {right}) as {self.alias()}", kinds
        draw = self.random.choice([self.plain, self.plain, self.grouped, self.windowed])
        return draw(depth, kinds)

    def plain(self, depth: int, kinds: list[str] | None) -> tuple[str, list[str]]:
        """Draw a query without aggregates."""
        relation, columns = self.relation(depth)
        kinds = kinds or self.kinds()
        outside = any(column.kind == "int" for column in columns)
        selected = ", ".join(
            self.subquery_condition(columns) + f" as c{i}"
            if kind == "bool" and outside and self.chance(0.2)
            else f"{self.expression(columns, kind, 2)} as c{i}"
            for i, kind in enumerate(kinds)
        )
        distinct = "distinct " if self.chance(0.2) else ""
        return f"select {distinct}{selected} from {relation}{self.where(columns)}", kinds

    def aggregate(self, columns: list[Column], kind: str) -> str:
        """Draw an aggregate that gives a kind."""
        inner = self.expression(columns, kind, 1)
        any_kind = self.expression(columns, self.random.choice(list(TYPES)), 1)
        forms = {
            "int": ["count(*)", f"count({any_kind})", f"count(distinct {any_kind})", f"sum({inner})"],
            "float": [f"sum({inner})", f"avg({inner})", f"avg({self.expression(columns, 'int', 1)})"],
            "decimal": [f"sum({inner})", f"sum(distinct {inner})"],
            "bool": [f"bool_and({inner})", f"bool_or({inner})"],
        }
        # An average in the middle of others would be a matter of digits.
        extremes = [f"min({inner})", f"max({inner})"] if kind != "bool" else []
        drawn = self.random.choice(forms.get(kind, []) + extremes)
        if self.chance(0.15):
            drawn += f" filter (where {self.condition(columns, 1)})"
        return drawn

    def grouped(self, depth: int, kinds: list[str] | None) -> tuple[str, list[str]]:
        """Draw a query with aggregates, with groups or without."""
        relation, columns = self.relation(depth)
        kinds = kinds or self.kinds()
        keys = self.random.randint(0, len(kinds) - 1)
        selected, groups = [], []
        for i, kind in enumerate(kinds):
            if i < keys:
                key = self.expression(columns, kind, 1)
                groups.append(str(i + 1))
                selected.append(f"{key} as c{i}")
            else:
                selected.append(f"{self.aggregate(columns, kind)} as c{i}")
        sql = f"select {', '.join(selected)} from {relation}{self.where(columns)}"
        if groups:
            sql += f" group by {', '.join(groups)}"
            if self.chance(0.3):
                sql += f" having {self.aggregate(columns, 'int')} {self.random.choice(['>', '<='])} 2"
        return sql, kinds

    def windowed(self, depth: int, kinds: list[str] | None) -> tuple[str, list[str]]:
        """Draw a query with window functions over one table, whose `id` makes every order total."""
        name, alias = self.random.choice(self.names), self.alias()
        columns = [Column(f"{alias}.{column}", kind) for column, kind in COLUMNS.items()]
        kinds = kinds or self.kinds()
        selected = []
        for i, kind in enumerate(kinds):
            calls = {"int": ["row_number()", "count(*)", f"count({alias}.x)", "rank()"]}
            inner = self.leaf(columns, kind)
            calls.setdefault(kind, []).extend(
                [f"first_value({inner})", f"last_value({inner})", f"lag({inner})", f"lead({inner})"]
            )
            if kind in ("int", "decimal"):
                calls[kind].append(f"sum({inner})")
            if kind not in ("bool", "float"):
                calls[kind] += [f"min({inner})", f"max({inner})"]
            partition = f"partition by {alias}.{self.random.choice('kstb')} " if self.chance(0.7) else ""
            direction = self.random.choice(["asc", "desc"])
            selected.append(
                f"{self.random.choice(calls[kind])} over "
                f"({partition}order by {alias}.{self.random.choice('ist')} {direction} nulls last, "
                f"{alias}.id) as c{i}"
            )
        return f"select {', '.join(selected)} from {name} as {alias}{self.where(columns)}", kinds

    def whole(self) -> str:
        """Draw a query; what is cut off by a limit is cut in a total order."""
        sql, kinds = self.body(2)
        if self.chance(0.25):
            with_name = self.alias()
            sql = f"with {with_name} as ({sql}) select * from {with_name}"
        if self.chance(0.35):
            ways = [f"{i + 1} {self.random.choice(['asc', 'desc'])} nulls last" for i in range(len(kinds))]
            sql = f"select * from ({sql}) as {self.alias()} order by {', '.join(ways)}"
            if self.chance(0.7):
                sql += f" limit {self.random.randint(0, 10)}"
                sql += f" offset {self.random.randint(1, 5)}" if self.chance(0.3) else ""
        return sql


SQL_TYPES = {
    "int": "bigint",
    "float": "double",
    "decimal": "decimal(10, 2)",
    "text": "varchar",
    "date": "date",
    "bool": "boolean",
}
PATTERNS = ["a%", "%b%", "_", "", "%", "a_c", "%ï"]


def queries(seed: int, names: list[str], count: int) -> list[str]:
    """Draw queries over these tables."""
    return [Query(Random(f"query {seed} {i}"), names).whole() for i in range(count)]


def limited(seed: int, names: list[str], count: int) -> list[tuple[str, int, int, str]]:
    """Draw queries, each with a limit, an offset, and the query with both but without an order.

    Which rows come is not said, but how many, and that they are rows of the query.
    """
    random = Random(f"limited {seed}")
    drawn = []
    for _ in range(count):
        query = Query(random, names)
        kinds = query.kinds()
        parts = [query.body(1, kinds)[0] for _ in range(random.choice([1, 2, 2, 3]))]
        sql = " union all ".join(parts)
        limit, offset = random.randint(0, 12), random.choice([0, 0, random.randint(1, 9)])
        cut = f"{sql} limit {limit}" + (f" offset {offset}" if offset else "")
        name = query.alias()
        cut = random.choice(
            [
                cut,
                f"select * from ({cut}) as {name}",
                f"with {name} as ({cut}) select * from {name}",
                f"select * from ({cut}) as {name} where true",
            ]
        )
        drawn.append((sql, limit, offset, cut))
    return drawn


def wide(seed: int, names: list[str]) -> list[str]:
    """Draw queries that are long or deep: hundreds of terms, operands, values, columns, unions, levels."""
    random = Random(f"wide {seed}")
    query = Query(random, names)
    alias = query.alias()
    columns = [Column(f"{alias}.{column}", kind) for column, kind in COLUMNS.items()]
    table = f"{random.choice(names)} as {alias}"

    def many(least: int, most: int, draw: Callable[[], str], glue: str) -> str:
        return glue.join(draw() for _ in range(random.randint(least, most)))

    def condition() -> str:
        return query.condition(columns, 1)

    def number() -> str:
        return query.leaf(columns, "int")

    nested = number()
    for _ in range(random.randint(20, 60)):
        nested = f"({nested} {random.choice('+-')} {number()})"
    terms = many(100, 400, condition, random.choice([" and ", " or "]))
    rows = many(100, 300, lambda: f"({random.randint(-9, 9)}, '{random.choice(TEXTS)}')", ", ")
    listed = many(300, 900, lambda: str(random.randint(-99, 99)), ", ")
    return [
        f"select count(*) from {table} where {terms}",
        f"select {many(100, 300, number, ' + ')} as c0 from {table}",
        f"select {nested} as c0 from {table}",
        f"select {alias}.id from {table} where {alias}.i in ({listed})",
        f"select {alias}.id from {table} where {alias}.i not in ({listed})",
        f"select a, b, count(*) from (values {rows}) as v (a, b) group by a, b",
        "select " + ", ".join(f"sum({number()} + {i}) as c{i}" for i in range(100)) + f" from {table}",
        many(20, 60, lambda: f"select {number()} from {table}", " union all ") + " limit 17",
    ]


# Clauses of a query, by where they stand: nothing, or one of those that a parser knows.
CLAUSES: dict[str, list[str]] = {
    "distinct": ["", "distinct ", "distinct on (k) ", "all ", "top 2 "],
    "star": [
        "*",
        "* exclude (x)",
        "* replace (1 as i)",
        "* replace (1 as nowhere)",
        "* rename (i as j)",
        "* ilike 'i%'",
        "t1.*",
        "id, k",
    ],
    "table": [
        "t1",
        "t1 tablesample 50 percent",
        "t1 using sample 3",
        "t1 with ordinality",
        "t1 for update",
        "t1 natural join t2",
        "t1 positional join t2",
        "t1 join t2",
        "t1 semi join t2 using (id)",
        "t1 left join t2 using (id)",
    ],
    "where": ["", " where i > 0"],
    "end": [
        "",
        " limit 3",
        " fetch first 3 rows only",
        " fetch first 3 rows with ties",
        " order by id limit 3",
        " order by all",
        " limit 3 by k",
        " qualify row_number() over (order by id) = 1",
        " for share",
        " format json",
        " settings a = 1",
    ],
}


def clauses(seed: int, count: int) -> list[str]:
    """Draw queries with few kinds of clauses each, so that one is tested at a time."""
    random = Random(f"clauses {seed}")

    def drawn(kind: str) -> str:
        first, *others = CLAUSES[kind]
        return random.choice(others) if random.random() < 0.4 else first

    return [
        f"select {drawn('distinct')}{drawn('star')} from {drawn('table')}{drawn('where')}{drawn('end')}"
        for _ in range(count)
    ]
