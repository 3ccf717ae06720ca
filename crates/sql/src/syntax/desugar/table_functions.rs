//! Table functions: `lateral unnest(…)`, options by name, and the names of series.
//!
//! ```sql
//! select * from read_csv('x.csv', header = true);  -- read_csv('x.csv', 'header', 'true')
//! select * from range(2), range(3);                -- range(2) as range, range(3) as range_1
//! ```

use crate::syntax::TIME_FUNCTIONS;
use crate::syntax::ast::string_literal;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, Ident, Select, TableAlias, TableFactor, Value,
};

/// `lateral unnest(…)` is `unnest(…)`, which sees the tables before it anyway.
pub(super) fn unnest(factor: &mut TableFactor) {
    let TableFactor::Function { name, args, alias, with_ordinality, .. } = factor else { return };
    let lists = args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(list)) => Some(list.clone()),
        _ => None,
    });
    if let (true, Some(array_exprs)) = (name.to_string().eq_ignore_ascii_case("unnest"), lists.collect()) {
        *factor = TableFactor::UNNEST {
            alias: alias.take(),
            array_exprs,
            with_offset: false,
            with_offset_alias: None,
            with_ordinality: *with_ordinality,
        };
    }
}

/// `read_csv('x', header = true)` as `read_csv('x', 'header', 'true')`.
pub(super) fn named_options(factor: &mut TableFactor) {
    let (name, args) = match factor {
        TableFactor::Table { name, args: Some(args), .. } => (name, &mut args.args),
        TableFactor::Function { name, args, .. } => (name, args),
        _ => return,
    };
    // These know the names of their arguments themselves.
    if TIME_FUNCTIONS.iter().any(|known| name.to_string().eq_ignore_ascii_case(known)) {
        return;
    }
    let literal = |text: String| Expr::Value(Value::SingleQuotedString(text).into());
    let mut positional = Vec::new();
    for arg in std::mem::take(args) {
        let (name, value) = match &arg {
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => (name.value.clone(), value),
            FunctionArg::ExprNamed {
                name: Expr::Identifier(name),
                arg: FunctionArgExpr::Expr(value),
                ..
            } => (name.value.clone(), value),
            FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::BinaryOp {
                left,
                op: BinaryOperator::Eq,
                right,
            })) if matches!(left.as_ref(), Expr::Identifier(_)) => (left.to_string(), right.as_ref()),
            _ => {
                positional.push(arg);
                continue;
            }
        };
        let value = string_literal(value).map_or_else(|| value.to_string(), str::to_string);
        positional
            .extend([name, value].map(|part| FunctionArg::Unnamed(FunctionArgExpr::Expr(literal(part)))));
    }
    *args = positional;
}

/// Functions as tables are called after themselves, and then numbered: `from range(2), range(3)`.
pub(super) fn name_series(select: &mut Select) {
    let mut seen: Vec<String> = Vec::new();
    for from in &mut select.from {
        for relation in [&mut from.relation].into_iter().chain(from.joins.iter_mut().map(|j| &mut j.relation))
        {
            let (TableFactor::Table { name, args: Some(_), alias, .. }
            | TableFactor::Function { name, alias, .. }) = relation
            else {
                continue;
            };
            let function = name.to_string().to_ascii_lowercase();
            if alias.is_some() || !matches!(function.as_str(), "range" | "generate_series") {
                continue;
            }
            let number = seen.iter().filter(|other| **other == function).count();
            let called = if number == 0 { function.clone() } else { format!("{function}_{number}") };
            *alias = Some(TableAlias { explicit: true, name: Ident::new(called), columns: vec![], at: None });
            seen.push(function);
        }
    }
}
