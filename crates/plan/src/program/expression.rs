//! Expressions as Python writes them. What is written here is built again by the operators and methods of
//! `Expr` in the Python package, word by word: no operator is written that would mean another thing there.

use super::doc::Doc;
use super::functions::Functions;
use super::literal::{Fit, compared, exact, fitted, natural, quoted, type_name};
use super::naming::is_name;
use arrow::datatypes::DataType;
use datafusion::common::{Column, DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::{Cast, InList, ScalarFunction};
use datafusion::logical_expr::utils::split_binary;
use datafusion::logical_expr::{Between, BinaryExpr, Case, Expr, ExprSchemable, Like, Operator};

/// How tightly Python binds what is not written with an operator.
const CALL: u8 = 10;
const UNARY: u8 = 8;

/// Writes expressions over these columns.
pub(super) struct Rows<'a> {
    /// The columns of the row, or of both rows with their sides.
    pub schema: &'a DFSchema,
    /// The rows' names in the lambda, by the qualifiers of their columns.
    pub row: &'a dyn Fn(&Column) -> String,
    /// What is called that Python does not know.
    pub functions: &'a mut Functions,
}

/// Whether Python takes it for the name of an attribute of a row, and `trace` does too.
pub(super) fn is_attribute(name: &str) -> bool {
    // Code that mentions these asks what a value is, and is not traced.
    const ASKS: [&str; 4] = ["id", "type", "isinstance", "issubclass"];
    is_name(name) && !name.starts_with('_') && !ASKS.contains(&name)
}

fn refuse<T>(expr: &Expr) -> Result<T> {
    plan_err!("the program has no word for {}", crate::names::show(expr))
}

