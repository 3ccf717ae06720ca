//! Predicates in the form that an index can use: equalities, lists, intervals, words, nulls.
//!
//! Literals are converted to the type of the column that they are compared with. One that lies between two
//! values of the type becomes an end of an interval; one that no value equals becomes null, which no row is
//! found by.

use super::block::{Block, Rows};
use super::equalities::Member;
use super::expressions::{columns, equality, relations};
use crate::datum::Type;
use crate::expression::as_double;
use crate::functions::HAS_TOKEN;
use crate::functions::after_prefix;
use crate::number::{Number, NumberPosition};
use crate::plan::Interval;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::expr::{InList, Placeholder};
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Like, Literal, Operator};
use std::collections::BTreeSet;

/// A predicate, and what an index can use of it.
#[derive(Debug, Clone)]
pub(super) struct Predicate {
    pub expr: Expr,
    /// The relations of its columns.
    pub relations: BTreeSet<String>,
    pub meaning: Meaning,
}

/// What an index can use of a predicate.
#[derive(Debug, Clone)]
pub(super) enum Meaning {
    /// Two members are equal.
    Equal(Member, Member),
    /// The column is one of these.
    In(Column, Vec<Expr>),
    /// One of these columns has the word.
    Words(Vec<Column>, Expr),
    /// The column is in the interval.
    Between(Column, Interval),
    /// The column is null.
    Null(Column),
    /// Nothing that an index can use.
    Other,
}

impl Predicate {
    /// The predicate that an expression is.
    pub fn of(expr: &Expr, block: &Block) -> Predicate {
        Predicate { expr: expr.clone(), relations: relations(expr), meaning: meaning_of(expr, block) }
    }
}

/// The meaning of an expression.
fn meaning_of(expr: &Expr, block: &Block) -> Meaning {
    if let Some((left, right)) = equality(expr) {
        return equal(left, right, block);
    }
    match expr {
        Expr::Column(column) => boolean_equality(column, true, block),
        Expr::Not(inner) => match inner.as_ref() {
            Expr::Column(column) => boolean_equality(column, false, block),
            _ => Meaning::Other,
        },
        Expr::IsNull(inner) => match inner.as_ref() {
            Expr::Column(column) if may_be_null(column, block) => Meaning::Null(column.clone()),
            _ => Meaning::Other,
        },
        // The values that are not null are an interval without ends.
        Expr::IsNotNull(inner) => match inner.as_ref() {
            Expr::Column(column) if may_be_null(column, block) => {
                Meaning::Between(column.clone(), Interval::default())
            }
            _ => Meaning::Other,
        },
        Expr::IsTrue(inner) => match inner.as_ref() {
            Expr::Column(column) => boolean_equality(column, true, block),
            _ => Meaning::Other,
        },
        Expr::InList(InList { expr, list, negated: false }) => match expr.as_ref() {
            Expr::Column(column) => match column_type(column, block) {
                Some(of) => {
                    let list = list.iter().map(|value| lookup_value(value, &of)).collect::<Option<Vec<_>>>();
                    list.map_or(Meaning::Other, |list| in_list(column, list, &of))
                }
                None => Meaning::Other,
            },
            _ => Meaning::Other,
        },
        Expr::ScalarFunction(call) if call.func.name() == HAS_TOKEN => words(&call.args),
        Expr::ScalarFunction(call) if call.func.name() == "starts_with" => match call.args.as_slice() {
            [Expr::Column(column), prefix] => prefix_interval(column, prefix, block),
            _ => Meaning::Other,
        },
        Expr::Like(like) => match (like.expr.as_ref(), prefix_of(like)) {
            (Expr::Column(column), Some(prefix)) => prefix_interval(column, &prefix, block),
            _ => Meaning::Other,
        },
        Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. }) => {
            let one_of = alternatives(expr, block).map(|(column, values)| Meaning::In(column, values));
            let between = || row_comparison(expr, block).or_else(|| optional_end(expr, block));
            let between = || between().map(|(column, interval)| Meaning::Between(column, interval));
            one_of.or_else(between).unwrap_or(Meaning::Other)
        }
        Expr::Between(Between { expr, negated: false, low, high }) => {
            let low = comparison(expr, Operator::GtEq, low, block);
            let high = comparison(expr, Operator::LtEq, high, block);
            match (low, high) {
                (Some((column, low)), Some((_, high))) => {
                    Meaning::Between(column, Interval { upper: high.upper, ..low })
                }
                _ => Meaning::Other,
            }
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let found =
                comparison(left, *op, right, block).or_else(|| comparison(right, op.swap()?, left, block));
            found.map_or(Meaning::Other, |(column, interval)| Meaning::Between(column, interval))
        }
        _ => Meaning::Other,
    }
}

