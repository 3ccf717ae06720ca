"""Values on their way into the engine: each is taken as it is, or refused by name."""

from __future__ import annotations

import enum
from collections import namedtuple
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

import whimbrel as wb


class Letter(str, enum.Enum):
    A = "a"


Point = namedtuple("Point", ["y", "x"])

UTC = timezone.utc
WRONG: Any = 5


def one(value: Any, kind: str | None = None) -> Any:
    """Send a value through a column of a type."""
    schema = {"a": kind} if kind else None
    return wb.from_rows([{"a": value}], schema=schema).to_rows()[0].a


def pushed(value: Any, kind: str) -> Any:
    """Send a value through a live source."""
    live = wb.live({"a": kind})
    live.push([(value,)])
    live.close()
    return live.to_rows()[0].a


# Values that a type does not have.


@pytest.mark.parametrize("send", [one, pushed])
@pytest.mark.parametrize(
    ("value", "kind", "reason"),
    [
        ({"x": 1, "z": 3}, "struct[x: int64]", 'the field "z" is none of the type\'s'),
        ((1, 2), "struct[x: int64]", "2 values for 1 fields"),
        ((), "struct[x: int64]", "0 values for 1 fields"),
        (5, "struct[x: int64]", "which is no struct"),
        ([{"x": 1, "z": 3}], "list[struct[x: int64]]", 'the field "z"'),
        ({1: 2}, "struct[x: int64]", "a text as its name, not 1"),
        ("abc", "list[string]", "it is no list"),
        ({"x": 1}, "list[string]", "it is no list"),
        (5, "list[int64]", "which is no list"),
        (datetime(2020, 1, 1, 0, 0, 0, 5), "timestamp[s]", "would be another value"),
        (datetime(2020, 1, 1, 0, 0, 0, 5), "timestamp[ms, UTC]", "would be another value"),
        ("2020-01-01T00:00:00.000005", "timestamp[s]", "a finer part of a second"),
        (timedelta(microseconds=5), "duration[ms]", "would be another value"),
        (time(1, 2, 3, 4), "time[s]", "would be another value"),
        (time(1, 2, tzinfo=UTC), "time[us]", "it has a zone"),
        (datetime(2020, 1, 1, 5), "date", "it has a time of day"),
        (datetime(2020, 1, 1, tzinfo=UTC), "date", "an instant of a zone"),
        ("2020-01-01T05:00:00", "date", "it has a time of day"),
        (1e300, "float32", "would be another value"),
        (2**53 + 1, "float64", "would be another number"),
        (2**24 + 1, "float32", "would be another number"),
        ("x\ud800y", "string", "half of a surrogate pair"),
        (Decimal("1E+5"), "decimal[4, 0]", "more digits before the point"),
        (Decimal("1E-3"), "decimal[4, 2]", "more digits after the point"),
        (Decimal("1E-999999999"), "decimal[4, 2]", "more digits after the point"),
        (Decimal("NaN"), "decimal[4, 2]", "a decimal is finite"),
    ],
)
def test_what_a_type_does_not_have_is_refused(
    send: Callable[[Any, str], Any], value: Any, kind: str, reason: str
) -> None:
    with pytest.raises(wb.InvalidError, match='column "a"|a column or a field') as raised:
        send(value, kind)
    assert reason in str(raised.value)


@pytest.mark.parametrize("send", [one, pushed])
@pytest.mark.parametrize(
    ("value", "kind", "result"),
    [
        ({"x": 1}, "struct[x: int64, z: int64]", {"x": 1, "z": None}),
        ((1, 2), "struct[x: int64, z: int64]", {"x": 1, "z": 2}),
        (Point(x=1, y=2), "struct[x: int64, y: int64]", {"x": 1, "y": 2}),
        (datetime(2020, 1, 1, 0, 0, 5), "timestamp[s]", datetime(2020, 1, 1, 0, 0, 5)),
        ("2020-01-01T00:00:00.500000", "timestamp[ms]", datetime(2020, 1, 1, 0, 0, 0, 500_000)),
        (datetime(2020, 1, 1), "date", date(2020, 1, 1)),
        (1.1, "float32", pytest.approx(1.1)),
        (float("inf"), "float32", float("inf")),
        (2**53, "float64", 2.0**53),
        (Letter.A, "string", "a"),
        (Decimal("1E+5"), "decimal[18, 2]", Decimal(100_000)),
        (Decimal("1E-7"), "decimal[18, 7]", Decimal("0.0000001")),
        (Decimal("0E+30"), "decimal[18, 7]", Decimal(0)),
        (1e-7, "decimal[18, 7]", Decimal("0.0000001")),
        (Decimal("1" * 35 + ".678"), "decimal[38, 3]", Decimal("1" * 35 + ".678")),
    ],
)
def test_what_a_type_has_is_taken(
    send: Callable[[Any, str], Any], value: Any, kind: str, result: Any
) -> None:
    assert send(value, kind) == result


