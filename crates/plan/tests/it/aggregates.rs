//! Snapshot aggregates and grouping.

use crate::support::*;
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::logical_expr::{LogicalPlan, lit};
use whimbrel_plan::{Agg, AggFunction, Stream, aggregate_of, column};
use whimbrel_temporal::{Closed, Lifetimes};

fn count(name: &str) -> Vec<(String, Agg)> {
    vec![(name.to_string(), Agg::count())]
}

fn named(name: &str, function: AggFunction, of: &str) -> (String, Agg) {
    (name.to_string(), Agg::of(function, column(of)))
}

const ALL: [AggFunction; 8] = [
    AggFunction::Count,
    AggFunction::Sum,
    AggFunction::Average,
    AggFunction::Min,
    AggFunction::Max,
    AggFunction::First,
    AggFunction::Last,
    AggFunction::CountDistinct,
];

/// The result types of all aggregates that there are over a type.
fn types_over(data_type: DataType) -> String {
    let t = table("rows", &[("v", data_type)]);
    let result = |f: AggFunction| {
        let stream = t.aggregate(vec![named("x", f.clone(), "v")]).ok()?;
        let field = stream.schema().field(0).clone();
        Some(format!("{} {}", f.name(), whimbrel_plan::names::type_name(field.data_type())))
    };
    ALL.into_iter().filter_map(result).collect::<Vec<_>>().join(", ")
}

#[test]
fn result_types() {
    let over = |t: &str, sum: &str, avg: &str| {
        format!(
            "count int64, sum {sum}, avg {avg}, min {t}, max {t}, first {t}, last {t}, count_distinct int64"
        )
    };
    for t in [DataType::Int8, DataType::Int16, DataType::Int32, DataType::Int64] {
        assert_eq!(types_over(t.clone()), over(&t.to_string().to_lowercase(), "int64", "float64"));
    }
    for t in [DataType::UInt8, DataType::UInt16, DataType::UInt32, DataType::UInt64] {
        assert_eq!(types_over(t.clone()), over(&t.to_string().to_lowercase(), "uint64", "float64"));
    }
    for t in [DataType::Float16, DataType::Float32, DataType::Float64] {
        assert_eq!(types_over(t.clone()), over(&t.to_string().to_lowercase(), "float64", "float64"));
    }
    assert_eq!(types_over(DataType::Decimal128(10, 2)), over("decimal(10, 2)", "decimal(20, 2)", "float64"));
    assert_eq!(types_over(DataType::Decimal64(10, 2)), over("decimal(10, 2)", "decimal(20, 2)", "float64"));
    let no_numbers =
        |t: &str| format!("count int64, min {t}, max {t}, first {t}, last {t}, count_distinct int64");
    assert_eq!(types_over(DataType::Utf8), no_numbers("string"));
    assert_eq!(types_over(DataType::Boolean), no_numbers("boolean"));
    assert_eq!(types_over(DataType::Date32), no_numbers("date"));
    assert_eq!(types_over(DataType::Timestamp(TimeUnit::Millisecond, None)), no_numbers("timestamp(ms)"));
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    assert_eq!(types_over(dictionary), no_numbers("string"), "dictionaries are unpacked");
}

#[test]
fn aggregates_are_per_key() {
    let keyed = clicks().rekey(vec![column("item")]).unwrap();
    let stream =
        keyed.aggregate(vec![("n".into(), Agg::count()), named("total", AggFunction::Sum, "price")]).unwrap();
    assert_eq!(columns(&stream), "item: string?, n: int64, total: float64?");
    assert_eq!(stream.properties().key, ["item"]);
    let all = clicks().aggregate(count("n")).unwrap();
    assert_eq!(columns(&all), "n: int64");
}

#[test]
fn lifetimes_of_aggregates() {
    let of = |s: Stream| s.aggregate(count("n")).unwrap().properties().lifetimes;
    assert_eq!(of(ticks().tumbling(10, 0, Closed::Left).unwrap()), Lifetimes::Constant(10));
    assert_eq!(of(ticks().hopping(10, 5, 0, Closed::Left).unwrap()), Lifetimes::Any);
    assert_eq!(of(ticks().sliding(10, Closed::Right).unwrap()), Lifetimes::Any);
    assert_eq!(of(ticks()), Lifetimes::Any);
    assert_eq!(of(click_table()), Lifetimes::StartEdges);
}

#[test]
fn filters_and_expressions() {
    let dear = Agg::of(AggFunction::Sum, column("price") * lit(2)).filter(column("price").gt(lit(10)));
    let stream = clicks().aggregate(vec![("dear".into(), dear)]).unwrap();
    let LogicalPlan::Aggregate(aggregate) = stream.plan() else { panic!("no aggregate") };
    let (name, agg) = aggregate_of(&aggregate.aggr_expr[0]).unwrap();
    assert_eq!(name, "dear");
    assert_eq!(agg.function, AggFunction::Sum);
    assert!(agg.argument.is_some() && agg.filter.is_some());
}

