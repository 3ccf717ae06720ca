//! Expressions of DataFusion as those that can be compiled.

use super::super::arithmetic::integer_formula;
use super::super::formula::Formula;
use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, Literal, NegativeExpr,
    NotExpr, TryCastExpr,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use std::collections::HashMap;
use std::sync::Arc;
use whimbrel_native::{Arithmetic, Comparison, Expression, Kind};

/// A list of more values is looked up faster than it is compared.
const MAX_LIST: usize = 8;

/// An expression of more operations is not compiled as one: that takes long, and so does every walk over it.
const MAX_OPERATIONS: usize = 256;

/// The same of expressions that are not translated yet.
const MAX_PARTS: usize = 2 * MAX_OPERATIONS;

/// Kernels compute this many operations of numbers faster than one loop over the rows does.
const FEW_OPERATIONS: usize = 4;

/// An expression that can be compiled.
pub(super) struct Translation {
    /// The expression, over columns numbered from 0 on.
    pub expression: Expression,
    /// Which columns of the batch these are.
    pub columns: Vec<usize>,
}

impl Translation {
    /// Whether machine code is faster than kernels. These have vector instructions for one operation, and
    /// none for a choice: they take the rows of each branch apart.
    pub fn is_worthwhile(&self) -> bool {
        has_choice(&self.expression)
            || has_division(&self.expression) && self.expression.operations() > FEW_OPERATIONS
    }
}

/// Translates an expression over these columns; none if it cannot be compiled.
pub(super) fn translate(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<Translation> {
    let mut translator = Translator { schema, columns: Vec::new() };
    let expression = translator.expression(expr)?;
    let kind = Kind::of(&expr.data_type(schema).ok()?)?;
    let is_computed =
        !translator.columns.is_empty() && (1..=MAX_OPERATIONS).contains(&expression.operations());
    (is_computed && expression.kind() == Some(kind))
        .then_some(Translation { expression, columns: translator.columns })
}

/// What is known of an expression before it is translated.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    /// How many expressions it is made of, itself included.
    parts: usize,
    /// Whether something in it may be worth it.
    pub is_promising: bool,
}

impl Size {
    /// Whether it is too large to be compiled as one.
    pub fn is_too_large(self) -> bool {
        self.parts > MAX_PARTS
    }
}

/// The sizes of expressions, by their addresses.
pub(super) type Sizes = HashMap<*const (), Size>;

/// Measures an expression and all its parts. Conditions may have a million.
pub(super) fn measure(expr: &Arc<dyn PhysicalExpr>, sizes: &mut Sizes) -> Size {
    let is_division = |binary: &BinaryExpr| matches!(binary.op(), Operator::Divide | Operator::Modulo);
    let is_promising = expr.is::<CaseExpr>() || expr.downcast_ref::<BinaryExpr>().is_some_and(is_division);
    let own = Size { parts: 1, is_promising };
    let size = expr.children().into_iter().fold(own, |sum, part| {
        let part = measure(part, sizes);
        Size { parts: sum.parts + part.parts, is_promising: sum.is_promising || part.is_promising }
    });
    sizes.insert(Arc::as_ptr(expr).cast(), size);
    size
}

/// Whether an expression may be rebuilt with other operands. Others may change while they run.
pub(super) fn is_known(expr: &Arc<dyn PhysicalExpr>) -> bool {
    expr.is::<BinaryExpr>()
        || expr.is::<CaseExpr>()
        || expr.is::<CastExpr>()
        || expr.is::<TryCastExpr>()
        || expr.is::<NotExpr>()
        || expr.is::<IsNullExpr>()
        || expr.is::<IsNotNullExpr>()
        || expr.is::<NegativeExpr>()
        || expr.is::<InListExpr>()
        || expr.is::<ScalarFunctionExpr>()
}

/// Whether a value is chosen by a condition.
fn has_choice(expression: &Expression) -> bool {
    matches!(expression, Expression::Case { .. }) || expression.operands().into_iter().any(has_choice)
}

