//! Queries, selects, and what stands around them.
//!
//! ```sql
//! select top 3 x from t;        -- refused: write limit 3
//! select x from t for update;   -- refused: there are no locks
//! ```

use super::{Checked, absent, none, ordering, refuse, relation};
use datafusion::sql::sqlparser::ast::{
    Cte, Distinct, ExprWithAliasAndOrderBy, Fetch, GroupByExpr, LimitClause, NamedWindowExpr, Offset,
    OrderBy, OrderByKind, OrderByOptions, PipeOperator, Query, Select, SelectItem, SetExpr, SetOperator,
    Table, Values, WildcardAdditionalOptions, With,
};
use std::ops::ControlFlow;

/// Why a recursive query has no order.
const RECURSIVE: &str = "a recursive query has no order and no limit of its own: write them where it is read";

/// Checks a query, without its body.
pub(super) fn check(query: &Query) -> Checked {
    let Query {
        with,
        body,
        order_by,
        limit_clause,
        fetch,
        locks,
        for_clause,
        settings,
        format_clause,
        pipe_operators,
    } = query;
    if let Some(with) = with {
        self::with(with)?;
    }
    if let Some(order) = order_by {
        self::order(order)?;
    }
    if let Some(limit) = limit_clause {
        self::limit(limit)?;
    }
    // `words` makes a limit of it.
    if let Some(Fetch { with_ties: _, percent: _, quantity: _ }) = fetch {}
    absent(locks, "a query locks no rows: leave out for update and for share", query)?;
    absent(for_clause, "for xml and for json are not there: leave them out", query)?;
    absent(settings, "a query has no settings of its own: write set before it", query)?;
    absent(format_clause, "a query has no format: copy (…) to 'path' (format …) writes one", query)?;
    pipe_operators.iter().try_for_each(|operator| piped(operator, query))?;
    set(body)
}

/// `with`.
fn with(with: &With) -> Checked {
    let With { with_token: _, recursive, cte_tables } = with;
    cte_tables.iter().try_for_each(|cte| {
        // Whether rows are computed once is the planner's choice.
        let Cte { alias, query, from, materialized: _, closing_paren_token: _ } = cte;
        relation::alias(alias)?;
        if *recursive && matches!(*query.body, SetExpr::SetOperation { op: SetOperator::Union, .. }) {
            none(&query.order_by, RECURSIVE)?;
            none(&query.limit_clause, RECURSIVE)?;
            none(&query.fetch, RECURSIVE)?;
        }
        absent(from, "with … as (…) from is not there: select from the name where it is needed", cte)
    })
}

/// A body: a set operation, values, or a table.
fn set(body: &SetExpr) -> Checked {
    match body {
        SetExpr::Select(_) | SetExpr::Query(_) => ControlFlow::Continue(()),
        // What operator has which quantifier the planner knows.
        SetExpr::SetOperation { left, op: _, set_quantifier: _, right } => {
            set(left)?;
            set(right)
        }
        SetExpr::Values(values) => {
            let Values { explicit_row: _, value_keyword, rows: _ } = values;
            absent(value_keyword, "write values in place of value", body)
        }
        SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {
            ControlFlow::Continue(())
        }
        SetExpr::Table(table) => {
            let Table { table_name: _, schema_name: _ } = table.as_ref();
            refuse("write from t, or select * from t, in place of table t", body)
        }
    }
}

/// Checks a select.
pub(super) fn check_select(select: &Select) -> Checked {
    let Select {
        select_token: _,
        // Nothing depends on a hint.
        optimizer_hints: _,
        distinct,
        select_modifiers,
        top,
        top_before_distinct: _,
        projection,
        exclude,
        into,
        from,
        lateral_views,
        prewhere,
        selection: _,
        connect_by,
        group_by,
        cluster_by,
        distribute_by,
        sort_by,
        having: _,
        named_window,
        qualify: _,
        window_before_qualify: _,
        value_table_mode,
        flavor: _,
    } = select;
    match distinct {
        None | Some(Distinct::All | Distinct::Distinct | Distinct::On(_)) => {}
    }
    absent(select_modifiers, "select has no such modifiers: leave out the word behind select", select)?;
    absent(top, "top is not there: write limit at the end of the query", select)?;
    projection.iter().try_for_each(item)?;
    none(exclude, "exclude stands behind a star: * exclude (a)")?;
    none(into, "select into is not there: write create table t as select …")?;
    from.iter().try_for_each(relation::tables)?;
    absent(lateral_views, "lateral view is not there: write from t, unnest(t.list)", select)?;
    none(prewhere, "prewhere is not there: write where")?;
    absent(connect_by, "connect by is not there: write with recursive", select)?;
    grouping(group_by)?;
    absent(cluster_by, "cluster by is not there", select)?;
    absent(distribute_by, "distribute by is not there", select)?;
    absent(sort_by, "sort by is not there: write order by at the end of the query", select)?;
    for window in named_window {
        if let NamedWindowExpr::WindowSpec(spec) = &window.1 {
            ordering::check_window(spec)?;
        }
    }
    absent(value_table_mode, "select as struct and as value are not there: write struct_pack(a := 1)", select)
}