#[test]
fn every_aggregate_is_found_again_in_the_plan() {
    for function in ALL {
        let agg = Agg::of(function, column("v")).filter(column("k").is_not_null());
        let stream = ticks().aggregate(vec![("x".into(), agg.clone())]).unwrap();
        let LogicalPlan::Aggregate(aggregate) = stream.plan() else { panic!("no aggregate") };
        assert_eq!(aggregate_of(&aggregate.aggr_expr[0]).unwrap(), ("x".to_string(), agg));
    }
    let stream = ticks().aggregate(count("n")).unwrap();
    let LogicalPlan::Aggregate(aggregate) = stream.plan() else { panic!("no aggregate") };
    assert_eq!(aggregate_of(&aggregate.aggr_expr[0]).unwrap(), ("n".to_string(), Agg::count()));
}

#[test]
fn what_cannot_be_aggregated() {
    let refused = |name: &str, agg: Agg| invalid(clicks().aggregate(vec![(name.to_string(), agg)]));
    assert_eq!(
        refused("s", Agg::of(AggFunction::Sum, column("item"))),
        "sum(item): item is string, of which there is no sum"
    );
    assert_eq!(
        refused("s", Agg::of(AggFunction::Max, column("tags"))),
        "max(tags): tags is list(string), of which there is no max"
    );
    assert_eq!(
        refused("s", Agg { function: AggFunction::Sum, argument: None, filter: None }),
        "sum needs an expression: of what?"
    );
    assert_eq!(
        refused("s", Agg::count().filter(column("user"))),
        "count(*): where: user is int64, not boolean"
    );
    assert_eq!(invalid(clicks().aggregate(vec![])), "aggregate: name at least one, such as n=count()");
    let keyed = clicks().rekey(vec![column("item")]).unwrap();
    assert_eq!(
        invalid(keyed.aggregate(count("item"))),
        "aggregate: there would be two columns named \"item\" (key columns stay); rename one"
    );
}

#[test]
fn group_apply_groups_and_gives_back_the_outer_key() {
    let stream = clicks()
        .group_apply(vec![column("item")], |g| {
            assert_eq!(g.properties().key, ["item"]);
            g.hopping("5m", "1m", 0, Closed::Left)?.aggregate(count("n"))
        })
        .unwrap();
    assert_eq!(columns(&stream), "item: string?, n: int64");
    assert!(stream.properties().key.is_empty());
}

#[test]
fn group_apply_nests() {
    let stream = clicks()
        .group_apply(vec![column("user")], |per_user| {
            per_user
                .group_apply(vec![column("item")], |per_item| {
                    assert_eq!(per_item.properties().key, ["user", "item"]);
                    per_item.session("30m", None)?.aggregate(count("n"))
                })?
                .where_(column("n").gt(lit(3)))?
                .aggregate(vec![named("most", AggFunction::Max, "n")])
        })
        .unwrap();
    assert_eq!(columns(&stream), "user: int64?, most: int64?");
    let keyed = clicks().rekey(vec![column("user")]).unwrap();
    let stream = keyed.group_apply(vec![column("item")], |g| g.aggregate(count("n"))).unwrap();
    assert_eq!(names(&stream), "user item n");
    assert_eq!(stream.properties().key, ["user"]);
}

#[test]
fn streams_of_one_group_meet_group_by_group() {
    let stream = clicks()
        .group_apply(vec![column("user")], |g| {
            let counts = g.aggregate(count("n"))?;
            // No matter that only the item is named: users do not mix.
            let g = g.select(vec![column("item")])?;
            let dear = g.rekey(vec![column("item")])?;
            assert_eq!(dear.properties().key, ["user", "item"]);
            g.where_exists(&dear, vec![(column("item"), column("item"))])?.join(
                &counts,
                vec![],
                whimbrel_plan::JoinKind::Inner,
                "_right",
            )
        })
        .unwrap();
    assert_eq!(names(&stream), "user item n");
    let text = stream.explain().unwrap();
    assert!(text.contains("where exists on user, item"), "{text}");
    assert!(text.contains("join on user"), "{text}");
}

#[test]
fn group_apply_refuses() {
    assert_eq!(invalid(clicks().group_apply(vec![], Ok)), "group_apply: say by what to group");
    let moved = clicks().group_apply(vec![column("item")], |g| g.reshard(None, whimbrel_plan::Scope::Global));
    assert_eq!(
        invalid(moved),
        "reshard: rows do not move between shards inside group_apply; do it before or after"
    );
}
