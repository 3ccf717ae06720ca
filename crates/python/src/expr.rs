//! Expressions: DataFusion's, built by the operators of a Python class.
//!
//! An expression that came from a stream's columns knows the stream's schema, so that operators whose meaning
//! depends on types (`/`, `+` of strings, `&` of whole numbers) are settled when they are written. One that
//! did not (`wb.col`) is taken as a number or a boolean.

use arrow::datatypes::DataType;
use datafusion::common::{Column, DFSchema, DFSchemaRef, ScalarValue};
use datafusion::functions::core::expr_fn::get_field;
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{
    Between, Expr, ExprSchemable, Like, Operator, binary_expr, cast, in_list, try_cast, when,
};
use pyo3::prelude::*;
use std::sync::Arc;
use whimbrel_plan::{JoinHow, compared, fitted};

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
    /// The columns that it speaks of, if they are known.
    pub schema: Option<DFSchemaRef>,
}

impl NativeExpr {
    /// An expression over these columns.
    ///
    /// # Errors
    /// `InvalidError` if it is too deep.
    pub fn new(expr: Expr, schema: Option<DFSchemaRef>) -> PyResult<NativeExpr> {
        // Of other expressions it is asked when it matters: a function asks its arguments several times.
        let kind = match (&expr, &schema) {
            (Expr::Literal(value, _), _) => Some(value.data_type()),
            (Expr::Column(_), Some(schema)) => expr.get_type(schema.as_ref()).ok(),
            _ => None,
        };
        Ok(NativeExpr { tree: Tree::whole(expr, kind)?, schema })
    }

    /// The expression itself.
    pub fn expr(&self) -> Expr {
        self.tree.expr()
    }

    fn of(&self, expr: Expr) -> PyResult<NativeExpr> {
        NativeExpr::new(expr, self.schema.clone())
    }

    /// The type, if the columns are known and the expression has one.
    fn data_type(&self, schema: Option<&DFSchemaRef>) -> Option<DataType> {
        if self.tree.kind.is_some() {
            return self.tree.kind.clone();
        }
        let empty = DFSchema::empty();
        let schema = schema.or(self.schema.as_ref()).map_or(&empty, |schema| schema.as_ref());
        self.expr().get_type(schema).ok()
    }
}

/// The expressions of a list.
pub fn exprs(list: Vec<NativeExpr>) -> Vec<Expr> {
    list.iter().map(NativeExpr::expr).collect()
}

#[pymethods]
impl NativeExpr {
    /// An expression is a value that nothing changes.
    fn __deepcopy__(slf: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        slf
    }

    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(invalid("an expression cannot be pickled; send the function that makes it, and call it there"))
    }

    /// A column by name; with the schema that it belongs to, an unknown name is an error.
    #[staticmethod]
    #[pyo3(signature = (name, schema = None))]
    fn column(name: &str, schema: Option<&NativeSchema>) -> PyResult<NativeExpr> {
        let expr = Expr::Column(Column::new_unqualified(name));
        let Some(schema) = schema else { return NativeExpr::new(expr, None) };
        let schema = DFSchema::try_from(schema.0.as_ref().clone()).or_raise()?;
        NativeExpr::new(expr, Some(schema.into()))
    }

    /// A column of one of two rows that meet, by its side, `left` or `right`.
    #[staticmethod]
    fn column_of(side: &str, name: &str, left: &NativePlan, right: &NativePlan) -> PyResult<NativeExpr> {
        let schema = JoinHow::both(&left.stream, &right.stream).or_raise()?;
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
        let meet = if COMPARISONS.contains(&symbol) { compared } else { fitted };
        let left = fitted_to(self, &types.1, meet)?;
        let right = fitted_to(other, &types.0, meet)?;
        let schema = schema.cloned();
        match symbol {
            "%" => NativeExpr::new(functions::floor_mod(left.expr(), right.expr()), schema),
            "//" => NativeExpr::new(functions::floor_div(left.expr(), right.expr()), schema),
            "/" => NativeExpr::new(divide(left.expr(), right.expr(), &types), schema),
            "**" => {
                NativeExpr::new(functions::call("power", vec![left.expr(), right.expr()]).or_raise()?, schema)
            }
            _ => {
                let operator = operator(symbol, &types)?;
                let truth = COMPARISONS.contains(&symbol) || operator.is_logic_operator();
                let kind = match (left.data_type(schema.as_ref()), right.data_type(schema.as_ref())) {
                    _ if truth => Some(DataType::Boolean),
                    (Some(left), Some(right)) => {
                        BinaryTypeCoercer::new(&left, &operator, &right).get_result_type().ok()
                    }
                    _ => None,
                };
                Ok(NativeExpr { tree: Tree::binary(&left.tree, operator, &right.tree, kind)?, schema })
            }
        }
    }

    /// `~`: not, of a boolean; the complement, of a whole number.
    fn invert(&self) -> PyResult<NativeExpr> {
        match self.data_type(None) {
            Some(t) if t.is_integer() => {
                let ones = Expr::Literal(ScalarValue::Int64(Some(-1)), None);
                self.of(binary_expr(self.expr(), Operator::BitwiseXor, ones))
            }
            _ => self.of(Expr::Not(Box::new(self.expr()))),
        }
    }

    fn negative(&self) -> PyResult<NativeExpr> {
        self.of(Expr::Negative(Box::new(self.expr())))
    }

    fn is_null(&self) -> PyResult<NativeExpr> {
        self.of(Expr::IsNull(Box::new(self.expr())))
    }

    fn is_not_null(&self) -> PyResult<NativeExpr> {
        self.of(Expr::IsNotNull(Box::new(self.expr())))
    }

    #[pyo3(signature = (data_type, strict = true))]
    fn cast(&self, data_type: &Bound<'_, PyAny>, strict: bool) -> PyResult<NativeExpr> {
        let data_type = types::extract(data_type)?;
        let cast = if strict { cast } else { try_cast };
        self.of(cast(self.expr(), data_type))
    }

    fn isin(&self, list: Vec<NativeExpr>) -> PyResult<NativeExpr> {
        let met = self.data_type(None);
        let list = exprs(list).into_iter().map(|e| fit(e, &met, compared)).collect();
        self.of(in_list(self.expr(), list, false))
    }

    fn between(&self, low: NativeExpr, high: NativeExpr) -> PyResult<NativeExpr> {
        let met = self.data_type(None);
        let [low, high] = [low.expr(), high.expr()].map(|e| Box::new(fit(e, &met, compared)));
        self.of(Expr::Between(Between { expr: Box::new(self.expr()), negated: false, low, high }))
    }

    /// Whether a text has the form of an SQL pattern.
    fn like(&self, pattern: NativeExpr, escape: Option<char>, any_case: bool) -> PyResult<NativeExpr> {
        let [value, pattern] = [self.expr(), pattern.expr()].map(Box::new);
        self.of(Expr::Like(Like::new(false, value, pattern, escape, any_case)))
    }

    /// A field of a struct column.
    fn field(&self, name: &str) -> PyResult<NativeExpr> {
        self.of(get_field(self.expr(), name))
    }

    fn alias(&self, name: &str) -> PyResult<NativeExpr> {
        match self.expr().unalias() {
            // A column under its own name is the column, and nothing has to be computed for it.
            Expr::Column(column) if column.name == name => self.of(Expr::Column(column)),
            expr => self.of(expr.alias(name)),
        }
    }

    /// The name that the expression gives its column: its alias, or the column that it is; else none.
    fn name(&self) -> Option<String> {
        match self.tree.named()? {
            Expr::Alias(alias) => Some(alias.name.clone()),
            Expr::Column(column) => Some(column.name.clone()),
            _ => None,
        }
    }

    /// The first column that the expression speaks of, reading from the left.
    fn root(&self) -> Option<String> {
        let mut found = None;
        let _ = datafusion::common::tree_node::TreeNode::apply(&self.expr(), |node| {
            use datafusion::common::tree_node::TreeNodeRecursion::{Continue, Stop};
            if let Expr::Column(column) = node {
                found = Some(column.name.clone());
                return Ok(Stop);
            }
            Ok(Continue)
        });
        found
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

    /// The names of a struct's fields, if the expression is known to be one.
    fn fields(&self) -> Vec<String> {
        match self.data_type(None) {
            Some(DataType::Struct(fields)) => fields.iter().map(|f| f.name().clone()).collect(),
            _ => Vec::new(),
        }
    }

    fn text(&self) -> String {
        text::text(&self.expr())
    }
}

