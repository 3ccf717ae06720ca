//! Relations and joins.
//!
//! ```sql
//! select * from t tablesample 10 percent;  -- refused: write where random() < 0.1
//! select * from t join u;                  -- refused: write on (…), using (…) or cross join
//! ```

use super::{Checked, absent, call, refuse};
use crate::syntax::TIME_FUNCTIONS;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, Join, JoinConstraint, JoinOperator, ObjectName, TableAlias, TableAliasColumnDef,
    TableFactor, TableFunctionArgs, TableWithJoins,
};
use std::ops::ControlFlow;

/// Why there are no samples.
const SAMPLE: &str = "samples of rows are not there: write where random() < 0.1";
/// Why there is no `with ordinality`.
const ORDINALITY: &str =
    "with ordinality is not there: number the rows, select *, row_number() over () from …";
/// Why a join needs a constraint.
const ON: &str = "what is joined needs on (…) or using (…); all pairs of rows are a cross join";

/// Whether a table function is over rows with time.
fn is_time_function(name: &ObjectName) -> bool {
    TIME_FUNCTIONS.iter().any(|known| name.to_string().eq_ignore_ascii_case(known))
}

/// Checks a relation, without the relations inside of it.
pub(super) fn check(factor: &TableFactor) -> Checked {
    match factor {
        TableFactor::Table {
            name: _,
            alias,
            args,
            with_hints,
            version,
            with_ordinality,
            partitions,
            json_path,
            sample,
            index_hints,
        } => {
            self::named(alias.as_ref())?;
            if let Some(TableFunctionArgs { args, settings }) = args {
                arguments(args, factor)?;
                absent(settings, "a function has no settings: leave them out", factor)?;
            }
            absent(with_hints, "a table has no hints: leave out with (…)", factor)?;
            absent(version, "a table has only the rows that it has now: leave out the version", factor)?;
            absent(with_ordinality, ORDINALITY, factor)?;
            absent(partitions, "a table has no partitions: write where", factor)?;
            absent(json_path, "a path into a table is not there: select the fields", factor)?;
            absent(sample, SAMPLE, factor)?;
            absent(index_hints, "a table has no hints: leave out use index", factor)
        }
        TableFactor::Derived { lateral: _, subquery: _, alias, sample } => {
            self::named(alias.as_ref())?;
            absent(sample, SAMPLE, factor)
        }
        TableFactor::Function { lateral: _, name: _, args, with_ordinality, alias } => {
            self::named(alias.as_ref())?;
            arguments(args, factor)?;
            absent(with_ordinality, ORDINALITY, factor)
        }
        TableFactor::UNNEST { alias, array_exprs: _, with_offset, with_offset_alias, with_ordinality } => {
            self::named(alias.as_ref())?;
            absent(with_offset, "with offset is not there: number the rows with row_number()", factor)?;
            absent(with_offset_alias, "with offset is not there", factor)?;
            absent(with_ordinality, ORDINALITY, factor)
        }
        TableFactor::NestedJoin { table_with_joins, alias } => {
            self::named(alias.as_ref())?;
            tables(table_with_joins)
        }
        // `pivots` and `words` say who takes these parts.
        TableFactor::Pivot {
            table: _,
            aggregate_functions: _,
            value_column: _,
            value_source: _,
            default_on_null: _,
            alias,
        }
        | TableFactor::Unpivot { table: _, value: _, name: _, columns: _, null_inclusion: _, alias } => {
            self::named(alias.as_ref())
        }
        // Flink's way to write such a function.
        TableFactor::TableFunction { expr: Expr::Function(call), alias } if is_time_function(&call.name) => {
            self::named(alias.as_ref())
        }
        TableFactor::TableFunction { .. } => {
            refuse("write the function itself in place of table(…): from f(…)", factor)
        }
        TableFactor::JsonTable { .. } | TableFactor::OpenJsonTable { .. } => {
            refuse("json as a table is not there: write unnest(json_extract(…))", factor)
        }
        TableFactor::MatchRecognize {
            table: _,
            partition_by: _,
            order_by,
            measures: _,
            rows_per_match: _,
            after_match_skip: _,
            pattern: _,
            symbols: _,
            alias,
        } => {
            self::named(alias.as_ref())?;
            order_by.iter().try_for_each(|by| absent(&by.with_fill, "with fill is not there", by))
        }
        TableFactor::XmlTable { .. } => refuse("xml as a table is not there", factor),
        TableFactor::SemanticView { .. } => refuse("semantic_view is not there", factor),
    }
}

/// Named arguments are for functions that know the names; which these are, they say themselves.
fn arguments(args: &[FunctionArg], around: &TableFactor) -> Checked {
    args.iter().try_for_each(|arg| match arg {
        FunctionArg::Named { name: _, arg, operator: _ }
        | FunctionArg::ExprNamed { name: _, arg, operator: _ }
        | FunctionArg::Unnamed(arg) => call::argument(arg, around),
    })
}

