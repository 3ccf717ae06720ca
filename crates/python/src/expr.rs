//! Expressions of DataFusion, built by the operators of a Python class.
//!
//! An expression over the columns of a stream has the schema of the stream. Operators whose meaning depends
//! on types (`/`, `+` of strings, `&` of integers) are resolved when they are written. Without a schema
//! (`wb.col`), operands are taken as numbers or booleans.

use arrow::datatypes::DataType;
use datafusion::common::{Column, DFSchema, DFSchemaRef, ScalarValue};
use datafusion::functions::core::expr_fn::get_field;
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{
    Between, Expr, ExprSchemable, Like, Operator, binary_expr, cast, in_list, try_cast, when,
};
use pyo3::prelude::*;
use std::sync::Arc;
use whimbrel_plan::{JoinHow, floor_div, floor_mod, literal_for_comparison, literal_for_operand};

use crate::error::{OrRaise, invalid};
use crate::plan::NativePlan;
use crate::table::NativeSchema;
use crate::tree::Tree;
use crate::{functions, text, types, values};

/// An expression over the columns of a stream.
#[pyclass(frozen, module = "whimbrel._whimbrel", name = "Expr", from_py_object)]
#[derive(Debug, Clone)]
pub struct NativeExpr {
    tree: Arc<Tree>,
    /// The columns that it may refer to, if they are known.
    pub schema: Option<DFSchemaRef>,
}

impl NativeExpr {
    /// An expression over these columns.
    ///
    /// # Errors
    /// `InvalidError` if it is too deep.
    pub fn new(expr: Expr, schema: Option<DFSchemaRef>) -> PyResult<NativeExpr> {
        // The types of other expressions are computed when they are needed: a function computes those of its
        // arguments several times.
        let data_type = match (&expr, &schema) {
            (Expr::Literal(value, _), _) => Some(value.data_type()),
            (Expr::Column(_), Some(schema)) => expr.get_type(schema.as_ref()).ok(),
            _ => None,
        };
        Ok(NativeExpr { tree: Tree::leaf(expr, data_type)?, schema })
    }

    /// The expression itself.
    pub fn expr(&self) -> Expr {
        self.tree.expr()
    }

    /// An expression over the same columns.
    fn of(&self, expr: Expr) -> PyResult<NativeExpr> {
        NativeExpr::new(expr, self.schema.clone())
    }

    /// The type, if the columns are known and the expression has one.
    fn data_type(&self, schema: Option<&DFSchemaRef>) -> Option<DataType> {
        if self.tree.data_type.is_some() {
            return self.tree.data_type.clone();
        }
        match (schema.or(self.schema.as_ref()), self.tree.as_leaf()) {
            (Some(schema), _) => self.expr().get_type(schema.as_ref()).ok(),
            (None, Some(call)) if is_call_of_column(call) => None,
            (None, _) => self.expr().get_type(&DFSchema::empty()).ok(),
        }
    }
}

/// Whether it is a call, or calls inside one another, of a column. Without a schema these have no type, which
/// DataFusion finds out in quadratic time.
fn is_call_of_column(expr: &Expr) -> bool {
    let mut inner = expr;
    while let Expr::ScalarFunction(call) = inner
        && let Some(first) = call.args.first()
    {
        inner = first;
    }
    matches!(inner, Expr::Column(_))
}

/// The expressions of a list.
pub fn exprs(list: Vec<NativeExpr>) -> Vec<Expr> {
    list.iter().map(NativeExpr::expr).collect()
}

