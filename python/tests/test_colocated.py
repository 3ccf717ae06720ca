"""Requirements on where rows lie: they cost nothing where they hold, and name the line where they do not."""

import traceback

import pytest

import whimbrel as wb

CLICKS = wb.from_rows(
    [(0, "a", 1), (1, "b", 2), (2, "a", 2), (3, "c", 1)], schema=["time", "item", "user"], time="time"
)
PRICES = wb.from_rows([{"item": "a", "price": 5}, {"item": "b", "price": 7}])


def counts(rows):
    return rows.query(lambda q: q.tumbling(10).aggregate(n=wb.count()))


def test_the_answer_is_the_same():
    by_item = CLICKS.rekey("item").redistribute(3)
    assert counts(by_item.colocated("item")).to_rows() == counts(by_item).to_rows()


def test_the_line_is_named():
    by_user = CLICKS.rekey("user").redistribute(3).rekey("item")
    with pytest.raises(wb.InvalidError, match="lie by user over 3 shards") as refused:
        by_user.query(lambda q: q.tumbling(10).colocated("item").aggregate(n=wb.count()))
    lines = [frame.line or "" for frame in traceback.extract_tb(refused.tb) if frame.filename == __file__]
    assert 'colocated("item")' in lines[-1]


def test_what_a_printed_program_relies_on_is_required(tmp_path):
    pairs = wb.from_rows([{"k": i % 7, "v": i} for i in range(40)])
    pairs.reshard(3).to_storage(str(tmp_path / "pairs"))
    files = str(tmp_path / "pairs" / "*.parquet")
    read = f"set shard_rows = 0; create view t as from read_parquet('{files}'); "
    for query, edit in (
        ("select v, rank() over (partition by k order by v) as r from t", (".redistribute()", "")),
        ("select k, v from t order by v desc limit 3", (".reshard(1)", "")),
        ("select a.v from t a left join (select * from t where v > 30) b on a.k = b.k", (".broadcast()", "")),
        ("select v from t where k not in (select k from t where v > 38)", (".broadcast()", "")),
    ):
        program = wb.sql(read + query, shards=3).to_python()
        edited = program.replace(*edit)
        if edited == program:
            edited = program.replace(".redistribute()", "")
        assert edited != program
        with pytest.raises(wb.InvalidError, match=r"in line \d+ of the program: "):
            program.run(edited)


def test_joins():
    left = CLICKS.rekey("item").redistribute(3)

    def joined(right, how="inner"):
        return left.query(right, lambda c, p: c.join(p, on="item", how=how, colocated=True))

    by_item = joined(PRICES.rekey("item").redistribute(3))
    copied = joined(PRICES.broadcast(3))
    assert sorted(by_item.to_rows(), key=str) == sorted(copied.to_rows(), key=str)
    assert "co-located" in copied.explain()
    with pytest.raises(wb.InvalidError, match="right side in no known way"):
        joined(PRICES.reshard(3))
    with pytest.raises(wb.InvalidError, match="right side is copied to every shard"):
        joined(PRICES.broadcast(3), how="full")
    with pytest.raises(wb.InvalidError, match="right side by price"):
        joined(PRICES.rekey("price").redistribute(3))
