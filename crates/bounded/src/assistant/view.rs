//! A query split into a materialized view and a query of that view.
//!
//! Predicates without parameters become part of the view. A column that equals a parameter becomes a group of
//! the view, and its predicate part of the query of the view.

use super::semijoin::conjuncts;
use crate::functions::HAS_TOKEN;
use crate::syntax::Parsed;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, FunctionArguments, GroupByExpr, OrderByKind, Query, Select, SelectItem, SetExpr,
    Statement, TableFactor, Value,
};
use whimbrel_sql::walk::change_expressions;

/// A view that has the answers of a query ready.
pub(super) struct ViewRewrite {
    /// A name for it.
    pub name: String,
    /// Its query.
    pub sql: String,
    /// The columns that are returned, and what they are called.
    columns: Vec<(String, String)>,
    /// What is given with a call: a column of the view, and the rest of the predicate.
    given: Vec<String>,
    /// What stands behind the predicates.
    end: String,
}

impl ViewRewrite {
    /// The query over the view.
    pub fn query(&self, view: &str) -> String {
        let columns = self.columns.iter().map(|(column, name)| match column == name {
            true => column.clone(),
            false => format!("{column} as {name}"),
        });
        let columns: Vec<String> = columns.collect();
        let given = if self.given.is_empty() {
            String::new()
        } else {
            format!(" where {}", self.given.join(" and "))
        };
        format!("select {} from {view}{given}{}", columns.join(", "), self.end)
    }
}

/// Splits a query; `None` if it is no plain grouping or join, or compares what is given in another way than
/// by `=`.
pub(super) fn rewrite_as_view(parsed: Parsed) -> Option<ViewRewrite> {
    let Statement::Query(query) = parsed.statement else { return None };
    let lists = parsed.parameters.iter().any(|parameter| parameter.list.is_some());
    let (None, SetExpr::Select(select)) = (&query.with, query.body.as_ref()) else { return None };
    if lists || parsed.paginate.is_some() || select.having.is_some() || select.distinct.is_some() {
        return None;
    }
    let tables = tables(select)?;
    let mut columns = Columns::default();
    let (mut stays, mut given) = (Vec::new(), Vec::new());
    let conjuncts: Vec<&Expr> = select.selection.iter().flat_map(conjuncts).collect();
    for conjunct in &conjuncts {
        if conjunct.to_string().contains(HAS_TOKEN) {
            return None;
        }
        match parameter(conjunct) {
            Some((column, value)) => given.push(format!("{} = {value}", columns.add(column, None))),
            None => {
                let stayed = without_parameters(conjunct, &conjuncts).to_string();
                if stayed.contains('$') {
                    return None;
                }
                stays.push(stayed);
            }
        }
    }
    let keys = columns.0.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>().join("_");
    let group = match &select.group_by {
        GroupByExpr::Expressions(group, modifiers) if modifiers.is_empty() => group.clone(),
        _ => return None,
    };
    let mut returned = Vec::new();
    let mut aggregated = !group.is_empty();
    for item in &select.projection {
        let (expr, alias) = match item {
            SelectItem::UnnamedExpr(expr) => (expr, None),
            SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias.value.to_lowercase())),
            _ => return None,
        };
        aggregated |= matches!(expr, Expr::Function(_));
        let name = columns.add(expr, alias.clone());
        let output = alias.or_else(|| column_name(expr)).unwrap_or_else(|| name.clone());
        returned.push((name, output));
    }
    if !aggregated && tables.len() < 2 {
        return None;
    }
    let mut by: Vec<String> = given_exprs(select);
    by.extend(group.iter().map(Expr::to_string));
    by.dedup();
    let filter = if stays.is_empty() { String::new() } else { format!(" where {}", stays.join(" and ")) };
    let group =
        if aggregated && !by.is_empty() { format!(" group by {}", by.join(", ")) } else { String::new() };
    let from: Vec<String> = select.from.iter().map(ToString::to_string).collect();
    let sql = format!("select {} from {}{filter}{group}", columns.list(), from.join(", "));
    let suffix = if keys.is_empty() { "kept".to_string() } else { format!("by_{keys}") };
    let end = order_and_limit(&query, &columns, &returned)?;
    Some(ViewRewrite { name: format!("{}_{suffix}", tables[0]), sql, columns: returned, given, end })
}

/// The names of the tables, if there is nothing else.
fn tables(select: &Select) -> Option<Vec<String>> {
    let joined = select
        .from
        .iter()
        .flat_map(|from| std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)));
    let names = joined.map(|factor| match factor {
        TableFactor::Table { name, .. } => Some(name.0.last()?.as_ident()?.value.to_lowercase()),
        _ => None,
    });
    names.collect::<Option<Vec<_>>>().filter(|names| !names.is_empty())
}