/// `in (…)` without values that no value of the column equals.
fn in_list(column: &Column, mut list: Vec<Expr>, of: &DataType) -> Meaning {
    list.retain(|value| !is_null(value));
    match list.is_empty() {
        true => null_of(of).map_or(Meaning::Other, |nothing| {
            Meaning::Equal(Member::Column(column.clone()), Member::Constant(nothing))
        }),
        false => Meaning::In(column.clone(), list),
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
    match meaning_of(expr, block) {
        Meaning::Equal(Member::Column(column), Member::Constant(value)) => Some((column, vec![value])),
        // A list parameter cannot be combined with other values.
        Meaning::In(column, values) if values.iter().all(|value| matches!(value, Expr::Literal(..))) => {
            Some((column, values))
        }
        _ => None,
    }
}

/// `a < x or a = x and b < y`, which is `(a, b) < (x, y)`, over columns that are never null.
fn row_comparison(expr: &Expr, block: &Block) -> Option<(Column, Interval)> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) = expr else { return None };
    let Expr::BinaryExpr(BinaryExpr { left: equal, op: Operator::And, right: rest }) = right.as_ref() else {
        return None;
    };
    let (Meaning::Between(column, first), Meaning::Equal(Member::Column(same), Member::Constant(value))) =
        (meaning_of(left, block), meaning_of(equal, block))
    else {
        return None;
    };
    let Meaning::Between(next, rest) = meaning_of(rest, block) else { return None };
    let not_null = same == column && !may_be_null(&column, block) && !may_be_null(&next, block);
    let strict = first.then.is_empty() && !first.open && !rest.open;
    if !not_null || !strict {
        return None;
    }
    let then = |(next_value, _): &(Expr, bool)| {
        std::iter::once((next.clone(), next_value.clone())).chain(rest.then.clone()).collect()
    };
    match (first, &rest.lower, &rest.upper) {
        (Interval { lower: Some((of, false)), upper: None, .. }, Some(end), None) if of == value => {
            let lower = Some((of, end.1));
            Some((column, Interval { lower, then: then(end), ..Interval::default() }))
        }
        (Interval { lower: None, upper: Some((of, false)), .. }, None, Some(end)) if of == value => {
            let upper = Some((of, end.1));
            Some((column, Interval { upper, then: then(end), ..Interval::default() }))
        }
        _ => None,
    }
}

/// `$1 is null or at > $1`: an interval whose end is missing if the parameter is null.
fn optional_end(expr: &Expr, block: &Block) -> Option<(Column, Interval)> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) = expr else { return None };
    let (is_null, compared) = match (left.as_ref(), right.as_ref()) {
        (Expr::IsNull(value), other) | (other, Expr::IsNull(value)) => (value, other),
        _ => return None,
    };
    let Meaning::Between(column, interval) = meaning_of(compared, block) else { return None };
    let given = placeholder(is_null)?;
    match (&interval.lower, &interval.upper) {
        (Some((end, _)), None) | (None, Some((end, _)))
            if placeholder(end) == Some(given) && !interval.open =>
        {
            Some((column, Interval { open: true, ..interval }))
        }
        _ => None,
    }
}

/// The parameter that an expression is, cast or not.
fn placeholder(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Placeholder(Placeholder { id, .. }) => Some(id),
        Expr::Cast(cast) => placeholder(&cast.expr),
        _ => None,
    }
}