/// The symbol of an operator and how tightly it binds, where Python has it.
fn symbol(op: Operator) -> Option<(&'static str, u8)> {
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

impl Rows<'_> {
    /// The expression, in brackets if it binds less tightly than `outer`.
    pub fn write(&mut self, expr: &Expr, outer: u8) -> Result<Doc> {
        match expr {
            Expr::Alias(alias) => self.write(&alias.expr, outer),
            Expr::Column(column) => Ok(self.column(column)),
            Expr::Literal(value, _) => constant(value, None, fitted),
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
            other => refuse(other),
        }
    }

    /// `lambda e: e.price * 2`; an expression without columns needs no row.
    pub fn lambda(&mut self, head: &str, expr: &Expr) -> Result<Doc> {
        if let Expr::Literal(value, _) = expr {
            return exact(value);
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
            false => format!("{row}[{}]", quoted(&column.name)),
        })
    }

    fn kind(&self, expr: &Expr) -> Option<DataType> {
        expr.get_type(self.schema).ok()
    }

    fn type_of(&self, data_type: &DataType, expr: &Expr) -> Result<Doc> {
        type_name(data_type).map_or_else(|| refuse(expr), |name| Ok(Doc::Text(quoted(&name))))
    }

    /// What a method can be called on.
    fn receiver(&mut self, expr: &Expr) -> Result<Doc> {
        match expr {
            Expr::Literal(value, _) => exact(value),
            other => self.write(other, CALL),
        }
    }

    fn method(&mut self, receiver: &Expr, name: &str, arguments: Vec<Doc>) -> Result<Doc> {
        let receiver = self.receiver(receiver)?;
        Ok(Doc::Group(vec![receiver, Doc::call(format!(".{name}"), arguments)]))
    }

    fn unary(&mut self, symbol: &str, inner: &Expr, outer: u8) -> Result<Doc> {
        let inner = match inner {
            Expr::Literal(value, _) => exact(value)?,
            other => self.write(other, UNARY)?,
        };
        Ok(bracketed(vec![Doc::text(symbol), inner], UNARY < outer))
    }

    fn binary(&mut self, binary: &BinaryExpr, outer: u8) -> Result<Doc> {
        let BinaryExpr { left, op, right } = binary;
        let whole = Expr::BinaryExpr(binary.clone());
        let kinds = (self.kind(left), self.kind(right));
        let is = |test: fn(&DataType) -> bool| {
            kinds.0.as_ref().is_some_and(test) || kinds.1.as_ref().is_some_and(test)
        };
        match op {
            Operator::IsDistinctFrom => return self.missing("ne_missing", left, right),
            Operator::IsNotDistinctFrom => return self.missing("eq_missing", left, right),
            Operator::Modulo => return self.function("mod", &[left, right]),
            Operator::Divide if is(DataType::is_integer) && !is(DataType::is_floating) && !is(exactly) => {
                return self.function("div", &[left, right]);
            }
            Operator::Divide if let Some((l, r)) = self.true_division(left, right) => {
                return self.infix("/", &l, &r, 7, outer);
            }
            Operator::StringConcat if !is(DataType::is_string) => return refuse(&whole),
            Operator::BitwiseAnd | Operator::BitwiseOr | Operator::BitwiseXor
                if !is(DataType::is_integer) =>
            {
                return refuse(&whole);
            }
            Operator::And | Operator::Or if is(DataType::is_integer) => return refuse(&whole),
            _ => {}
        }
        let Some((symbol, strength)) = symbol(*op) else { return refuse(&whole) };
        if matches!(op, Operator::And | Operator::Or) {
            return self.chain(*op, symbol, &whole, strength, outer);
        }
        self.infix(symbol, left, right, strength, outer)
    }

    /// `a & b & c`, one under the other where a line does not hold them, however the plan nests them.
    fn chain(&mut self, op: Operator, symbol: &str, whole: &Expr, strength: u8, outer: u8) -> Result<Doc> {
        let mut docs = Vec::new();
        for term in split_binary(whole, op) {
            if docs.is_empty() {
                // Two constants would be put together by Python, not by the plan.
                docs.push(match term {
                    Expr::Literal(value, _) => exact(value)?,
                    other => self.write(other, strength)?,
                });
                continue;
            }
            docs.push(Doc::Break(" "));
            docs.push(Doc::Text(format!("{symbol} ")));
            docs.push(self.write(term, strength + 1)?);
        }
        Ok(bracketed(docs, strength < outer))
    }

    fn infix(&mut self, symbol: &str, left: &Expr, right: &Expr, strength: u8, outer: u8) -> Result<Doc> {
        let fit = if strength == 1 { compared } else { fitted };
        // Comparisons side by side are a chain in Python.
        let inner = if strength == 1 { 2 } else { strength };
        let l = match (left, right) {
            (Expr::Literal(value, _), Expr::Literal(..)) => exact(value)?,
            (Expr::Literal(value, _), _) => constant(value, self.kind(right), fit)?,
            _ => self.write(left, inner)?,
        };
        let r = match right {
            Expr::Literal(value, _) => constant(value, self.kind(left), fit)?,
            _ => self.write(right, strength + 1)?,
        };
        let docs = vec![l, Doc::Break(" "), Doc::Text(format!("{symbol} ")), r];
        Ok(bracketed(docs, strength < outer))
    }

    /// Both sides of a division of whole numbers that Python makes floats by itself.
    fn true_division(&self, left: &Expr, right: &Expr) -> Option<(Expr, Expr)> {
        let side = |expr: &Expr| match expr {
            Expr::Cast(cast) if *cast.field.data_type() == DataType::Float64 => {
                self.kind(&cast.expr).filter(|t| t.is_integer()).map(|_| cast.expr.as_ref().clone())
            }
            Expr::Literal(ScalarValue::Float64(Some(v)), None) if v.fract() == 0.0 && v.abs() < 9e15 => {
                Some(Expr::Literal(ScalarValue::Int64(Some(*v as i64)), None))
            }
            _ => None,
        };
        let both = (side(left)?, side(right)?);
        (both.0.as_literal().is_none() || both.1.as_literal().is_none()).then_some(both)
    }

    fn missing(&mut self, name: &str, left: &Expr, right: &Expr) -> Result<Doc> {
        let argument = self.write(right, 0)?;
        self.method(left, name, vec![argument])
    }

    fn cast(&mut self, cast: &Cast) -> Result<Doc> {
        if let (Expr::ScalarFunction(call), DataType::Int64) = (cast.expr.as_ref(), cast.field.data_type())
            && let Some((part, of)) = date_part(call)
            && of.as_literal().is_none()
            && !matches!(self.kind(of), Some(DataType::Struct(_)))
        {
            let of = self.receiver(of)?;
            return Ok(Doc::Group(vec![of, Doc::Text(format!(".{part}"))]));
        }
        let to = self.type_of(cast.field.data_type(), &Expr::Cast(cast.clone()))?;
        self.method(&cast.expr, "cast", vec![to])
    }

    fn between(&mut self, between: &Between) -> Result<Doc> {
        let met = self.kind(&between.expr);
        let low = self.beside(&between.low, met.clone())?;
        let high = self.beside(&between.high, met)?;
        self.method(&between.expr, "between", vec![low, high])
    }

    fn in_list(&mut self, list: &InList) -> Result<Doc> {
        let met = self.kind(&list.expr);
        let items = list.list.iter().map(|e| self.beside(e, met.clone())).collect::<Result<Vec<_>>>()?;
        self.method(&list.expr, "isin", vec![Doc::list(items)])
    }

    /// An operand that meets a value of a type.
    fn beside(&mut self, expr: &Expr, met: Option<DataType>) -> Result<Doc> {
        match expr {
            Expr::Literal(value, _) => constant(value, met, compared),
            other => self.write(other, 0),
        }
    }

    fn like(&mut self, like: &Like, whole: &Expr) -> Result<Doc> {
        if like.negated {
            return refuse(whole);
        }
        let mut arguments = vec![self.write(&like.pattern, 0)?];
        if let Some(escape) = like.escape_char {
            arguments.push(Doc::named("escape", Doc::Text(quoted(&escape.to_string()))));
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
                return Ok(Doc::Group(vec![of, Doc::Text(format!("[{}]", quoted(field)))]));
            }
            _ => {}
        }
        if !Functions::knows(&call.func) {
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

/// The method of an expression that is this very function.
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

/// `year` and its like, of what.
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

/// Numbers that `/` divides as they are.
fn exactly(t: &DataType) -> bool {
    matches!(t, DataType::Decimal128(..) | DataType::Duration(_))
}

/// A constant that meets a value of a type: plainly, if Python's value becomes this one there.
fn constant(value: &ScalarValue, met: Option<DataType>, fit: Fit) -> Result<Doc> {
    match natural(value) {
        Some((plain, text))
            if plain == *value || met.and_then(|met| fit(&plain, &met)).as_ref() == Some(value) =>
        {
            Ok(Doc::Text(text))
        }
        _ => exact(value),
    }
}

fn bracketed(docs: Vec<Doc>, brackets: bool) -> Doc {
    match brackets {
        true => Doc::Group([vec![Doc::text("(")], docs, vec![Doc::text(")")]].concat()),
        false => Doc::Group(docs),
    }
}
