//! `asof join`: every row with the last row of the other table that is not later.
//!
//! `a asof join b on a.key = b.key and a.time >= b.time` gives every row of `a` with that row of `b` of the
//! same key whose time is the greatest of those that satisfy the inequality; `asof left join` also gives rows
//! of `a` that have none. With `using (key, time)` the last column is the time. A null equals nothing.
//!
//! Over tables it is one pass over the union of both: sorted by key and time, the rows of `b` are carried
//! forward, and the rows of `a` stay. So it costs a sort, not a comparison of all pairs.

mod stream;

use crate::syntax::names;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Column, DFSchema, Result, ScalarValue, TableReference, plan_err};
use datafusion::functions::core::expr_fn::{get_field, named_struct};
use datafusion::functions_aggregate::first_last::last_value_udaf;
use datafusion::logical_expr::expr::{NullTreatment, Sort, WindowFunction};
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprFunctionExt, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, WindowFrame,
    WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition, cast, lit,
};
use datafusion::sql::sqlparser::ast::{self, Join, JoinConstraint, JoinOperator, TableFactor, Value};
use whimbrel_plan::{column, properties};

/// The times of both sides.
const TIME: &str = "__asof_time";
/// The side of a row, as a number that orders rows of equal times.
const SIDE: &str = "__asof_side";
/// The packed row of the right side; null in rows of the left one.
const MATCH: &str = "__asof_match";
/// The last packed row.
const FOUND: &str = "__asof_found";

/// Plans asof joins, and leaves all other relations to others.
#[derive(Debug)]
pub(crate) struct AsOf;

impl RelationPlanner for AsOf {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let TableFactor::NestedJoin { table_with_joins, alias } = &relation else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let [
            Join {
                relation: other, join_operator: JoinOperator::AsOf { match_condition, constraint }, ..
            },
        ] = table_with_joins.joins.as_slice()
        else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let left = context.plan(table_with_joins.relation.clone())?;
        let right = context.plan(other.clone())?;
        let plan = Sides { left, right }.joined(match_condition, constraint, context)?;
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias.clone()))))
    }
}

/// The inputs of the join.
struct Sides {
    /// The side whose rows are kept.
    left: LogicalPlan,
    /// The side that is looked up.
    right: LogicalPlan,
}

/// What makes a row of the one table and a row of the other a match.
struct Condition {
    /// Equal expressions, left and right.
    on: Vec<(Expr, Expr)>,
    /// The times, and how the left one is compared with the right one.
    time: (Expr, Operator, Expr),
    /// Whether left rows without a match stay.
    outer: bool,
    /// Right columns that are left out, because the left ones of the same name are equal.
    merged: Vec<String>,
}

