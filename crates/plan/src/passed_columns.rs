//! Which columns of its inputs a step passes on unchanged, and where they come out.

use datafusion::common::{Column, DFSchema};
use datafusion::logical_expr::{Expr, Join, JoinType, LogicalPlan};

/// The input column that this expression passes through unchanged.
pub(crate) fn passed_column(expr: &Expr, input: &DFSchema) -> Option<usize> {
    match expr {
        Expr::Alias(alias) => passed_column(&alias.expr, input),
        Expr::Column(column) => input.maybe_index_of_column(column),
        _ => None,
    }
}

/// Where an input column comes out.
pub(crate) fn places(passed: &[Option<usize>], column: usize) -> Vec<usize> {
    (0..passed.len()).filter(|place| passed[*place] == Some(column)).collect()
}

/// Columns of equal types that a join makes equal, as positions on either side.
pub(crate) fn equal_columns(join: &Join) -> Vec<(usize, usize)> {
    let (left, right) = (join.left.schema(), join.right.schema());
    let place = |(l, r): &(Expr, Expr)| Some((passed_column(l, left)?, passed_column(r, right)?));
    let same_type = |(l, r): &(usize, usize)| left.field(*l).data_type() == right.field(*r).data_type();
    join.on.iter().filter_map(place).filter(same_type).collect()
}

/// Whether an expression passes a column by which its input is partitioned. Where a join has rows of the
/// right side alone, that is the first of two equal columns that is not null.
pub(crate) fn passes_partition(expr: &Expr, column: usize, input: &LogicalPlan) -> bool {
    match (input, first_of_two(expr)) {
        (LogicalPlan::Join(join), Some((left, right))) => {
            let width = join.left.schema().fields().len();
            let place = |column| join.schema.maybe_index_of_column(column);
            equal_columns(join).into_iter().any(|(l, r)| {
                [Some(l), Some(width + r)] == [place(left), place(right)] && [l, width + r].contains(&column)
            })
        }
        (LogicalPlan::Join(Join { join_type: JoinType::Full, .. }), None) => false,
        _ => passed_column(expr, input.schema()) == Some(column),
    }
}

/// The two columns of which an expression is the first that is not null.
fn first_of_two(expr: &Expr) -> Option<(&Column, &Column)> {
    match expr {
        Expr::Alias(alias) => first_of_two(&alias.expr),
        Expr::ScalarFunction(call) if call.name() == "coalesce" => match call.args.as_slice() {
            [Expr::Column(first), Expr::Column(second)] => Some((first, second)),
            _ => None,
        },
        _ => None,
    }
}
