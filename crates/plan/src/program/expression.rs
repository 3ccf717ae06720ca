//! Prints expressions as Python: operators, methods of `Expr`, and functions `wb.fn.…`.
//!
//! Invariant: the Python package builds the same expression from the text. An operator that has another
//! meaning in Python is printed as a function, or is an error.

use super::document::Doc;
use super::literal::{
    CastLiteral, literal_for_comparison, literal_for_operand, python_string, python_value, type_name,
    typed_literal,
};
use super::scalar_functions::Functions;
use super::variable_names::is_name;
use arrow::datatypes::DataType;
use datafusion::common::{Column, DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::{Cast, InList, ScalarFunction};
use datafusion::logical_expr::utils::split_binary;
use datafusion::logical_expr::{Between, BinaryExpr, Case, Expr, ExprSchemable, Like, Operator};

/// Precedences of Python: a larger number binds tighter.
const CALL: u8 = 10;
const UNARY: u8 = 8;

/// Prints expressions over a schema.
pub(super) struct ExprWriter<'a> {
    /// The columns of the row; those of a join condition are qualified by their sides.
    pub schema: &'a DFSchema,
    /// The parameter of the lambda that a column belongs to.
    pub row: &'a dyn Fn(&Column) -> String,
    /// Functions that are parameters of the program.
    pub functions: &'a mut Functions,
}

/// Whether a column can be written as an attribute, `e.price`; otherwise `e["price"]`.
pub(super) fn is_attribute(name: &str) -> bool {
    // The tracer of the Python package does not trace code that uses these names.
    const TYPE_CHECKS: [&str; 4] = ["id", "type", "isinstance", "issubclass"];
    is_name(name) && !name.starts_with('_') && !TYPE_CHECKS.contains(&name)
}

fn unsupported<T>(expr: &Expr) -> Result<T> {
    plan_err!("the program has no word for {}", crate::names::show(expr))
}

/// The symbol and precedence of an operator, if Python has it with the same meaning.
fn operator_symbol(op: Operator) -> Option<(&'static str, u8)> {
    Some(match op {
        Operator::Eq => ("==", 1),
        Operator::NotEq => ("!=", 1),
        Operator::Lt => ("<", 1),
        Operator::LtEq => ("<=", 1),
        Operator::Gt => (">", 1),
        Operator::GtEq => (">=", 1),
        Operator::Or | Operator::BitwiseOr => ("|", 2),
        Operator::BitwiseXor => ("^", 3),
        Operator::And | Operator::BitwiseAnd => ("&", 4),
        Operator::BitwiseShiftLeft => ("<<", 5),
        Operator::BitwiseShiftRight => (">>", 5),
        Operator::Plus | Operator::StringConcat => ("+", 6),
        Operator::Minus => ("-", 6),
        Operator::Multiply => ("*", 7),
        Operator::Divide => ("/", 7),
        _ => return None,
    })
}

