//! Where windows lie, as the arguments of their functions say.

use super::Place;
use crate::stream::table_function::{Signature, length};
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::sql::sqlparser::ast;
use whimbrel_plan::calendar::check_zone;
use whimbrel_temporal::Closed;

/// Arguments that may be left out, and say where windows lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    Offset,
    Zone,
    Closed,
}

impl Choice {
    const ALL: [Choice; 3] = [Choice::Offset, Choice::Zone, Choice::Closed];

    /// Their names.
    pub const NAMES: &[&str] = &[Choice::Offset.name(), Choice::Zone.name(), Choice::Closed.name()];

    fn of(name: &str) -> Option<Choice> {
        Choice::ALL.into_iter().find(|choice| choice.name() == name)
    }

    const fn name(self) -> &'static str {
        match self {
            Choice::Offset => "offset",
            Choice::Zone => "zone",
            Choice::Closed => "closed",
        }
    }
}

/// Where windows lie, as these arguments say. Of those without a name, texts are zones, and others offsets.
pub(super) fn place(
    unnamed: &[ast::Expr],
    named: Vec<(&'static str, ast::Expr)>,
    context: &mut dyn RelationPlannerContext,
    signature: &Signature,
) -> Result<Place> {
    let Signature { function, usage, .. } = signature;
    let unnamed = unnamed.iter().map(|arg| (None, arg.clone()));
    let named = named.into_iter().map(|(name, arg)| (Choice::of(name), arg));
    let (mut place, mut given) = (Place::default(), Vec::new());
    for (choice, arg) in unnamed.chain(named) {
        let value = context.sql_to_expr(arg.clone(), &DFSchema::empty())?;
        let is_text = matches!(value, Expr::Literal(ScalarValue::Utf8(_), _));
        let choice = choice.unwrap_or(if is_text { Choice::Zone } else { Choice::Offset });
        if given.contains(&choice) {
            return plan_err!("{function}: {} is given twice; write {usage}", choice.name());
        }
        given.push(choice);
        match choice {
            Choice::Offset => place.offset = length(&arg, value, function)?,
            Choice::Zone => place.zone = Some(zone_name(&arg, value, function)?),
            Choice::Closed => place.closed = closed_side(&arg, value, function)?,
        }
    }
    Ok(place)
}

/// `'America/New_York'`.
fn zone_name(arg: &ast::Expr, expr: Expr, name: &str) -> Result<String> {
    match expr {
        Expr::Literal(ScalarValue::Utf8(Some(zone)), _) => {
            check_zone(&zone)?;
            Ok(zone)
        }
        _ => plan_err!("{name}: {arg} is no time zone; write its name, 'America/New_York'"),
    }
}

/// `'left'` or `'right'`.
fn closed_side(arg: &ast::Expr, expr: Expr, name: &str) -> Result<Closed> {
    let Expr::Literal(ScalarValue::Utf8(Some(side)), _) = expr else { return no_side(arg, name) };
    match side.to_ascii_lowercase().as_str() {
        "left" => Ok(Closed::Left),
        "right" => Ok(Closed::Right),
        _ => no_side(arg, name),
    }
}

fn no_side(arg: &ast::Expr, name: &str) -> Result<Closed> {
    plan_err!("{name}: windows are closed 'left', [start, end), or 'right', (start, end], not {arg}")
}