/// `group by`.
fn grouping(by: &GroupByExpr) -> Checked {
    let (GroupByExpr::All(modifiers) | GroupByExpr::Expressions(_, modifiers)) = by;
    absent(
        modifiers,
        "group by a with … is not there: write group by rollup (a), cube (a) or grouping sets",
        by,
    )
}

/// An item of a select list.
fn item(item: &SelectItem) -> Checked {
    match item {
        SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { expr: _, alias: _ } => {
            ControlFlow::Continue(())
        }
        SelectItem::ExprWithAliases { expr: _, aliases: _ } => {
            refuse("an expression has one name: as a", item)
        }
        SelectItem::QualifiedWildcard(_, options) | SelectItem::Wildcard(options) => star(options),
    }
}

/// What stands behind a star. That what is excluded, replaced or renamed is there, is looked at when its
/// columns are known.
pub(super) fn star(options: &WildcardAdditionalOptions) -> Checked {
    let WildcardAdditionalOptions {
        wildcard_token: _,
        opt_ilike,
        opt_exclude: _,
        opt_except: _,
        opt_replace: _,
        opt_rename: _,
        opt_alias,
    } = options;
    absent(opt_ilike, "* ilike is not there: write the names of the columns, or * exclude (…)", options)?;
    absent(opt_alias, "a star has no name: leave out as", options)
}

/// `order by`.
fn order(order: &OrderBy) -> Checked {
    let OrderBy { kind, interpolate } = order;
    absent(interpolate, "order by … interpolate is not there", order)?;
    match kind {
        OrderByKind::All(OrderByOptions { asc: _, nulls_first: _ }) => ControlFlow::Continue(()),
        OrderByKind::Expressions(exprs) => ordering::check_order_by(exprs),
    }
}

/// `limit` and `offset`.
fn limit(limit: &LimitClause) -> Checked {
    match limit {
        LimitClause::LimitOffset { limit: _, offset, limit_by } => {
            if let Some(Offset { value: _, rows: _ }) = offset {}
            absent(
                limit_by,
                "limit … by is not there: write qualify row_number() over (partition by …) <= n",
                limit,
            )
        }
        LimitClause::OffsetCommaLimit { offset: _, limit: _ } => ControlFlow::Continue(()),
    }
}

/// A pipe operator, `|> …`.
fn piped(operator: &PipeOperator, query: &Query) -> Checked {
    match operator {
        PipeOperator::Limit { expr: _, offset: _ }
        | PipeOperator::Where { expr: _ }
        | PipeOperator::As { alias: _ }
        | PipeOperator::Union { set_quantifier: _, queries: _ }
        | PipeOperator::Intersect { set_quantifier: _, queries: _ }
        | PipeOperator::Except { set_quantifier: _, queries: _ } => ControlFlow::Continue(()),
        PipeOperator::OrderBy { exprs } => ordering::check_order_by(exprs),
        PipeOperator::Select { exprs } | PipeOperator::Extend { exprs } => exprs.iter().try_for_each(item),
        PipeOperator::Aggregate { full_table_exprs, group_by_expr } => {
            let ordered = |expr: &ExprWithAliasAndOrderBy| {
                let ExprWithAliasAndOrderBy { expr: _, order_by: OrderByOptions { asc, nulls_first } } = expr;
                asc.is_some() || nulls_first.is_some()
            };
            let any = full_table_exprs.iter().chain(group_by_expr).any(ordered);
            absent(&any, "|> aggregate has no order: write |> order by behind it", query)
        }
        // The place of what is joined to is the operator before.
        PipeOperator::Join(join) => relation::join_of(join),
        PipeOperator::Set { .. }
        | PipeOperator::Drop { .. }
        | PipeOperator::TableSample { .. }
        | PipeOperator::Rename { .. }
        | PipeOperator::Call { .. }
        | PipeOperator::Pivot { .. }
        | PipeOperator::Unpivot { .. } => {
            refuse(&format!("|> {operator} is not there: write a query around it"), query)
        }
    }
}