/// Whether integers are divided.
fn has_division(expression: &Expression) -> bool {
    let is_division =
        |operation: &Arithmetic| matches!(operation, Arithmetic::Divide | Arithmetic::Remainder);
    matches!(expression, Expression::Arithmetic(operation, _) if is_division(operation))
        || expression.operands().into_iter().any(has_division)
}

struct Translator<'a> {
    schema: &'a Schema,
    columns: Vec<usize>,
}

impl Translator<'_> {
    fn expression(&mut self, expr: &Arc<dyn PhysicalExpr>) -> Option<Expression> {
        if let Some(column) = expr.downcast_ref::<Column>() {
            return self.column(column.index());
        }
        if let Some(literal) = expr.downcast_ref::<Literal>() {
            return constant(literal.value());
        }
        if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
            return self.binary(binary);
        }
        if let Some(case) = expr.downcast_ref::<CaseExpr>() {
            return self.case(case);
        }
        if let Some(cast) = expr.downcast_ref::<CastExpr>() {
            return self.cast(cast.expr(), cast.cast_type(), cast.cast_options().safe);
        }
        if let Some(cast) = expr.downcast_ref::<TryCastExpr>() {
            return self.cast(cast.expr(), cast.cast_type(), true);
        }
        if let Some(not) = expr.downcast_ref::<NotExpr>() {
            return Some(Expression::negation(self.expression(not.arg())?));
        }
        if let Some(test) = expr.downcast_ref::<IsNullExpr>() {
            return Some(Expression::null_test(self.expression(test.arg())?));
        }
        if let Some(test) = expr.downcast_ref::<IsNotNullExpr>() {
            return Some(Expression::negation(Expression::null_test(self.expression(test.arg())?)));
        }
        if let Some(negative) = expr.downcast_ref::<NegativeExpr>() {
            return Some(Expression::Negated(Box::new(self.expression(negative.arg())?)));
        }
        if let Some(list) = expr.downcast_ref::<InListExpr>() {
            return self.list(list);
        }
        self.call(expr.downcast_ref::<ScalarFunctionExpr>()?)
    }

    fn column(&mut self, index: usize) -> Option<Expression> {
        let kind = Kind::of(self.schema.fields().get(index)?.data_type())?;
        let known = self.columns.iter().position(|column| *column == index);
        let number = known.unwrap_or_else(|| {
            self.columns.push(index);
            self.columns.len() - 1
        });
        Some(Expression::Column(number, kind))
    }

    fn binary(&mut self, binary: &BinaryExpr) -> Option<Expression> {
        let types = (binary.left().data_type(self.schema).ok()?, binary.right().data_type(self.schema).ok()?);
        if types.0 != types.1 {
            return None;
        }
        let (left, right) = (self.expression(binary.left())?, self.expression(binary.right())?);
        if let Some(comparison) = comparison_of(*binary.op()) {
            return Some(Expression::comparison(comparison, left, right));
        }
        match binary.op() {
            Operator::And => Some(Expression::and(left, right)),
            Operator::Or => Some(Expression::or(left, right)),
            // Sums of integers are formulas; those that are not wrap around.
            Operator::Plus | Operator::Minus | Operator::Multiply if types.0.is_floating() => {
                Some(Expression::arithmetic(arithmetic_of(*binary.op())?, left, right))
            }
            Operator::Divide if types.0.is_integer() || types.0.is_floating() => {
                Some(Expression::arithmetic(Arithmetic::Divide, left, right))
            }
            Operator::Modulo if types.0.is_integer() => {
                Some(Expression::arithmetic(Arithmetic::Remainder, left, right))
            }
            _ => None,
        }
    }

    fn case(&mut self, case: &CaseExpr) -> Option<Expression> {
        let operand = match case.expr() {
            Some(operand) => Some((self.expression(operand)?, operand.data_type(self.schema).ok()?)),
            None => None,
        };
        let mut branches = Vec::with_capacity(case.when_then_expr().len());
        for (when, then) in case.when_then_expr() {
            let condition = self.expression(when)?;
            let condition = match &operand {
                Some((operand, data_type)) if when.data_type(self.schema).ok()? == *data_type => {
                    Expression::comparison(Comparison::Equal, operand.clone(), condition)
                }
                Some(_) => return None,
                None => condition,
            };
            branches.push([condition, self.expression(then)?]);
        }
        let otherwise = match case.else_expr() {
            Some(otherwise) => self.expression(otherwise)?,
            None => Expression::Constant(branches.first()?[1].kind()?, None),
        };
        Some(Expression::Case { branches, otherwise: Box::new(otherwise) })
    }

    fn cast(&mut self, of: &Arc<dyn PhysicalExpr>, to: &DataType, or_null: bool) -> Option<Expression> {
        let from = of.data_type(self.schema).ok()?;
        let is_number = |of: &DataType| of.is_integer() || of.is_floating();
        if from == *to || !is_number(&from) || !is_number(to) {
            return None;
        }
        Some(Expression::Cast { of: Box::new(self.expression(of)?), to: Kind::of(to)?, or_null })
    }

    fn list(&mut self, list: &InListExpr) -> Option<Expression> {
        let data_type = list.expr().data_type(self.schema).ok()?;
        if list.list().is_empty() || list.list().len() > MAX_LIST || data_type.is_floating() {
            return None;
        }
        let value = self.expression(list.expr())?;
        let mut found: Option<Expression> = None;
        for member in list.list() {
            if member.data_type(self.schema).ok()? != data_type {
                return None;
            }
            let is_member =
                Expression::comparison(Comparison::Equal, value.clone(), self.expression(member)?);
            found = Some(match found {
                Some(found) => Expression::or(found, is_member),
                None => is_member,
            });
        }
        match list.negated() {
            true => found.map(Expression::negation),
            false => found,
        }
    }

    fn call(&mut self, call: &ScalarFunctionExpr) -> Option<Expression> {
        if let Some(formula) = integer_formula(call.fun()) {
            let arguments = call.args().iter().map(|argument| self.expression(argument));
            return formula_of(formula, &arguments.collect::<Option<Vec<_>>>()?);
        }
        match call.args() {
            [float] if whimbrel_plan::is_canonical(call.fun()) => {
                Some(Expression::Canonical(Box::new(self.expression(float)?)))
            }
            _ => None,
        }
    }
}