/// An alias, if there is one.
fn named(alias: Option<&TableAlias>) -> Checked {
    match alias {
        Some(alias) => self::alias(alias),
        None => ControlFlow::Continue(()),
    }
}

/// An alias.
pub(super) fn alias(alias: &TableAlias) -> Checked {
    let TableAlias { explicit: _, name: _, columns, at } = alias;
    columns.iter().try_for_each(|column| {
        let TableAliasColumnDef { name: _, data_type } = column;
        absent(data_type, "a name has no type: cast the column where it is selected", column)
    })?;
    absent(at, "as a at b is not there: number the rows with row_number()", alias)
}

/// A join with what stands to its left.
pub(super) fn join(left: &TableFactor, join: &Join) -> Checked {
    if lacks_condition(&join.join_operator)
        && let Some(alias) = called(left)
        && !alias.explicit
        && alias.name.quote_style.is_none()
        && alias.name.value.eq_ignore_ascii_case("positional")
    {
        return refuse(
            "positional join is not there: number the rows of both with row_number() over () and join on the number",
            alias,
        );
    }
    join_of(join)
}

/// The operator of a join.
pub(super) fn join_of(join: &Join) -> Checked {
    let Join { relation: _, global, join_operator } = join;
    absent(global, "global joins are not there: leave out global", &join.relation)?;
    if lacks_condition(join_operator) {
        return refuse(ON, &join.relation);
    }
    match join_operator {
        JoinOperator::Join(on)
        | JoinOperator::Inner(on)
        | JoinOperator::Left(on)
        | JoinOperator::LeftOuter(on)
        | JoinOperator::Right(on)
        | JoinOperator::RightOuter(on)
        | JoinOperator::FullOuter(on)
        | JoinOperator::Semi(on)
        | JoinOperator::LeftSemi(on)
        | JoinOperator::RightSemi(on)
        | JoinOperator::Anti(on)
        | JoinOperator::LeftAnti(on)
        | JoinOperator::RightAnti(on)
        | JoinOperator::AsOf { match_condition: _, constraint: on } => constraint(on),
        JoinOperator::CrossJoin(JoinConstraint::None) => ControlFlow::Continue(()),
        JoinOperator::CrossJoin(_) => {
            refuse("a cross join joins all pairs of rows: leave out its condition, or cross", &join.relation)
        }
        JoinOperator::CrossApply | JoinOperator::OuterApply => refuse(
            "apply is not there: write cross join lateral, or left join lateral … on true",
            &join.relation,
        ),
        JoinOperator::StraightJoin(_) => refuse("straight_join is not there: write join", &join.relation),
        JoinOperator::ArrayJoin | JoinOperator::LeftArrayJoin | JoinOperator::InnerArrayJoin => {
            refuse("array join is not there: write from t, unnest(t.list)", &join.relation)
        }
    }
}

/// The constraint of a join.
fn constraint(on: &JoinConstraint) -> Checked {
    match on {
        JoinConstraint::On(_) | JoinConstraint::Using(_) | JoinConstraint::Natural | JoinConstraint::None => {
            ControlFlow::Continue(())
        }
    }
}

/// Whether a join says nothing of which rows it joins. What `asof` needs, it says itself.
fn lacks_condition(operator: &JoinOperator) -> bool {
    matches!(
        operator,
        JoinOperator::Join(JoinConstraint::None)
            | JoinOperator::Inner(JoinConstraint::None)
            | JoinOperator::Left(JoinConstraint::None)
            | JoinOperator::LeftOuter(JoinConstraint::None)
            | JoinOperator::Right(JoinConstraint::None)
            | JoinOperator::RightOuter(JoinConstraint::None)
            | JoinOperator::FullOuter(JoinConstraint::None)
            | JoinOperator::Semi(JoinConstraint::None)
            | JoinOperator::LeftSemi(JoinConstraint::None)
            | JoinOperator::RightSemi(JoinConstraint::None)
            | JoinOperator::Anti(JoinConstraint::None)
            | JoinOperator::LeftAnti(JoinConstraint::None)
            | JoinOperator::RightAnti(JoinConstraint::None)
    )
}

/// The alias of a relation.
fn called(relation: &TableFactor) -> Option<&TableAlias> {
    match relation {
        TableFactor::Table { alias, .. }
        | TableFactor::Derived { alias, .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::UNNEST { alias, .. }
        | TableFactor::NestedJoin { alias, .. } => alias.as_ref(),
        _ => None,
    }
}

/// Checks the relations and joins of a `from`.
pub(super) fn tables(from: &TableWithJoins) -> Checked {
    let TableWithJoins { relation, joins } = from;
    let mut left = relation;
    for next in joins {
        join(left, next)?;
        left = &next.relation;
    }
    ControlFlow::Continue(())
}