impl ExprWriter<'_> {
    /// Prints an expression, in parentheses if its precedence is less than `outer`.
    pub fn write(&mut self, expr: &Expr, outer: u8) -> Result<Doc> {
        match expr {
            Expr::Alias(alias) => self.write(&alias.expr, outer),
            Expr::Column(column) => Ok(self.column(column)),
            Expr::Literal(value, _) => constant(value, None, literal_for_operand),
            Expr::BinaryExpr(binary) => self.binary(binary, outer),
            Expr::Not(inner) => self.unary("~", inner, outer),
            Expr::Negative(inner) => self.unary("-", inner, outer),
            Expr::IsNull(inner) => self.method(inner, "is_null", vec![]),
            Expr::IsNotNull(inner) => self.method(inner, "is_not_null", vec![]),
            Expr::Cast(cast) => self.cast(cast),
            Expr::TryCast(cast) => {
                let to = self.type_of(cast.field.data_type(), expr)?;
                self.method(&cast.expr, "cast", vec![to, Doc::text("strict=False")])
            }
            Expr::Between(between) => self.between(between),
            Expr::InList(list) => self.in_list(list),
            Expr::Like(like) => self.like(like, expr),
            Expr::Case(case) => self.case(case),
            Expr::ScalarFunction(call) => self.call(call, outer),
            other => unsupported(other),
        }
    }

    /// `lambda e: e.price * 2`, or the expression alone if it has no columns.
    pub fn lambda(&mut self, head: &str, expr: &Expr) -> Result<Doc> {
        if let Expr::Literal(value, _) = expr {
            return typed_literal(value);
        }
        let body = self.write(expr, 0)?;
        Ok(match expr.any_column_refs() {
            true => Doc::Group(vec![Doc::Text(format!("lambda {head}: ")), body]),
            false => body,
        })
    }

    fn column(&self, column: &Column) -> Doc {
        let row = (self.row)(column);
        Doc::Text(match is_attribute(&column.name) {
            _ if row.is_empty() => column.name.clone(),
            true => format!("{row}.{}", column.name),
            false => format!("{row}[{}]", python_string(&column.name)),
        })
    }

    fn data_type(&self, expr: &Expr) -> Option<DataType> {
        expr.get_type(self.schema).ok()
    }

    fn type_of(&self, data_type: &DataType, expr: &Expr) -> Result<Doc> {
        type_name(data_type).map_or_else(|| unsupported(expr), |name| Ok(Doc::Text(python_string(&name))))
    }

    /// The receiver of a method: a literal has to be wrapped in `wb.lit(…)`.
    fn receiver(&mut self, expr: &Expr) -> Result<Doc> {
        match expr {
            Expr::Literal(value, _) => typed_literal(value),
            other => self.write(other, CALL),
        }
    }

    fn method(&mut self, receiver: &Expr, name: &str, arguments: Vec<Doc>) -> Result<Doc> {
        let receiver = self.receiver(receiver)?;
        Ok(Doc::Group(vec![receiver, Doc::call(format!(".{name}"), arguments)]))
    }

    fn unary(&mut self, symbol: &str, inner: &Expr, outer: u8) -> Result<Doc> {
        let inner = match inner {
            Expr::Literal(value, _) => typed_literal(value)?,
            other => self.write(other, UNARY)?,
        };
        Ok(parenthesized(vec![Doc::text(symbol), inner], UNARY < outer))
    }

    fn binary(&mut self, binary: &BinaryExpr, outer: u8) -> Result<Doc> {
        let BinaryExpr { left, op, right } = binary;
        let expr = Expr::BinaryExpr(binary.clone());
        let types = (self.data_type(left), self.data_type(right));
        let is = |test: fn(&DataType) -> bool| {
            types.0.as_ref().is_some_and(test) || types.1.as_ref().is_some_and(test)
        };
        match op {
            Operator::IsDistinctFrom => return self.null_safe_comparison("ne_missing", left, right),
            Operator::IsNotDistinctFrom => return self.null_safe_comparison("eq_missing", left, right),
            Operator::Modulo => return self.function("mod", &[left, right]),
            Operator::Divide
                if is(DataType::is_integer) && !is(DataType::is_floating) && !is(divides_exactly) =>
            {
                return self.function("div", &[left, right]);
            }
            Operator::Divide if let Some((l, r)) = self.true_division(left, right) => {
                return self.infix("/", &l, &r, 7, outer);
            }
            Operator::StringConcat if !is(DataType::is_string) => return unsupported(&expr),
            Operator::BitwiseAnd | Operator::BitwiseOr | Operator::BitwiseXor
                if !is(DataType::is_integer) =>
            {
                return unsupported(&expr);
            }
            Operator::And | Operator::Or if is(DataType::is_integer) => return unsupported(&expr),
            _ => {}
        }
        let Some((symbol, precedence)) = operator_symbol(*op) else { return unsupported(&expr) };
        if matches!(op, Operator::And | Operator::Or) {
            return self.chain(*op, symbol, &expr, precedence, outer);
        }
        self.infix(symbol, left, right, precedence, outer)
    }

    /// `a & b & c`, however the plan nests the operands; one operand per line if they do not fit.
    fn chain(&mut self, op: Operator, symbol: &str, expr: &Expr, precedence: u8, outer: u8) -> Result<Doc> {
        let mut docs = Vec::new();
        for term in split_binary(expr, op) {
            if docs.is_empty() {
                // Python itself would evaluate an operator between two Python values.
                docs.push(match term {
                    Expr::Literal(value, _) => typed_literal(value)?,
                    other => self.write(other, precedence)?,
                });
                continue;
            }
            docs.push(Doc::Break(" "));
            docs.push(Doc::Text(format!("{symbol} ")));
            docs.push(self.write(term, precedence + 1)?);
        }
        Ok(parenthesized(docs, precedence < outer))
    }

    fn infix(&mut self, symbol: &str, left: &Expr, right: &Expr, precedence: u8, outer: u8) -> Result<Doc> {
        let cast_literal = if precedence == 1 { literal_for_comparison } else { literal_for_operand };
        // `a < b < c` is a chained comparison in Python: a nested comparison needs parentheses.
        let inner = if precedence == 1 { 2 } else { precedence };
        let l = match (left, right) {
            (Expr::Literal(value, _), Expr::Literal(..)) => typed_literal(value)?,
            (Expr::Literal(value, _), _) => constant(value, self.data_type(right), cast_literal)?,
            _ => self.write(left, inner)?,
        };
        let r = match right {
            Expr::Literal(value, _) => constant(value, self.data_type(left), cast_literal)?,
            _ => self.write(right, precedence + 1)?,
        };
        let docs = vec![l, Doc::Break(" "), Doc::Text(format!("{symbol} ")), r];
        Ok(parenthesized(docs, precedence < outer))
    }

    /// The operands of a float division of integers, which Python's `/` casts to floats.
    fn true_division(&self, left: &Expr, right: &Expr) -> Option<(Expr, Expr)> {
        let side = |expr: &Expr| match expr {
            Expr::Cast(cast) if *cast.field.data_type() == DataType::Float64 => {
                self.data_type(&cast.expr).filter(|t| t.is_integer()).map(|_| cast.expr.as_ref().clone())
            }
            Expr::Literal(ScalarValue::Float64(Some(v)), None) if v.fract() == 0.0 && v.abs() < 9e15 => {
                Some(Expr::Literal(ScalarValue::Int64(Some(*v as i64)), None))
            }
            _ => None,
        };
        let sides = (side(left)?, side(right)?);
        (sides.0.as_literal().is_none() || sides.1.as_literal().is_none()).then_some(sides)
    }

    fn null_safe_comparison(&mut self, name: &str, left: &Expr, right: &Expr) -> Result<Doc> {
        let argument = self.write(right, 0)?;
        self.method(left, name, vec![argument])
    }

    fn cast(&mut self, cast: &Cast) -> Result<Doc> {
        if let (Expr::ScalarFunction(call), DataType::Int64) = (cast.expr.as_ref(), cast.field.data_type())
            && let Some((part, of)) = date_part(call)
            && of.as_literal().is_none()
            && !matches!(self.data_type(of), Some(DataType::Struct(_)))
        {
            let of = self.receiver(of)?;
            return Ok(Doc::Group(vec![of, Doc::Text(format!(".{part}"))]));
        }
        let to = self.type_of(cast.field.data_type(), &Expr::Cast(cast.clone()))?;
        self.method(&cast.expr, "cast", vec![to])
    }

    fn between(&mut self, between: &Between) -> Result<Doc> {
        let operand_type = self.data_type(&between.expr);
        let low = self.operand(&between.low, operand_type.clone())?;
        let high = self.operand(&between.high, operand_type)?;
        self.method(&between.expr, "between", vec![low, high])
    }

    fn in_list(&mut self, list: &InList) -> Result<Doc> {
        let operand_type = self.data_type(&list.expr);
        let items =
            list.list.iter().map(|e| self.operand(e, operand_type.clone())).collect::<Result<Vec<_>>>()?;
        self.method(&list.expr, "isin", vec![Doc::list(items)])
    }

    /// An argument that is compared with a value of type `operand_type`.
    fn operand(&mut self, expr: &Expr, operand_type: Option<DataType>) -> Result<Doc> {
        match expr {
            Expr::Literal(value, _) => constant(value, operand_type, literal_for_comparison),
            other => self.write(other, 0),
        }
    }

    fn like(&mut self, like: &Like, expr: &Expr) -> Result<Doc> {
        if like.negated {
            return unsupported(expr);
        }
        let mut arguments = vec![self.write(&like.pattern, 0)?];
        if let Some(escape) = like.escape_char {
            arguments.push(Doc::keyword("escape", Doc::Text(python_string(&escape.to_string()))));
        }
        self.method(&like.expr, if like.case_insensitive { "ilike" } else { "like" }, arguments)
    }

    fn case(&mut self, case: &Case) -> Result<Doc> {
        let mut docs = Vec::new();
        for (i, (when, then)) in case.when_then_expr.iter().enumerate() {
            if i > 0 {
                docs.push(Doc::Break(""));
            }
            let (when, then) = (self.write(when, 0)?, self.write(then, 0)?);
            docs.push(Doc::call(if i == 0 { "wb.when" } else { ".when" }, vec![when]));
            docs.push(Doc::call(".then", vec![then]));
        }
        if let Some(otherwise) = &case.else_expr {
            let otherwise = self.write(otherwise, 0)?;
            docs.push(Doc::Break(""));
            docs.push(Doc::call(".otherwise", vec![otherwise]));
        }
        Ok(Doc::Group(docs))
    }

    fn call(&mut self, call: &ScalarFunction, outer: u8) -> Result<Doc> {
        let arguments: Vec<&Expr> = call.args.iter().collect();
        match (call.name(), arguments.as_slice()) {
            ("floor_mod", [left, right]) => return self.infix("%", left, right, 7, outer),
            ("floor_div", [left, right]) => return self.infix("//", left, right, 7, outer),
            ("get_field", [of, Expr::Literal(ScalarValue::Utf8(Some(field)), _)])
                if of.as_literal().is_none() =>
            {
                let of = self.receiver(of)?;
                return Ok(Doc::Group(vec![of, Doc::Text(format!("[{}]", python_string(field)))]));
            }
            _ => {}
        }
        if !Functions::is_default(&call.func) {
            let name = self.functions.name(&call.func);
            let arguments = arguments.iter().map(|e| self.receiver(e)).collect::<Result<Vec<_>>>()?;
            return Ok(Doc::call(name, arguments));
        }
        if let (Some(method), [of, rest @ ..]) = (method_for(call), arguments.as_slice())
            && of.as_literal().is_none()
        {
            let rest = rest.iter().map(|e| self.write(e, 0)).collect::<Result<Vec<_>>>()?;
            return self.method(of, method, rest);
        }
        self.function(call.name(), &arguments)
    }

    fn function(&mut self, name: &str, arguments: &[&Expr]) -> Result<Doc> {
        let arguments = arguments.iter().map(|e| self.write(e, 0)).collect::<Result<Vec<_>>>()?;
        Ok(Doc::call(format!("wb.fn.{name}"), arguments))
    }
}

