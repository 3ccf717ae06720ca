//! What a predicate says that an index can use.

use super::block::{Block, Rows, equality};
use super::equalities::Member;
use crate::datum::Type;
use crate::plan::Interval;
use crate::prefix::after_prefix;
use crate::words::HAS_TOKEN;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::expr::{InList, Placeholder};
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Like, Literal, Operator};
use std::collections::BTreeSet;

/// A predicate, and what it says.
#[derive(Debug, Clone)]
pub(super) struct Predicate {
    pub expr: Expr,
    /// The relations that it speaks of.
    pub relations: BTreeSet<String>,
    pub says: Says,
}

#[derive(Debug, Clone)]
pub(super) enum Says {
    /// These are equal.
    Equal(Member, Member),
    /// The column is one of these.
    In(Column, Vec<Expr>),
    /// One of these columns has the word.
    Words(Vec<Column>, Expr),
    /// The column is in the interval.
    Between(Column, Interval),
    /// Something that no index knows.
    Other,
}

impl Predicate {
    pub fn of(expr: &Expr, block: &Block) -> Predicate {
        Predicate { expr: expr.clone(), relations: relations(expr), says: says(expr, block) }
    }
}

/// The relations whose columns are in an expression.
pub(super) fn relations(expr: &Expr) -> BTreeSet<String> {
    columns(expr).into_iter().filter_map(|column| column.relation.map(|r| r.table().to_string())).collect()
}

pub(super) fn columns(expr: &Expr) -> Vec<Column> {
    let mut found = Vec::new();
    // The closure does not fail.
    let _ = expr.apply(|expr| {
        if let Expr::Column(column) = expr {
            found.push(column.clone());
        }
        Ok(TreeNodeRecursion::Continue)
    });
    found
}

fn says(expr: &Expr, block: &Block) -> Says {
    if let Some((left, right)) = equality(expr) {
        return equal(left, right, block);
    }
    match expr {
        Expr::Column(column) => truth(column, true, block),
        Expr::Not(inner) => match inner.as_ref() {
            Expr::Column(column) => truth(column, false, block),
            _ => Says::Other,
        },
        Expr::IsTrue(inner) => match inner.as_ref() {
            Expr::Column(column) => truth(column, true, block),
            _ => Says::Other,
        },
        Expr::InList(InList { expr, list, negated: false }) => match expr.as_ref() {
            Expr::Column(column) => match column_type(column, block) {
                Some(of) => {
                    let list = list.iter().map(|value| constant(value, &of)).collect::<Option<Vec<_>>>();
                    list.map_or(Says::Other, |list| Says::In(column.clone(), list))
                }
                None => Says::Other,
            },
            _ => Says::Other,
        },
        Expr::ScalarFunction(call) if call.func.name() == HAS_TOKEN => words(&call.args),
        Expr::ScalarFunction(call) if call.func.name() == "starts_with" => match call.args.as_slice() {
            [Expr::Column(column), prefix] => begins(column, prefix, block),
            _ => Says::Other,
        },
        Expr::Like(like) => match (like.expr.as_ref(), prefix_of(like)) {
            (Expr::Column(column), Some(prefix)) => begins(column, &prefix, block),
            _ => Says::Other,
        },
        Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. }) => {
            alternatives(expr, block).map_or(Says::Other, |(column, values)| Says::In(column, values))
        }
        Expr::Between(Between { expr, negated: false, low, high }) => {
            let low = compared(expr, Operator::GtEq, low, block);
            let high = compared(expr, Operator::LtEq, high, block);
            match (low, high) {
                (Some((column, low)), Some((_, high))) => {
                    Says::Between(column, Interval { lower: low.lower, upper: high.upper })
                }
                _ => Says::Other,
            }
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let found =
                compared(left, *op, right, block).or_else(|| compared(right, op.swap()?, left, block));
            found.map_or(Says::Other, |(column, interval)| Says::Between(column, interval))
        }
        _ => Says::Other,
    }
}

/// `a = 1 or a = 2` as `a in (1, 2)`.
fn alternatives(expr: &Expr, block: &Block) -> Option<(Column, Vec<Expr>)> {
    if let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) = expr {
        let (column, mut values) = alternatives(left, block)?;
        let (other, others) = alternatives(right, block)?;
        values.extend(others);
        return (column == other).then_some((column, values));
    }
    match says(expr, block) {
        Says::Equal(Member::Column(column), Member::Constant(value)) => Some((column, vec![value])),
        // One that is given with the call cannot be put together with others.
        Says::In(column, values) if values.iter().all(|value| matches!(value, Expr::Literal(..))) => {
            Some((column, values))
        }
        _ => None,
    }
}

