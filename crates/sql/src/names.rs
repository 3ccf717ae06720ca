//! Names in the parser's tree: as the session knows them, and the columns of a query that would have the same.
//!
//! `select a, a from t` is SQL, but a plan's columns have different names: the second becomes `a_1`. A column
//! that has no name is called what its expression reads.

use crate::asof;
use crate::casts;
use crate::catalog::table_name;
use crate::schemas;
use crate::truth;
use crate::walk::walk_mut;
use crate::words;
use datafusion::common::{Column, Result};
use datafusion::sql::planner::{IdentNormalizer, object_name_to_table_reference};
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, ExactNumberInfo, Expr, Ident, ObjectName, Query, Select, SelectItem, Value,
    ValueWithSpan, VisitorMut,
};
use std::collections::HashSet;
use std::ops::ControlFlow;

/// A name as the session knows it: in small letters, unless it is quoted.
pub(crate) fn ident(name: &Ident) -> String {
    IdentNormalizer::new(true).normalize(name.clone())
}

/// The name of a table as the session knows it.
pub(crate) fn table(name: &ObjectName) -> Result<String> {
    Ok(table_name(&object_name_to_table_reference(name.clone(), true)?))
}

/// A column as the parser has it.
pub(crate) fn column(column: Column) -> Expr {
    let quoted = |part: String| Ident::with_quote('"', part);
    let mut parts: Vec<Ident> = column.relation.iter().flat_map(|table| table.to_vec()).map(quoted).collect();
    parts.push(quoted(column.name));
    match <[Ident; 1]>::try_from(parts) {
        Ok([only]) => Expr::Identifier(only),
        Err(parts) => Expr::CompoundIdentifier(parts),
    }
}

/// Gives the columns of a query, and of those inside of it, different names.
pub(crate) fn prepare(query: &mut Query) {
    // The visitor never breaks off.
    let _: ControlFlow<()> = walk_mut(query, &mut Unique);
}

struct Unique;

impl VisitorMut for Unique {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        schemas::told_apart(query);
        words::selects(&mut query.body, &mut |select| {
            unique(select);
            casts::told_apart(select);
            asof::nest(select);
            truth::conditions(select);
        });
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        float(expr);
        truth::plain(expr);
        ControlFlow::Continue(())
    }
}

/// A number with an exponent is a float, as in DuckDB: `1e300` has no place in a decimal. Columns have their names
/// from the text by now.
fn float(expr: &mut Expr) {
    let Expr::Value(ValueWithSpan { value: Value::Number(digits, _), span }) = expr else { return };
    if !digits.contains(['e', 'E']) {
        return;
    }
    let text = ValueWithSpan { value: Value::SingleQuotedString(digits.clone()), span: *span };
    *expr = Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::Value(text)),
        data_type: DataType::Double(ExactNumberInfo::None),
        array: false,
        format: None,
    };
}

fn unique(select: &mut Select) {
    let wild = select
        .projection
        .iter()
        .any(|item| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)));
    let aliases = select.projection.iter().filter_map(|item| match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(ident(alias)),
        _ => None,
    });
    let mut taken: HashSet<String> = aliases.collect();
    let mut given: HashSet<String> = HashSet::new();
    for item in &mut select.projection {
        if let SelectItem::ExprWithAlias { alias, .. } = item {
            let name = ident(alias);
            if !given.insert(name.clone()) {
                *alias = Ident::with_quote('"', numbered(&name, 1, &mut taken));
            }
            continue;
        }
        let SelectItem::UnnamedExpr(expr) = item else { continue };
        let column = column_name(expr);
        let name = column.clone().unwrap_or_else(|| expr.to_string());
        let free = match column.is_some() && wild {
            // The columns behind a star are not known here; an explicit one is most likely among them.
            true => numbered(&name, 1, &mut taken),
            false => numbered(&name, 0, &mut taken),
        };
        if column.as_ref() != Some(&free) {
            let alias = Ident::with_quote('"', free);
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
    }
}

/// The name of the column that this is, if it is nothing else.
fn column_name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(name) => Some(ident(name)),
        Expr::CompoundIdentifier(parts) => parts.last().map(ident),
        _ => None,
    }
}

/// The first of `name`, `name_1`, `name_2`, … that is not taken, from this number on.
fn numbered(name: &str, from: usize, taken: &mut HashSet<String>) -> String {
    let mut names = (from..).map(|n| if n == 0 { name.to_string() } else { format!("{name}_{n}") });
    // There are more numbers than names.
    names.find(|free| taken.insert(free.clone())).unwrap_or_else(|| name.to_string())
}