/// The interval of the texts with a prefix.
fn prefix_interval(column: &Column, prefix: &Expr, block: &Block) -> Meaning {
    match column_type(column, block).and_then(|of| constant(prefix, &of).filter(|_| of == DataType::Utf8)) {
        Some(prefix) => {
            let end = after_prefix().call(vec![prefix.clone()]);
            let interval =
                Interval { lower: Some((prefix, true)), upper: Some((end, false)), ..Interval::default() };
            Meaning::Between(column.clone(), interval)
        }
        None => Meaning::Other,
    }
}

/// `wh` of `like 'wh%'`; `None` if the pattern is more than a prefix.
fn prefix_of(like: &Like) -> Option<Expr> {
    let Expr::Literal(ScalarValue::Utf8(Some(pattern)), _) = like.pattern.as_ref() else { return None };
    let prefix = pattern.strip_suffix('%')?;
    let plain = !like.negated && !like.case_insensitive && like.escape_char.is_none();
    (plain && !prefix.contains(['%', '_', '\\'])).then(|| prefix.lit())
}

/// A boolean column that is compared with a constant: `approved`, `not approved`.
fn boolean_equality(column: &Column, value: bool, block: &Block) -> Meaning {
    match column_type(column, block) {
        Some(DataType::Boolean) => {
            let value = Expr::Literal(ScalarValue::Boolean(Some(value)), None);
            Meaning::Equal(Member::Column(column.clone()), Member::Constant(value))
        }
        _ => Meaning::Other,
    }
}

/// The meaning of `left = right`.
fn equal(left: &Expr, right: &Expr, block: &Block) -> Meaning {
    match (left, right) {
        (Expr::Column(left), Expr::Column(right)) => {
            match (column_type(left, block), column_type(right, block)) {
                // `a = a` means that `a` is not null, which is no equality of two members.
                (Some(a), Some(b)) if left != right && Type::same_keys(&a, &b) => {
                    Meaning::Equal(Member::Column(left.clone()), Member::Column(right.clone()))
                }
                _ => Meaning::Other,
            }
        }
        (Expr::Column(column), other) | (other, Expr::Column(column)) => {
            let value = column_type(column, block).and_then(|of| lookup_value(other, &of));
            value.map_or(Meaning::Other, |value| {
                Meaning::Equal(Member::Column(column.clone()), Member::Constant(value))
            })
        }
        _ => Meaning::Other,
    }
}

/// The meaning of `has_token(word, columns…)`.
fn words(args: &[Expr]) -> Meaning {
    let [word, texts @ ..] = args else { return Meaning::Other };
    let columns = texts.iter().map(|text| match text {
        Expr::Column(column) => Some(column.clone()),
        _ => None,
    });
    match (constant(word, &DataType::Utf8), columns.collect::<Option<Vec<_>>>()) {
        (Some(word), Some(columns)) if !columns.is_empty() => Meaning::Words(columns, word),
        _ => Meaning::Other,
    }
}

/// The interval that `column op value` is, if it is one.
fn comparison(column: &Expr, op: Operator, value: &Expr, block: &Block) -> Option<(Column, Interval)> {
    let Expr::Column(column) = column else { return None };
    let of = column_type(column, block)?;
    let (lower, with) = match op {
        Operator::Gt => (true, false),
        Operator::GtEq => (true, true),
        Operator::Lt => (false, false),
        Operator::LtEq => (false, true),
        _ => return None,
    };
    let end = Some(match value {
        Expr::Literal(value, _) => end(value, &of, lower, with)?,
        other => (constant(other, &of)?, with),
    });
    let (lower, upper) = if lower { (end, None) } else { (None, end) };
    Some((column.clone(), Interval { lower, upper, ..Interval::default() }))
}

/// An end of an interval as a value of the column's type, and whether the interval includes it. A null end
/// makes the interval empty.
fn end(value: &ScalarValue, of: &DataType, lower: bool, with: bool) -> Option<(Expr, bool)> {
    let literal = |value| Expr::Literal(value, None);
    Some(match position(value, of)? {
        NumberPosition::Exact(value) => (literal(value), with),
        NumberPosition::Between(below) => (literal(below), !lower),
        NumberPosition::BelowAll(least) if lower => (literal(least), true),
        NumberPosition::AboveAll(greatest) if !lower => (literal(greatest), true),
        NumberPosition::BelowAll(_) | NumberPosition::AboveAll(_) => (null_of(of)?, with),
    })
}