@pytest.mark.parametrize("value", [Decimal("1E+5"), Decimal("1E-7"), Decimal("0E+3"), Decimal("-12E+2")])
def test_a_decimal_with_an_exponent_is_a_value(value: Decimal) -> None:
    assert one(value) == value
    assert wb.sql("select $1 as a", parameters=[value]).to_rows()[0].a == value


def test_an_enumeration_of_texts_is_its_value() -> None:
    assert one(Letter.A) == "a"
    assert wb.from_rows([{"k": "a"}]).query(lambda q: q.where(wb.col("k") == Letter.A)).to_rows() == [
        {"k": "a"}
    ]
    rows = wb.sql("select * from t where k = $1", parameters=[Letter.A], t=[{"k": "a"}]).to_rows()
    assert rows == [{"k": "a"}]
    assert wb.from_rows([{Letter.A: 1}]).columns == ["a"]


def test_half_of_a_surrogate_pair_is_refused() -> None:
    ways: list[Callable[[str], Any]] = [
        one,
        lambda text: one({"x": text}),
        lambda text: wb.lit(text),
        lambda text: wb.sql("select $1", parameters=[text]),
        lambda text: wb.sql(f"select '{text}'"),
    ]
    for way in ways:
        with pytest.raises(wb.InvalidError, match="half of a surrogate pair"):
            way("x\ud800y")


def test_nanoseconds_are_kept_or_refused() -> None:
    pa = pytest.importorskip("pyarrow")
    pd = pytest.importorskip("pandas")
    np = pytest.importorskip("numpy")
    for value, kind in [
        (pd.Timestamp(1_234_567_891), "timestamp[ns]"),
        (np.datetime64(1_234_567_891, "ns"), "timestamp[ns]"),
        (pd.Timedelta(1_234_567_891), "duration[ns]"),
        (np.timedelta64(1_234_567_891, "ns"), "duration[ns]"),
    ]:
        table = wb.from_rows([{"a": value}, {"a": None}], schema={"a": kind}).to_arrow()
        assert pa.table(table)["a"].cast(pa.int64()).to_pylist() == [1_234_567_891, None]
        for coarse in (None, kind.replace("ns", "us")):
            with pytest.raises(wb.InvalidError, match="parts of a microsecond|which is no"):
                one(value, coarse)
    assert one(np.datetime64("NaT", "ns"), "timestamp[ns]") is None
    assert one(pd.NaT, "timestamp[ns]") is None


def test_structs_of_arrow_keep_their_fields() -> None:
    pa = pytest.importorskip("pyarrow")
    live = wb.live({"a": "struct[x: int64]"})
    for refused, reason in [
        ({"x": 1, "z": 3}, 'the field "z" is none'),
        ({"x": 1.5}, "would be another value"),
    ]:
        with pytest.raises(wb.InvalidError, match=reason):
            live.push(pa.table({"a": [refused]}))
    live.push(pa.table({"a": pa.array([{"x": 1}, None], pa.struct({"x": pa.int32()}))}))
    live.close()
    assert [row.a for row in live.to_rows()] == [{"x": 1}, None]


def test_keys_are_texts_and_a_struct_has_one() -> None:
    for rows in ([{1: 2}], [{"a": {1: 2}}]):
        with pytest.raises(wb.InvalidError, match="a text as its name, not 1"):
            wb.from_rows(rows)
    with pytest.raises(wb.InvalidError, match="a dict without keys tells no type"):
        wb.from_rows([{"a": {}}])
    assert [row.a for row in wb.from_rows([{"a": {}}, {"a": {"x": 1}}]).to_rows()] == [{"x": None}, {"x": 1}]


# Parameters.


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: wb.sql(WRONG), "a statement of SQL is a text"),
        (lambda: wb.sql("select 1", on=WRONG), "on= is a cluster or functions"),
        (lambda: wb.sql("select $a", parameters={WRONG: 2}), "a parameter has a text as its name"),
        (lambda: wb.sql("select $1", parameters=[{1: 2}]), "a text as its name"),
    ],
)
def test_what_is_no_parameter_is_refused(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(wb.InvalidError, match=message):
        call()


def test_parameters_of_time_are_not_limited_to_nanoseconds() -> None:
    far, long = datetime(9999, 12, 31), timedelta(days=10**6)
    assert wb.sql("select $1 as v", parameters=[far]).to_rows()[0].v == far
    assert (
        wb.sql("select date '2000-01-01' + $1 = timestamp '4737-11-28' as v", parameters=[long])
        .to_rows()[0]
        .v
    )
    with pytest.raises(wb.InvalidError, match="dict"):
        wb.sql("select $1 as v", parameters=[{"a": 1}])
