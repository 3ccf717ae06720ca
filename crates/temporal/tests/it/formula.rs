//! Expressions, as the engine evaluates them and as the oracle does.

use crate::model::{Row, Value};
use arrow::datatypes::SchemaRef;
use datafusion::common::ScalarValue;
use datafusion::functions::core::r#struct;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use std::sync::Arc;

#[derive(Debug, Clone)]
pub enum Formula {
    Column(usize),
    Int(i64),
    Float(f64),
    Binary(Box<Formula>, Operator, Box<Formula>),
    /// A struct of two fields.
    Pair(Box<Formula>, Box<Formula>),
}

impl Formula {
    pub fn column(index: usize) -> Formula {
        Formula::Column(index)
    }

    pub fn binary(self, op: Operator, right: Formula) -> Formula {
        Formula::Binary(Box::new(self), op, Box::new(right))
    }

    pub fn pair(first: usize, second: usize) -> Formula {
        Formula::Pair(Box::new(Formula::Column(first)), Box::new(Formula::Column(second)))
    }

    pub fn physical(&self, schema: &SchemaRef) -> Arc<dyn PhysicalExpr> {
        match self {
            Formula::Column(index) => Arc::new(Column::new(schema.field(*index).name(), *index)),
            Formula::Int(i) => Arc::new(Literal::new(ScalarValue::Int64(Some(*i)))),
            Formula::Float(f) => Arc::new(Literal::new(ScalarValue::Float64(Some(*f)))),
            Formula::Binary(l, op, r) => {
                Arc::new(BinaryExpr::new(l.physical(schema), *op, r.physical(schema)))
            }
            Formula::Pair(l, r) => {
                let fields = vec![l.physical(schema), r.physical(schema)];
                let pair = ScalarFunctionExpr::try_new(r#struct(), fields, schema, Arc::default());
                Arc::new(pair.expect("a struct of any two"))
            }
        }
    }

    pub fn eval(&self, row: &Row) -> Value {
        match self {
            Formula::Column(index) => row[*index].clone(),
            Formula::Int(i) => Value::Int(*i),
            Formula::Float(f) => Value::Float(*f),
            Formula::Binary(left, op, right) => binary(left.eval(row), *op, right.eval(row)),
            Formula::Pair(first, second) => Value::Struct(vec![first.eval(row), second.eval(row)]),
        }
    }

    /// The same over columns that have other numbers.
    pub fn renumbered(&self, number: &dyn Fn(usize) -> usize) -> Formula {
        match self {
            Formula::Column(index) => Formula::Column(number(*index)),
            Formula::Binary(l, op, r) => l.renumbered(number).binary(*op, r.renumbered(number)),
            other => other.clone(),
        }
    }

    /// Whether it is true; unknown is not.
    pub fn holds(&self, row: &Row) -> bool {
        self.eval(row) == Value::Bool(true)
    }
}

fn binary(left: Value, op: Operator, right: Value) -> Value {
    use Value::*;
    match (&left, op, &right) {
        // Kleene's logic: an unknown side does not matter if the other one decides.
        (Bool(false), Operator::And, _) | (_, Operator::And, Bool(false)) => Bool(false),
        (Bool(true), Operator::Or, _) | (_, Operator::Or, Bool(true)) => Bool(true),
        (Null, _, _) | (_, _, Null) => Null,
        (Bool(a), Operator::And, Bool(b)) => Bool(*a && *b),
        (Bool(a), Operator::Or, Bool(b)) => Bool(*a || *b),
        (_, Operator::Lt, _) => Bool(compared(left) < compared(right)),
        (_, Operator::GtEq, _) => Bool(compared(left) >= compared(right)),
        (_, Operator::Eq, _) => Bool(compared(left) == compared(right)),
        (_, Operator::NotEq, _) => Bool(compared(left) != compared(right)),
        (Int(a), Operator::Plus, Int(b)) => Int(a.wrapping_add(*b)),
        (Int(a), Operator::Minus, Int(b)) => Int(a.wrapping_sub(*b)),
        (Int(a), Operator::Multiply, Int(b)) => Int(a.wrapping_mul(*b)),
        (Int(a), Operator::Divide, Int(b)) => Int(a / b),
        (Int(a), Operator::Modulo, Int(b)) => Int(a % b),
        (Float(a), Operator::Plus, Float(b)) => Float(a + b),
        (Float(a), Operator::Multiply, Float(b)) => Float(a * b),
        _ => panic!("{left:?} {op} {right:?} is not in the model"),
    }
}

/// What comparisons of expressions look at: to them -0.0 is 0.0, but a NaN has a sign.
fn compared(value: Value) -> Value {
    match value {
        Value::Float(number) => Value::Float(number + 0.0),
        other => other,
    }
}
