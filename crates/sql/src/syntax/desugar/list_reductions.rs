//! Aggregates as functions of the list of a group's values.

use crate::syntax::ast::{arguments, call};
use datafusion::sql::sqlparser::ast::{Expr, Function, FunctionArguments, Ident, ObjectName};

/// `mode(x)` as `list_mode(array_agg(x))`; what stands behind the first argument is one of the function of
/// lists.
pub(super) fn of_list(reduction: &str, function: &mut Function) -> Option<Expr> {
    let mut args = arguments(function)?;
    if args.is_empty() {
        return None;
    }
    let rest = args.split_off(1);
    let FunctionArguments::List(list) = &mut function.args else { return None };
    list.args.truncate(1);
    function.name = ObjectName::from(vec![Ident::new("array_agg")]);
    let values = Expr::Function(function.clone());
    Some(call(reduction, [values].into_iter().chain(rest).collect()))
}