/// A formula over these arguments.
fn formula_of(formula: &Formula, arguments: &[Expression]) -> Option<Expression> {
    match formula {
        Formula::Argument(number) => arguments.get(*number).cloned(),
        Formula::Operation(op, left, right) => Some(Expression::arithmetic(
            arithmetic_of(*op)?,
            formula_of(left, arguments)?,
            formula_of(right, arguments)?,
        )),
    }
}

fn arithmetic_of(op: Operator) -> Option<Arithmetic> {
    Some(match op {
        Operator::Plus => Arithmetic::Add,
        Operator::Minus => Arithmetic::Subtract,
        Operator::Multiply => Arithmetic::Multiply,
        _ => return None,
    })
}

fn comparison_of(op: Operator) -> Option<Comparison> {
    Some(match op {
        Operator::Eq => Comparison::Equal,
        Operator::NotEq => Comparison::NotEqual,
        Operator::Lt => Comparison::Less,
        Operator::LtEq => Comparison::LessOrEqual,
        Operator::Gt => Comparison::Greater,
        Operator::GtEq => Comparison::GreaterOrEqual,
        _ => return None,
    })
}

/// A literal, as its bits.
fn constant(value: &ScalarValue) -> Option<Expression> {
    let kind = Kind::of(&value.data_type())?;
    if value.is_null() {
        return Some(Expression::Constant(kind, None));
    }
    let array = value.to_array().ok()?;
    if kind == Kind::Bool {
        return Some(Expression::Constant(kind, Some(u64::from(array.as_boolean().value(0)))));
    }
    let (data, mut bytes) = (array.to_data(), [0; 8]);
    let first = data.offset() * kind.bytes();
    let own = data.buffers().first()?.get(first..first + kind.bytes())?;
    bytes[..own.len()].copy_from_slice(own);
    Some(Expression::Constant(kind, Some(u64::from_le_bytes(bytes))))
}