/// The texts that begin with a prefix are an interval.
fn begins(column: &Column, prefix: &Expr, block: &Block) -> Says {
    match column_type(column, block).and_then(|of| constant(prefix, &of).filter(|_| of == DataType::Utf8)) {
        Some(prefix) => {
            let end = after_prefix().call(vec![prefix.clone()]);
            let interval = Interval { lower: Some((prefix, true)), upper: Some((end, false)) };
            Says::Between(column.clone(), interval)
        }
        None => Says::Other,
    }
}

/// `wh` of `like 'wh%'`; none if the pattern says more.
fn prefix_of(like: &Like) -> Option<Expr> {
    let Expr::Literal(ScalarValue::Utf8(Some(pattern)), _) = like.pattern.as_ref() else { return None };
    let prefix = pattern.strip_suffix('%')?;
    let plain = !like.negated && !like.case_insensitive && like.escape_char.is_none();
    (plain && !prefix.contains(['%', '_', '\\'])).then(|| prefix.lit())
}

fn truth(column: &Column, value: bool, block: &Block) -> Says {
    match column_type(column, block) {
        Some(DataType::Boolean) => {
            let value = Expr::Literal(ScalarValue::Boolean(Some(value)), None);
            Says::Equal(Member::Column(column.clone()), Member::Constant(value))
        }
        _ => Says::Other,
    }
}

fn equal(left: &Expr, right: &Expr, block: &Block) -> Says {
    match (left, right) {
        (Expr::Column(left), Expr::Column(right)) => {
            match (column_type(left, block), column_type(right, block)) {
                (Some(a), Some(b)) if Type::same_keys(&a, &b) => {
                    Says::Equal(Member::Column(left.clone()), Member::Column(right.clone()))
                }
                _ => Says::Other,
            }
        }
        (Expr::Column(column), other) | (other, Expr::Column(column)) => {
            let value = column_type(column, block).and_then(|of| constant(other, &of));
            value.map_or(Says::Other, |value| {
                Says::Equal(Member::Column(column.clone()), Member::Constant(value))
            })
        }
        _ => Says::Other,
    }
}

fn words(args: &[Expr]) -> Says {
    let [word, texts @ ..] = args else { return Says::Other };
    let columns = texts.iter().map(|text| match text {
        Expr::Column(column) => Some(column.clone()),
        _ => None,
    });
    match (constant(word, &DataType::Utf8), columns.collect::<Option<Vec<_>>>()) {
        (Some(word), Some(columns)) if !columns.is_empty() => Says::Words(columns, word),
        _ => Says::Other,
    }
}

fn compared(column: &Expr, op: Operator, value: &Expr, block: &Block) -> Option<(Column, Interval)> {
    let Expr::Column(column) = column else { return None };
    let value = constant(value, &column_type(column, block)?)?;
    let interval = match op {
        Operator::Gt => Interval { lower: Some((value, false)), upper: None },
        Operator::GtEq => Interval { lower: Some((value, true)), upper: None },
        Operator::Lt => Interval { lower: None, upper: Some((value, false)) },
        Operator::LtEq => Interval { lower: None, upper: Some((value, true)) },
        _ => return None,
    };
    Some((column.clone(), interval))
}

/// The type of a column of a stored or derived relation.
pub(super) fn column_type(column: &Column, block: &Block) -> Option<DataType> {
    let alias = column.relation.as_ref()?.table();
    let relation = block.relations.iter().find(|relation| relation.alias == alias)?;
    match &relation.rows {
        Rows::Stored(table) => Some(table.columns[table.column(&column.name).ok()?].of.arrow()),
        Rows::Derived(chain) => super::types::column_of(chain, &column.name),
    }
}

/// The expression as a value of this type that is the same in all rows, without loss; `None` if it is not one.
fn constant(expr: &Expr, of: &DataType) -> Option<Expr> {
    match expr {
        Expr::Literal(value, _) => {
            let cast = value.cast_to(of).ok()?;
            let back = cast.cast_to(&value.data_type()).ok()?;
            // An instant is written in more than one way.
            let instant = matches!((value, of), (ScalarValue::Utf8(_), DataType::Timestamp(..)));
            ((instant || back == *value) && !cast.is_null()).then(|| Expr::Literal(cast, None))
        }
        Expr::Placeholder(Placeholder { id, field }) => {
            let given = field.as_ref().map(|field| field.data_type());
            let same = given.is_none_or(|given| Type::same_keys(given, of) || *given == DataType::Null);
            same.then(|| super::types::placeholder(id, given.filter(|g| **g != DataType::Null).unwrap_or(of)))
        }
        other if columns(other).is_empty() => match (super::types::of_constant(other)?, of) {
            (given, of) if given == *of => Some(other.clone()),
            // A written instant has nanoseconds, a stored one microseconds.
            (DataType::Timestamp(_, None), DataType::Timestamp(..)) => {
                Some(Expr::Cast(datafusion::logical_expr::Cast::new(Box::new(other.clone()), of.clone())))
            }
            _ => None,
        },
        _ => None,
    }
}