/// A column that equals something which is given with the call.
fn parameter(expr: &Expr) -> Option<(&Expr, &Expr)> {
    let Expr::BinaryOp { left, op: BinaryOperator::Eq, right } = expr else { return None };
    let is_column = |expr: &Expr| matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
    let is_given =
        |expr: &Expr| matches!(expr, Expr::Value(value) if matches!(value.value, Value::Placeholder(_)));
    match (left.as_ref(), right.as_ref()) {
        (column, value) | (value, column) if is_column(column) && is_given(value) => Some((column, value)),
        _ => None,
    }
}

/// A predicate with columns in place of the parameters that they equal: `b <> $1` is `b <> a` where `a = $1`.
fn without_parameters(predicate: &Expr, conjuncts: &[&Expr]) -> Expr {
    let mut predicate = predicate.clone();
    change_expressions(&mut predicate, |expr| {
        let equal = conjuncts.iter().filter_map(|conjunct| parameter(conjunct));
        let (mut equal, written) = (equal, expr.to_string());
        if let Some((column, _)) = equal.find(|(_, value)| value.to_string() == written) {
            *expr = column.clone();
        }
    });
    predicate
}

/// The columns that equal a parameter.
fn given_exprs(select: &Select) -> Vec<String> {
    let all = select.selection.iter().flat_map(conjuncts);
    all.filter_map(|conjunct| Some(parameter(conjunct)?.0.to_string())).collect()
}

/// What a column is called that has no other name.
fn column_name(expr: &Expr) -> Option<String> {
    matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_)).then(|| short_name(expr))
}

/// Order and limit, in names of the view. A name in an order is first of all that of a column which is
/// returned.
fn order_and_limit(query: &Query, columns: &Columns, returned: &[(String, String)]) -> Option<String> {
    let mut end = String::new();
    if let Some(order) = &query.order_by {
        let OrderByKind::Expressions(keys) = &order.kind else { return None };
        let keys = keys.iter().map(|key| {
            let written = key.expr.to_string();
            let output = returned.iter().find(|(_, output)| *output == written).map(|(column, _)| column);
            let column = || columns.0.iter().find(|(expr, name)| *expr == written || *name == written);
            let column = output.or_else(|| column().map(|(_, name)| name))?;
            Some(key.to_string().replacen(&written, column, 1))
        });
        end += &format!(" order by {}", keys.collect::<Option<Vec<_>>>()?.join(", "));
    }
    if let Some(limit) = &query.limit_clause {
        end += &format!(" {}", limit.to_string().trim().to_lowercase());
    }
    Some(end)
}

/// The columns of a view: expressions and names.
#[derive(Default)]
struct Columns(Vec<(String, String)>);

impl Columns {
    /// The name of an expression, as a column; a new one if it is none yet.
    fn add(&mut self, expr: &Expr, alias: Option<String>) -> String {
        let written = expr.to_string();
        if let Some((_, name)) = self.0.iter().find(|(existing, _)| *existing == written) {
            return name.clone();
        }
        let names = [
            alias.unwrap_or_else(|| short_name(expr)),
            qualified_name(expr),
            format!("column{}", self.0.len() + 1),
        ];
        let free = names.into_iter().find(|name| self.0.iter().all(|(_, existing)| existing != name));
        let name = free.unwrap_or_default();
        self.0.push((written, name.clone()));
        name
    }

    /// As a view lists them.
    fn list(&self) -> String {
        let column =
            |(expr, name): &(String, String)| match expr == name || expr.ends_with(&format!(".{name}")) {
                true => expr.clone(),
                false => format!("{expr} as {name}"),
            };
        self.0.iter().map(column).collect::<Vec<_>>().join(", ")
    }
}

/// `word` for `t1.word`, `n` for `count(*)`, `max_score` for `max(score)`.
fn short_name(expr: &Expr) -> String {
    match expr {
        Expr::CompoundIdentifier(parts) => {
            parts.last().map_or_else(String::new, |part| part.value.to_lowercase())
        }
        Expr::Function(call) => {
            let name = call.name.to_string().to_lowercase();
            let argument = match &call.args {
                FunctionArguments::List(list) => {
                    list.args.first().map(ToString::to_string).unwrap_or_default()
                }
                _ => String::new(),
            };
            match (name.as_str(), argument.as_str()) {
                ("count", "*") => "n".to_string(),
                (name, argument) => format!("{name}_{}", identifier(argument)),
            }
        }
        other => identifier(&other.to_string()),
    }
}

/// `t1_word` for `t1.word`.
fn qualified_name(expr: &Expr) -> String {
    identifier(&expr.to_string())
}

/// A name made of the letters and digits of an expression.
fn identifier(text: &str) -> String {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("_").to_lowercase()
}
