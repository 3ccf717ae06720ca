//! Plans as programs. More, with the programs run, is in the tests of the Python package.

use crate::support::*;
use datafusion::logical_expr::lit;
use whimbrel_plan::{Agg, AggFunction, JoinKind, Scope, Stream, column};
use whimbrel_temporal::Closed;

fn counts() -> Stream {
    let keyed = clicks().where_(column("price").gt(lit(1.5))).unwrap().rekey(vec![column("item")]).unwrap();
    let moved = keyed.redistribute(Some(4), Scope::Global).unwrap().colocated(vec![column("item")]).unwrap();
    let calls = vec![("n".into(), Agg::count()), ("most".into(), Agg::of(AggFunction::Max, column("price")))];
    moved.hopping("5m", "1m", 0, Closed::Left).unwrap().aggregate(calls).unwrap()
}

#[test]
fn a_line_an_operation() {
    let text = "\
import whimbrel as wb


def program(clicks: wb.ShardedStream) -> wb.ShardedStream:
    per_item = (
        clicks.query(lambda q: q.where(lambda e: e.price > 1.5))
        .rekey(\"item\")
        .redistribute(4)
        .query(
            lambda q: q.colocated(\"item\")
            .hopping(\"5m\", hop=\"1m\")
            .aggregate(n=wb.count(), most=wb.max(\"price\")),
        )
    )
    return per_item
";
    assert_eq!(counts().to_python().unwrap().to_string(), text);
}

#[test]
fn what_was_built_is_what_the_program_builds() {
    let people = clicks().rekey(vec![column("item")]).unwrap();
    let both = counts().reshard(Some(2), Scope::Global).unwrap();
    let joined = both.join(&people, vec![], JoinKind::Left, "_2").unwrap();
    for stream in
        [counts(), joined.point_at_end().unwrap(), joined.union(&joined.shift("1h").unwrap()).unwrap()]
    {
        let program = stream.to_python().unwrap();
        assert!(program.builds(&stream).unwrap(), "{program}");
        assert!(!program.builds(&people).unwrap());
    }
}

#[test]
fn its_sources_are_named() {
    let joined =
        click_table().join(&click_table(), vec![(column("user"), column("user"))], JoinKind::Semi, "");
    let program = joined.unwrap().to_python().unwrap();
    let names: Vec<&str> = program.sources().iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["clicks", "clicks_2"]);
}