/// The method of `Expr` in Python that calls this function.
fn method_for(call: &ScalarFunction) -> Option<&'static str> {
    Some(match (call.name(), call.args.len()) {
        ("upper", 1) => "upper",
        ("lower", 1) => "lower",
        ("starts_with", 2) => "startswith",
        ("ends_with", 2) => "endswith",
        ("coalesce", 2) => "fill_null",
        _ => return None,
    })
}

/// The part of a `date_part` call and its argument, if Python has an attribute for it: `e.time.year`.
fn date_part(call: &ScalarFunction) -> Option<(&str, &Expr)> {
    const PARTS: [&str; 6] = ["year", "month", "day", "hour", "minute", "second"];
    match (call.name(), call.args.as_slice()) {
        ("date_part", [Expr::Literal(ScalarValue::Utf8(Some(part)), _), of])
            if PARTS.contains(&part.as_str()) =>
        {
            Some((part, of))
        }
        _ => None,
    }
}

/// Whether `/` divides values of this type without a cast to floats.
fn divides_exactly(t: &DataType) -> bool {
    matches!(t, DataType::Decimal128(..) | DataType::Duration(_))
}

/// A literal opposite an operand: a Python value if coercion restores the literal, else with its type.
fn constant(value: &ScalarValue, operand_type: Option<DataType>, cast_literal: CastLiteral) -> Result<Doc> {
    match python_value(value) {
        Some((value_in_python, text))
            if value_in_python == *value
                || operand_type
                    .and_then(|operand_type| cast_literal(&value_in_python, &operand_type))
                    .as_ref()
                    == Some(value) =>
        {
            Ok(Doc::Text(text))
        }
        _ => typed_literal(value),
    }
}

fn parenthesized(docs: Vec<Doc>, needed: bool) -> Doc {
    match needed {
        true => Doc::Group([vec![Doc::text("(")], docs, vec![Doc::text(")")]].concat()),
        false => Doc::Group(docs),
    }
}
