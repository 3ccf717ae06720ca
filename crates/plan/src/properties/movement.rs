//! The properties of rows that have moved between shards, or have to lie together.

use super::derived::Derived;
use crate::names::{count, index_of, show};
use crate::nodes::{Exchange, Movement, Scope};
use crate::passed_columns::passed_column;
use crate::placement::Placement;
use crate::sort_order::has_runs_of;
use datafusion::common::{Column, DFSchema, Result, plan_err};
use datafusion::logical_expr::Expr;

/// The position of a key column.
pub(super) fn key_column(expr: &Expr, schema: &DFSchema) -> Result<usize> {
    match expr {
        Expr::Column(Column { name, .. }) => index_of(schema, name),
        other => plan_err!("a key has to be columns, not {other}; project it first"),
    }
}

/// An exchange decides placement and shards; everything else stays.
pub(super) fn of_exchange(exchange: &Exchange, derived: Derived) -> Result<Derived> {
    let shards = exchange.shards.unwrap_or(derived.shards);
    if shards == 0 {
        return plan_err!("{}: give at least 1 shard, not 0", exchange.movement);
    }
    exchange.check_order(shards)?;
    let even = shards.is_multiple_of(derived.groups);
    if exchange.scope == Scope::Local && !even {
        return plan_err!(
            "{}: {} cannot be spread evenly over {} groups, as scope local needs",
            exchange.movement,
            count(shards, "shard"),
            derived.groups
        );
    }
    let everywhere = exchange.scope == Scope::Global || derived.groups == 1;
    let placement = match &*exchange.movement {
        Movement::ReDistribute { key } if everywhere => by_key(key, exchange.input.schema()),
        Movement::Runs { key } => of_runs(key, exchange.input.schema(), &derived)?,
        Movement::Broadcast if everywhere => Placement::Replicated,
        _ => Placement::Unknown,
    };
    let groups = if even { derived.groups } else { 1 };
    // What one shard sends stays in its order; what several send is merged by time.
    let keeps_order = derived.shards == 1 && derived.partition.is_empty();
    let sorted = if keeps_order { derived.sorted } else { vec![] };
    // Whoever receives the rows gets them in one order.
    Ok(Derived { shards, groups, placement, partition: vec![], sorted, ..derived })
}

/// The placement of runs, which have to be there.
fn of_runs(key: &[Expr], schema: &DFSchema, derived: &Derived) -> Result<Placement<usize>> {
    let columns = key.iter().map(|k| key_column(k, schema)).collect::<Result<Vec<_>>>()?;
    let names = || key.iter().map(show).collect::<Vec<_>>().join(", ");
    if derived.shards != 1 || !derived.partition.is_empty() {
        return plan_err!(
            "reshard: runs of {} are dealt out from one shard with one clock, and these rows lie in {}; redistribute \
             brings rows with equal keys together from anywhere",
            names(),
            count(derived.shards, "shard")
        );
    }
    if derived.lifetimes.has_end_edges() || !has_runs_of(&derived.sorted, &columns) {
        return plan_err!(
            "reshard: rows that are equal in {} do not follow each other, as far as is known; say so by \
             require_sorted before, or use redistribute",
            names()
        );
    }
    Ok(Placement::Runs(columns.into_iter().map(|column| vec![column]).collect()))
}

/// Rows hashed by a key; unknown if a key expression is not a column.
fn by_key(key: &[Expr], input: &DFSchema) -> Placement<usize> {
    let key: Option<Vec<Vec<usize>>> = key.iter().map(|k| Some(vec![passed_column(k, input)?])).collect();
    key.map_or(Placement::Unknown, Placement::Hashed)
}

/// Refuses rows that have to be in one shard and may not be.
pub(super) fn check_together(key: &[Expr], schema: &DFSchema, derived: &Derived) -> Result<()> {
    let columns: Vec<usize> = key.iter().filter_map(|k| passed_column(k, schema)).collect();
    if derived.placement.keeps_together(&columns) {
        return Ok(());
    }
    let names: Vec<String> = key.iter().map(show).collect();
    let (what, cure) = match names.is_empty() {
        true => ("all rows".to_string(), ".reshard(1)".to_string()),
        false => {
            let quoted: Vec<String> = names.iter().map(|n| format!("{n:?}")).collect();
            (
                format!("rows with equal {}", names.join(", ")),
                format!(".rekey({}).redistribute()", quoted.join(", ")),
            )
        }
    };
    let placement = derived.placement.clone().map_columns(|i| vec![schema.field(i).name().clone()]);
    plan_err!(
        "colocated: {what} have to be in one shard, but they lie {placement} over {}; add {cure} before",
        count(derived.shards, "shard")
    )
}