impl Sides {
    /// The join, over tables or over streams.
    fn joined(
        self,
        given: &ast::Expr,
        constraint: &JoinConstraint,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<LogicalPlan> {
        let condition = self.condition(given, constraint, context)?;
        match (properties(&self.left)?.time, properties(&self.right)?.time) {
            (None, None) => self.over_tables(&condition),
            (Some(_), Some(_)) => stream::plan(self.left, self.right, &condition),
            _ => plan_err!(
                "asof join: one side is a stream with time, the other a table without; give both a time"
            ),
        }
    }

    /// The equal expressions and the inequality of the constraint.
    fn condition(
        &self,
        given: &ast::Expr,
        constraint: &JoinConstraint,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<Condition> {
        let (left, right) = (self.left.schema(), self.right.schema());
        let both = left.join(right)?;
        let mut terms = Vec::new();
        let mut merged = Vec::new();
        // `true` and `false` come from the token rewrite; a condition of the query keeps all left rows.
        let outer = match given {
            ast::Expr::Value(value) => value.value != Value::Boolean(true),
            condition => {
                terms.extend(split_conjunction_owned(context.sql_to_expr(condition.clone(), &both)?));
                true
            }
        };
        match constraint {
            JoinConstraint::On(condition) => {
                terms.extend(split_conjunction_owned(context.sql_to_expr(condition.clone(), &both)?));
            }
            JoinConstraint::Using(columns) => {
                for (i, name) in columns.iter().enumerate() {
                    let name = names::table(name)?;
                    let side = |schema: &DFSchema| -> Result<Expr> {
                        Ok(Expr::Column(Column::from(schema.qualified_field_with_unqualified_name(&name)?)))
                    };
                    let last = i + 1 == columns.len();
                    let op = if last { Operator::GtEq } else { Operator::Eq };
                    terms.push(Expr::BinaryExpr(BinaryExpr::new(
                        Box::new(side(left)?),
                        op,
                        Box::new(side(right)?),
                    )));
                    merged.push(name);
                }
            }
            JoinConstraint::None => {}
            JoinConstraint::Natural => {
                return plan_err!("asof join: say which columns are equal, on … or using (…)");
            }
        }
        let mut on = Vec::new();
        let mut time = None;
        for term in terms {
            match self.compared(&term)? {
                (l, Operator::Eq, r) => on.push((l, r)),
                inequality if time.is_none() => time = Some(inequality),
                _ => return plan_err!("asof join: there is one inequality, and there are two here"),
            }
        }
        match time {
            Some(time) => Ok(Condition { on, time, outer, merged }),
            None => plan_err!("asof join: say how the times compare, on … and a.time >= b.time"),
        }
    }

    /// A comparison of the two sides, the left one on the left.
    fn compared(&self, term: &Expr) -> Result<(Expr, Operator, Expr)> {
        let (left, right) = (self.left.schema(), self.right.schema());
        let of = |expr: &Expr, schema: &DFSchema| {
            let columns = expr.column_refs();
            !columns.is_empty() && columns.iter().all(|c| schema.has_column(c))
        };
        if let Expr::BinaryExpr(BinaryExpr { left: a, op, right: b }) = term
            && matches!(op, Operator::Eq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq)
        {
            if of(a, left) && of(b, right) {
                return Ok((a.as_ref().clone(), *op, b.as_ref().clone()));
            }
            if of(b, left)
                && of(a, right)
                && let Some(swapped) = op.swap()
            {
                return Ok((b.as_ref().clone(), swapped, a.as_ref().clone()));
            }
        }
        plan_err!("asof join: {term} does not compare a column of the one table with one of the other")
    }

    /// The join of two tables.
    fn over_tables(self, condition: &Condition) -> Result<LogicalPlan> {
        let (time, op, other) = &condition.time;
        let later = matches!(op, Operator::Gt | Operator::GtEq);
        let inclusive = matches!(op, Operator::GtEq | Operator::LtEq);
        let (left, right) = (self.left.schema().clone(), self.right.schema().clone());
        let row = packed(&right)?;
        let row_type = row.get_type(&right)?;
        let key = |i: usize| format!("__asof_key{i}");
        let own = |i: usize| format!("__asof_left{i}");
        let null = |data_type: &DataType| cast(lit(ScalarValue::Null), data_type.clone());

        let mut left_columns: Vec<Expr> = Vec::new();
        let mut right_columns: Vec<Expr> = Vec::new();
        for (i, (qualifier, field)) in left.iter().enumerate() {
            left_columns.push(Expr::Column(Column::from((qualifier, field))).alias(own(i)));
            right_columns.push(null(field.data_type()).alias(own(i)));
        }
        for (i, (l, r)) in condition.on.iter().enumerate() {
            left_columns.push(l.clone().alias(key(i)));
            right_columns.push(r.clone().alias(key(i)));
        }
        // Of equal times, a right row comes before a left one if it is a match, and after it if it is not.
        let after = if inclusive { 0_i64 } else { 2 };
        left_columns.extend([time.clone().alias(TIME), lit(1_i64).alias(SIDE), null(&row_type).alias(MATCH)]);
        right_columns.extend([other.clone().alias(TIME), lit(after).alias(SIDE), row.alias(MATCH)]);

        let keys = condition.on.iter().map(|(_, r)| r).chain([other]);
        let not_null = keys.map(|e| e.clone().is_not_null()).reduce(Expr::and);
        let mut right_rows = LogicalPlanBuilder::from(self.right);
        if let Some(not_null) = not_null {
            right_rows = right_rows.filter(not_null)?;
        }
        let right_rows = right_rows.project(right_columns)?.build()?;
        let all = LogicalPlanBuilder::from(self.left).project(left_columns)?.union(right_rows)?;

        let order = vec![Sort::new(column(TIME), later, false), Sort::new(column(SIDE), true, false)];
        let frame = WindowFrame::new_bounds(
            WindowFrameUnits::Rows,
            WindowFrameBound::Preceding(ScalarValue::UInt64(None)),
            WindowFrameBound::CurrentRow,
        );
        let function = WindowFunctionDefinition::AggregateUDF(last_value_udaf());
        let carried = Expr::from(WindowFunction::new(function, vec![column(MATCH)]))
            .partition_by((0..condition.on.len()).map(|i| column(key(i))).collect())
            .order_by(order)
            .window_frame(frame)
            .null_treatment(NullTreatment::IgnoreNulls)
            .build()?;
        let mut rows = all.window([carried.alias(FOUND)])?.filter(column(SIDE).eq(lit(1_i64)))?;
        if !condition.outer {
            rows = rows.filter(column(FOUND).is_not_null())?;
        }
        let named = |e: Expr, qualifier: Option<&TableReference>, name: &str| match qualifier {
            Some(qualifier) => e.alias_qualified(Some(qualifier.clone()), name),
            None => e.alias(name),
        };
        let mut columns: Vec<Expr> =
            left.iter().enumerate().map(|(i, (q, f))| named(column(own(i)), q, f.name())).collect();
        for (i, (qualifier, field)) in right.iter().enumerate() {
            if !condition.merged.contains(field.name()) {
                columns.push(named(get_field(column(FOUND), place(i)), qualifier, field.name()));
            }
        }
        rows.project(columns)?.build()
    }
}

/// All columns of a row in one.
fn packed(schema: &DFSchema) -> Result<Expr> {
    if schema.fields().is_empty() {
        return plan_err!("asof join: the right table has no columns");
    }
    let parts = schema
        .iter()
        .enumerate()
        .flat_map(|(i, (qualifier, field))| [lit(place(i)), Expr::Column(Column::from((qualifier, field)))]);
    Ok(named_struct(parts.collect()))
}

/// The name of a field of a packed row.
fn place(i: usize) -> String {
    format!("c{i}")
}