/// The position of a value among those of a type.
fn position(value: &ScalarValue, of: &DataType) -> Option<NumberPosition> {
    if value.is_null() {
        return Some(NumberPosition::Exact(ScalarValue::try_from(of).ok()?));
    }
    if let Some(among) = Number::of(value).and_then(|number| number.position(of)) {
        return Some(among);
    }
    if let (Some(value), DataType::Float64) = (as_double(value), of) {
        return Some(NumberPosition::Exact(value));
    }
    let cast = value.cast_to(of).ok().filter(|cast| !cast.is_null())?;
    let back = cast.cast_to(&value.data_type()).ok()?;
    // A timestamp can be written in several ways.
    let instant = matches!((value, of), (ScalarValue::Utf8(_), DataType::Timestamp(..)));
    match instant || back == *value {
        true => Some(NumberPosition::Exact(cast)),
        false => (back < *value && of.is_temporal()).then_some(NumberPosition::Between(cast)),
    }
}

/// The null of a type. Nothing equals it.
fn null_of(of: &DataType) -> Option<Expr> {
    Some(Expr::Literal(ScalarValue::try_from(of).ok()?, None))
}

/// Whether an expression is the literal null.
fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(value, _) if value.is_null())
}

/// The value that a lookup uses; null if no value of the type equals it.
fn lookup_value(expr: &Expr, of: &DataType) -> Option<Expr> {
    match expr {
        Expr::Literal(value, _) => match position(value, of)? {
            NumberPosition::Exact(value) => Some(Expr::Literal(value, None)),
            NumberPosition::Between(_) | NumberPosition::BelowAll(_) | NumberPosition::AboveAll(_) => {
                null_of(of)
            }
        },
        other => constant(other, of),
    }
}

/// Whether a column can be null.
fn may_be_null(column: &Column, block: &Block) -> bool {
    let Some(alias) = column.relation.as_ref() else { return false };
    let relation = block.relations.iter().find(|relation| relation.alias == alias.table());
    relation.is_some_and(|relation| match &relation.rows {
        Rows::Stored(table) => table.column(&column.name).is_ok_and(|at| table.columns[at].is_nullable()),
        Rows::Derived(_) => false,
    })
}

/// The type of a column of a stored or derived relation.
pub(super) fn column_type(column: &Column, block: &Block) -> Option<DataType> {
    let alias = column.relation.as_ref()?.table();
    let relation = block.relations.iter().find(|relation| relation.alias == alias)?;
    match &relation.rows {
        Rows::Stored(table) => Some(table.columns[table.column(&column.name).ok()?].of.arrow()),
        Rows::Derived(chain) => crate::expression::column_type(chain, &column.name),
    }
}

/// The expression as a constant of this type, converted without loss; `None` if that is not possible.
fn constant(expr: &Expr, of: &DataType) -> Option<Expr> {
    match expr {
        Expr::Literal(value, _) => match position(value, of)? {
            NumberPosition::Exact(value) if !value.is_null() => Some(Expr::Literal(value, None)),
            _ => None,
        },
        Expr::Placeholder(Placeholder { id, field }) => {
            let given = field.as_ref().map(|field| field.data_type());
            let same = given.is_none_or(|given| Type::same_keys(given, of) || *given == DataType::Null);
            same.then(|| {
                crate::expression::placeholder(id, given.filter(|g| **g != DataType::Null).unwrap_or(of))
            })
        }
        other if columns(other).is_empty() => match (crate::expression::typed_constant(other)?, of) {
            ((typed, given), of) if Type::same_keys(&given, of) => Some(typed),
            // Timestamp literals have nanoseconds, columns have microseconds.
            ((typed, DataType::Timestamp(_, None)), DataType::Timestamp(..)) => {
                Some(Expr::Cast(datafusion::logical_expr::Cast::new(Box::new(typed), of.clone())))
            }
            _ => None,
        },
        _ => None,
    }
}