#[pymethods]
impl NativeExpr {
    /// An expression is immutable: a copy is the same expression.
    fn __deepcopy__(slf: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        slf
    }

    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(invalid("an expression cannot be pickled; send the function that makes it, and call it there"))
    }

    /// A column, by name. With a schema, its type is known.
    #[staticmethod]
    #[pyo3(signature = (name, schema = None))]
    fn column(name: &str, schema: Option<&NativeSchema>) -> PyResult<NativeExpr> {
        let expr = Expr::Column(Column::new_unqualified(name));
        let Some(schema) = schema else { return NativeExpr::new(expr, None) };
        let schema = DFSchema::try_from(schema.0.as_ref().clone()).or_raise()?;
        NativeExpr::new(expr, Some(schema.into()))
    }

    /// A column of the left or the right side of a join.
    #[staticmethod]
    fn column_of(side: &str, name: &str, left: &NativePlan, right: &NativePlan) -> PyResult<NativeExpr> {
        let schema = JoinHow::sides_schema(&left.stream, &right.stream).or_raise()?;
        let expr = Expr::Column(Column::new(Some(side), name));
        NativeExpr::new(expr, Some(schema.into()))
    }

    /// A constant.
    #[staticmethod]
    #[pyo3(signature = (value, data_type = None))]
    fn literal(value: &Bound<'_, PyAny>, data_type: Option<&Bound<'_, PyAny>>) -> PyResult<NativeExpr> {
        let data_type = data_type.map(types::extract).transpose()?;
        let value = values::literal(value, data_type.as_ref())?;
        NativeExpr::new(Expr::Literal(value, None), None)
    }

    /// A call of one of DataFusion's functions.
    #[staticmethod]
    fn call(name: &str, args: Vec<NativeExpr>) -> PyResult<NativeExpr> {
        let schema = args.iter().find_map(|a| a.schema.clone());
        NativeExpr::new(functions::call(name, exprs(args)).or_raise()?, schema)
    }

    /// `CASE WHEN … THEN … ELSE … END`.
    #[staticmethod]
    #[pyo3(signature = (branches, otherwise = None))]
    fn case(branches: Vec<(NativeExpr, NativeExpr)>, otherwise: Option<NativeExpr>) -> PyResult<NativeExpr> {
        let all = branches.iter().flat_map(|(condition, value)| [condition, value]);
        let schema = all.chain(&otherwise).find_map(|e| e.schema.clone());
        let mut branches = branches.into_iter();
        let Some((condition, value)) = branches.next() else {
            return Err(invalid("when(…) needs a condition"));
        };
        let mut case = when(condition.expr(), value.expr());
        for (condition, value) in branches {
            case = case.when(condition.expr(), value.expr());
        }
        let expr = match otherwise {
            Some(otherwise) => case.otherwise(otherwise.expr()),
            None => case.end(),
        };
        NativeExpr::new(expr.or_raise()?, schema)
    }

    /// A binary operator by its Python symbol.
    fn binary(&self, symbol: &str, other: &NativeExpr) -> PyResult<NativeExpr> {
        let schema = self.schema.as_ref().or(other.schema.as_ref());
        let types = (self.data_type(schema), other.data_type(schema));
        let convert =
            if COMPARISONS.contains(&symbol) { literal_for_comparison } else { literal_for_operand };
        let left = fit_operand(self, &types.1, convert)?;
        let right = fit_operand(other, &types.0, convert)?;
        let schema = schema.cloned();
        match symbol {
            "%" => NativeExpr::new(floor_mod(left.expr(), right.expr()), schema),
            "//" => NativeExpr::new(floor_div(left.expr(), right.expr()), schema),
            "/" => NativeExpr::new(divide(left.expr(), right.expr(), &types), schema),
            "**" => {
                NativeExpr::new(functions::call("power", vec![left.expr(), right.expr()]).or_raise()?, schema)
            }
            _ => {
                let operator = operator(symbol, &types)?;
                let is_bool = COMPARISONS.contains(&symbol) || operator.is_logic_operator();
                let data_type = match (left.data_type(schema.as_ref()), right.data_type(schema.as_ref())) {
                    _ if is_bool => Some(DataType::Boolean),
                    (Some(left), Some(right)) => {
                        BinaryTypeCoercer::new(&left, &operator, &right).get_result_type().ok()
                    }
                    _ => None,
                };
                Ok(NativeExpr { tree: Tree::binary(&left.tree, operator, &right.tree, data_type)?, schema })
            }
        }
    }

    /// `~`: the negation of a boolean, the complement of an integer.
    fn invert(&self) -> PyResult<NativeExpr> {
        match self.data_type(None) {
            Some(t) if t.is_integer() => {
                let ones = Expr::Literal(ScalarValue::Int64(Some(-1)), None);
                self.of(binary_expr(self.expr(), Operator::BitwiseXor, ones))
            }
            _ => self.of(Expr::Not(Box::new(self.expr()))),
        }
    }

    /// Unary minus.
    fn negative(&self) -> PyResult<NativeExpr> {
        self.of(Expr::Negative(Box::new(self.expr())))
    }

    /// Whether the value is null.
    fn is_null(&self) -> PyResult<NativeExpr> {
        self.of(Expr::IsNull(Box::new(self.expr())))
    }

    /// Whether the value is not null.
    fn is_not_null(&self) -> PyResult<NativeExpr> {
        self.of(Expr::IsNotNull(Box::new(self.expr())))
    }

    /// Converts to a type. Unless it is strict, a value that does not fit becomes null.
    #[pyo3(signature = (data_type, strict = true))]
    fn cast(&self, data_type: &Bound<'_, PyAny>, strict: bool) -> PyResult<NativeExpr> {
        let data_type = types::extract(data_type)?;
        let cast = if strict { cast } else { try_cast };
        self.of(cast(self.expr(), data_type))
    }

    /// Whether the value is one of a list.
    fn isin(&self, list: Vec<NativeExpr>) -> PyResult<NativeExpr> {
        let own_type = self.data_type(None);
        let list =
            exprs(list).into_iter().map(|e| fit_literal(e, &own_type, literal_for_comparison)).collect();
        self.of(in_list(self.expr(), list, false))
    }

    /// Whether the value is between two others, or one of them.
    fn between(&self, low: NativeExpr, high: NativeExpr) -> PyResult<NativeExpr> {
        let own_type = self.data_type(None);
        let [low, high] =
            [low.expr(), high.expr()].map(|e| Box::new(fit_literal(e, &own_type, literal_for_comparison)));
        self.of(Expr::Between(Between { expr: Box::new(self.expr()), negated: false, low, high }))
    }

    /// Whether a string matches a pattern of SQL.
    fn like(&self, pattern: NativeExpr, escape: Option<char>, any_case: bool) -> PyResult<NativeExpr> {
        let [value, pattern] = [self.expr(), pattern.expr()].map(Box::new);
        self.of(Expr::Like(Like::new(false, value, pattern, escape, any_case)))
    }

    /// A field of a struct column.
    fn field(&self, name: &str) -> PyResult<NativeExpr> {
        self.of(get_field(self.expr(), name))
    }

    /// Gives the expression a name.
    fn alias(&self, name: &str) -> PyResult<NativeExpr> {
        match self.expr().unalias() {
            // An alias of the same name would make the column a computed one.
            Expr::Column(column) if column.name == name => self.of(Expr::Column(column)),
            expr => self.of(expr.alias(name)),
        }
    }

    /// The name of its column: that of its alias, or of the column that it is.
    fn name(&self) -> Option<String> {
        match self.tree.as_leaf()? {
            Expr::Alias(alias) => Some(alias.name.clone()),
            Expr::Column(column) => Some(column.name.clone()),
            _ => None,
        }
    }

    /// The first column that the expression refers to, from the left.
    fn root(&self) -> Option<String> {
        let mut first = None;
        let _ = datafusion::common::tree_node::TreeNode::apply(&self.expr(), |node| {
            use datafusion::common::tree_node::TreeNodeRecursion::{Continue, Stop};
            if let Expr::Column(column) = node {
                first = Some(column.name.clone());
                return Ok(Stop);
            }
            Ok(Continue)
        });
        first
    }

    /// The name of the type, if it is known.
    #[pyo3(signature = (schema = None))]
    fn dtype(&self, schema: Option<&NativeSchema>) -> PyResult<Option<String>> {
        let schema = match schema {
            None => None,
            Some(schema) => Some(DFSchema::try_from(schema.0.as_ref().clone()).or_raise()?.into()),
        };
        Ok(self.data_type(schema.as_ref()).map(|t| types::name(&t)))
    }

    /// The names of the fields, if the expression is known to be a struct.
    fn fields(&self) -> Vec<String> {
        match self.data_type(None) {
            Some(DataType::Struct(fields)) => fields.iter().map(|f| f.name().clone()).collect(),
            _ => Vec::new(),
        }
    }

    /// The expression as Python text.
    fn text(&self) -> String {
        text::text(&self.expr())
    }
}