const COMPARISONS: [&str; 6] = ["==", "!=", "<", "<=", ">", ">="];

type Types = (Option<DataType>, Option<DataType>);

fn operator(symbol: &str, types: &Types) -> PyResult<Operator> {
    let is = |test: fn(&DataType) -> bool| {
        types.0.as_ref().is_some_and(test) || types.1.as_ref().is_some_and(test)
    };
    let whole = is(|t| t.is_integer());
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
        "&" if whole => Operator::BitwiseAnd,
        "|" if whole => Operator::BitwiseOr,
        "^" if whole => Operator::BitwiseXor,
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

/// Python's `/`: true division, so whole numbers are made floats first.
fn divide(left: Expr, right: Expr, types: &Types) -> Expr {
    let exact = |t: &Option<DataType>| {
        t.as_ref()
            .is_some_and(|t| t.is_floating() || matches!(t, DataType::Decimal128(..) | DataType::Duration(_)))
    };
    if exact(&types.0) || exact(&types.1) {
        return binary_expr(left, Operator::Divide, right);
    }
    binary_expr(to_float(left), Operator::Divide, to_float(right))
}

fn to_float(expr: Expr) -> Expr {
    match &expr {
        Expr::Literal(value, _) => match value.cast_to(&DataType::Float64) {
            Ok(value) => Expr::Literal(value, None),
            Err(_) => cast(expr, DataType::Float64),
        },
        _ => cast(expr, DataType::Float64),
    }
}

/// How a literal takes the type of what it meets.
type Meet = fn(&ScalarValue, &DataType) -> Option<ScalarValue>;

/// A literal duration, instant or decimal takes the unit (zone, digits) of what it meets, and a whole number the type
/// of what it is compared with, so that no column is cast for it.
fn fitted_to(expr: &NativeExpr, other: &Option<DataType>, meet: Meet) -> PyResult<NativeExpr> {
    match (expr.tree.literal(), other) {
        (Some(value), Some(other)) => match meet(value, other) {
            Some(value) => expr.of(Expr::Literal(value, None)),
            None => Ok(expr.clone()),
        },
        _ => Ok(expr.clone()),
    }
}

/// The same, of an expression by itself.
fn fit(expr: Expr, other: &Option<DataType>, meet: Meet) -> Expr {
    match (&expr, other) {
        (Expr::Literal(value, _), Some(other)) => {
            meet(value, other).map_or(expr, |value| Expr::Literal(value, None))
        }
        _ => expr,
    }
}
