//! What is expected of plans, over a source whose statistics are known exactly.

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, JoinType, ScalarValue, Statistics};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, col, lit};
use std::sync::Arc;
use whimbrel_plan::estimate::{Estimator, composite, drawn, smaller_sides_first};
use whimbrel_plan::{Source, SourceInfo, Stream, column};

/// So many rows; `id` is different in all, `ten` has ten values, `name` is text.
#[derive(Debug)]
struct Counted(usize);

impl Counted {
    fn schema() -> Arc<Schema> {
        let field = |name, data_type| Field::new(name, data_type, true);
        let columns = [("id", DataType::Int64), ("ten", DataType::Int32), ("name", DataType::Utf8)];
        Arc::new(Schema::new(columns.map(|(name, data_type)| field(name, data_type)).to_vec()))
    }
}

impl Source for Counted {
    fn info(&self) -> SourceInfo {
        SourceInfo { schema: Counted::schema(), bounded: true, shards: 1, groups: 1 }
    }

    fn describe(&self) -> String {
        format!("{} rows", self.0)
    }

    fn statistics(&self) -> Arc<Statistics> {
        let mut known = Statistics::new_unknown(&Counted::schema());
        known.num_rows = Precision::Exact(self.0);
        let between = |min: ScalarValue, max: ScalarValue| ColumnStatistics {
            min_value: Precision::Exact(min),
            max_value: Precision::Exact(max),
            null_count: Precision::Exact(0),
            ..ColumnStatistics::new_unknown()
        };
        known.column_statistics[0] = between(0_i64.into(), (self.0 as i64 - 1).into());
        known.column_statistics[1] = between(0_i32.into(), 9_i32.into());
        Arc::new(known)
    }
}

fn rows(n: usize) -> LogicalPlan {
    Stream::scan("t", Arc::new(Counted(n))).unwrap().plan().clone()
}

fn named(n: usize, alias: &str) -> LogicalPlanBuilder {
    LogicalPlanBuilder::from(rows(n)).alias(alias).unwrap()
}

fn estimated(plan: &LogicalPlan) -> f64 {
    Estimator::default().estimate(plan).rows
}

#[track_caller]
fn close(found: f64, wanted: f64) {
    assert!((found - wanted).abs() <= wanted * 0.05 + 1.0, "{found} is not about {wanted}");
}

fn filtered(predicate: Expr) -> f64 {
    estimated(&LogicalPlanBuilder::from(rows(1000)).filter(predicate).unwrap().build().unwrap())
}

#[test]
fn a_source_is_as_it_says() {
    let estimate = Estimator::default().estimate(&rows(1000));
    assert_eq!(estimate.rows, 1000.0);
    let distinct: Vec<f64> = estimate.columns.iter().map(|c| c.distinct).collect();
    assert_eq!(distinct, [1000.0, 10.0, 1000.0]);
    assert!(estimate.bytes() > 12_000.0);
}

#[test]
fn conditions_keep_their_part() {
    close(filtered(column("id").eq(lit(5_i64))), 1.0);
    close(filtered(column("ten").eq(lit(5))), 100.0);
    close(filtered(column("ten").eq(lit(50))), 1.0);
    close(filtered(column("id").lt(lit(250_i64))), 250.0);
    close(filtered(lit(250_i64).gt(column("id"))), 250.0);
    close(filtered(column("ten").in_list(vec![lit(1), lit(2)], false)), 200.0);
    close(filtered(column("ten").in_list(vec![lit(1), lit(2)], true)), 800.0);
    close(filtered(column("ten").eq(lit(1)).or(column("ten").eq(lit(2)))), 190.0);
    close(filtered(lit(false)), 0.0);
}

#[test]
fn two_bounds_are_one_range() {
    let between = column("id").gt_eq(lit(400_i64)).and(column("id").lt(lit(500_i64)));
    close(filtered(between), 100.0);
    close(filtered(column("id").between(lit(400_i64), lit(500_i64))), 100.0);
}

#[test]
fn a_key_finds_its_rows() {
    let join = |kind, n| {
        let right = named(n, "r").build().unwrap();
        let on = (vec!["l.ten"], vec!["r.id"]);
        named(1000, "l").join(right, kind, on, None).unwrap().build().unwrap()
    };
    close(estimated(&join(JoinType::Inner, 10)), 1000.0);
    close(estimated(&join(JoinType::Left, 5)), 1000.0);
    close(estimated(&join(JoinType::LeftSemi, 5)), 500.0);
    close(estimated(&join(JoinType::LeftAnti, 5)), 500.0);
}

#[test]
fn two_columns_of_a_key_have_no_more_values_than_its_table_rows() {
    close(composite(&[(200.0, 200.0), (100.0, 100.0)], 6000.0, 800.0), 800.0);
    close(composite(&[(200.0, 100.0)], 6000.0, 800.0), 200.0);
}

#[test]
fn groups_are_no_more_than_rows_and_values() {
    let grouped = |by: Vec<Expr>| {
        let none: Vec<Expr> = vec![];
        estimated(&LogicalPlanBuilder::from(rows(1000)).aggregate(by, none).unwrap().build().unwrap())
    };
    close(grouped(vec![column("ten")]), 10.0);
    close(grouped(vec![column("ten"), column("id")]), 1000.0);
    close(drawn(10.0, 1000.0), 10.0);
    close(drawn(1000.0, 1000.0), 632.0);
}

#[test]
fn the_smaller_side_comes_first_and_columns_stay() {
    let kinds = [JoinType::Inner, JoinType::Left, JoinType::Full, JoinType::LeftSemi, JoinType::LeftAnti];
    for kind in kinds {
        let right = named(10, "r").build().unwrap();
        let on = (vec!["l.id"], vec!["r.id"]);
        let plan = named(1000, "l").join(right, kind, on, None).unwrap().build().unwrap();
        let turned = smaller_sides_first(plan.clone(), &Estimator::default()).unwrap();
        assert_eq!(turned.schema().columns(), plan.schema().columns());
        let mut join = &turned;
        while !matches!(join, LogicalPlan::Join(_)) {
            join = join.inputs()[0];
        }
        close(estimated(join.inputs()[0]), 10.0);
    }
}

#[test]
fn a_limit_limits() {
    let sorted =
        LogicalPlanBuilder::from(rows(1000)).sort_with_limit(vec![col("id").sort(true, false)], Some(7));
    close(estimated(&sorted.unwrap().build().unwrap()), 7.0);
}