/// The operators that compare.
const COMPARISONS: [&str; 6] = ["==", "!=", "<", "<=", ">", ">="];

/// The types of the operands of an operator, where they are known.
type Types = (Option<DataType>, Option<DataType>);

/// The operator of a Python symbol.
fn operator(symbol: &str, types: &Types) -> PyResult<Operator> {
    let is = |test: fn(&DataType) -> bool| {
        types.0.as_ref().is_some_and(test) || types.1.as_ref().is_some_and(test)
    };
    let integer = is(|t| t.is_integer());
    Ok(match symbol {
        "+" if is(|t| t.is_string()) => Operator::StringConcat,
        "+" => Operator::Plus,
        "-" => Operator::Minus,
        "*" => Operator::Multiply,
        "==" => Operator::Eq,
        "!=" => Operator::NotEq,
        "<" => Operator::Lt,
        "<=" => Operator::LtEq,
        ">" => Operator::Gt,
        ">=" => Operator::GtEq,
        "&" if integer => Operator::BitwiseAnd,
        "|" if integer => Operator::BitwiseOr,
        "^" if integer => Operator::BitwiseXor,
        "&" => Operator::And,
        "|" => Operator::Or,
        "^" => Operator::NotEq,
        "<<" => Operator::BitwiseShiftLeft,
        ">>" => Operator::BitwiseShiftRight,
        "eq_missing" => Operator::IsNotDistinctFrom,
        "ne_missing" => Operator::IsDistinctFrom,
        other => return Err(invalid(format!("there is no operator {other}"))),
    })
}

/// Python's `/`, which is true division: integers are converted to floats first.
fn divide(left: Expr, right: Expr, types: &Types) -> Expr {
    let divides = |t: &Option<DataType>| {
        t.as_ref()
            .is_some_and(|t| t.is_floating() || matches!(t, DataType::Decimal128(..) | DataType::Duration(_)))
    };
    if divides(&types.0) || divides(&types.1) {
        return binary_expr(left, Operator::Divide, right);
    }
    binary_expr(to_float(left), Operator::Divide, to_float(right))
}

/// An expression as a float. A literal is converted at once.
fn to_float(expr: Expr) -> Expr {
    match &expr {
        Expr::Literal(value, _) => match value.cast_to(&DataType::Float64) {
            Ok(value) => Expr::Literal(value, None),
            Err(_) => cast(expr, DataType::Float64),
        },
        _ => cast(expr, DataType::Float64),
    }
}

/// Converts a literal to the type of the other operand, if no value is lost.
type Convert = fn(&ScalarValue, &DataType) -> Option<ScalarValue>;

/// An operand. A literal duration, timestamp or decimal takes the unit, zone or scale of the other operand,
/// and an integer the type that it is compared with, so that no column has to be cast.
fn fit_operand(expr: &NativeExpr, other: &Option<DataType>, convert: Convert) -> PyResult<NativeExpr> {
    match (expr.tree.literal(), other) {
        (Some(value), Some(other)) => match convert(value, other) {
            Some(value) => expr.of(Expr::Literal(value, None)),
            None => Ok(expr.clone()),
        },
        _ => Ok(expr.clone()),
    }
}

/// The same for an expression without its schema.
fn fit_literal(expr: Expr, other: &Option<DataType>, convert: Convert) -> Expr {
    match (&expr, other) {
        (Expr::Literal(value, _), Some(other)) => {
            convert(value, other).map_or(expr, |value| Expr::Literal(value, None))
        }
        _ => expr,
    }
}
