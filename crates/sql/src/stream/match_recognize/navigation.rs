//! Expressions over the rows of a match: `define` and `measures`.
//!
//! `a.price` is the value of the last row of `a`, and `price` that of the last row of all; in the definition
//! of a variable, the current row counts as one of it. `first`, `last` and `prev` choose other rows,
//! aggregates take all, `classifier()` is the variable of a row.
//!
//! A call that chooses rows is planned before the expression around it, which has a column in its place. So
//! the planner sees scalar expressions only, over a table of each variable:
//!
//! | column | what it is until it is resolved |
//! |---|---|
//! | `"of a".price` | of a row of `a` |
//! | `"2"."of a".price` | of the second row before it |
//! | `__row.price` | of any row |
//! | `__call.n` | the value of a call |
//! | `__term.n` | a term that the register has |

use super::register::{Register, Term};
use super::variables::{RowSet, Variables};
use crate::syntax::ast::{arguments, contains_subquery};
use crate::syntax::names;
use crate::syntax::walk::walk_mut;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, DataFusionError, Result, ScalarValue, TableReference, plan_err};
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::{Expr, ExprSchemable, cast};
use datafusion::sql::sqlparser::ast::{
    self, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, VisitorMut,
};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use whimbrel_plan::{EVENT, PREVIOUS, REGISTER, previous_column};

/// What the name of a variable's table begins with.
const VARIABLE: &str = "of ";
/// The table of any row.
const ROW: &str = "__row";
/// The table of calls.
const CALL: &str = "__call";
/// The table of terms.
const TERM: &str = "__term";
/// The table of values that each row of a match has.
const OF_ROW: &str = "__of_row";
/// The column with the number of a match.
pub(super) const MATCH_NUMBER: &str = "__match_number";

/// Which rows a value is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Semantics {
    /// Those up to the current one, which is one of this variable.
    Defining(usize),
    /// Those up to a row of the match, for each of them.
    Running,
    /// All rows of the match.
    Final,
}

/// Compiles the expressions of one pattern.
pub(super) struct Navigation<'a> {
    pub variables: Variables,
    pub register: Register,
    /// The columns of earlier rows that are read.
    pub previous: Vec<(String, usize)>,
    /// What each row of a match has to know, over the register.
    pub of_rows: Vec<Expr>,
    /// Whether the number of the match is read.
    pub is_numbered: bool,
    rows: &'a DFSchema,
    context: &'a mut dyn RelationPlannerContext,
    /// The values of calls, and whether they are about all rows of the match.
    calls: Vec<(Expr, Option<Semantics>, DataType)>,
    terms: Vec<Term>,
}

impl<'a> Navigation<'a> {
    /// Over rows with these columns.
    pub fn new(
        variables: Variables,
        rows: &'a DFSchema,
        context: &'a mut dyn RelationPlannerContext,
    ) -> Self {
        Navigation {
            variables,
            register: Register::default(),
            previous: vec![],
            of_rows: vec![],
            is_numbered: false,
            rows,
            context,
            calls: vec![],
            terms: vec![],
        }
    }

    /// Compiles an expression, over the columns of a row, of earlier rows and of the register; `Running`
    /// values are columns of what each row has to know.
    ///
    /// # Errors
    /// `Plan` if it is not about rows of the pattern.
    pub fn compile(&mut self, expr: &ast::Expr, semantics: Semantics) -> Result<Expr> {
        if contains_subquery(expr) {
            return plan_err!(
                "match_recognize: {expr} has a subquery; join its table before match_recognize"
            );
        }
        let planned = self.plan(expr)?;
        if is_defining(semantics) && self.is_numbered {
            return plan_err!(
                "match_recognize: match_number() is known of a match, and not while one is looked for"
            );
        }
        self.resolved(planned, semantics)
    }

    /// A value of the current row, and that of the first row of the match before it.
    ///
    /// # Errors
    /// As [`compile`](Navigation::compile).
    pub fn first_of_all(&mut self, expr: &ast::Expr) -> Result<(Expr, Expr)> {
        let value = self.plan(expr)?;
        let data_type = value.get_type(&self.schema()?)?;
        let row = self.of_row(value)?;
        let first = Term::First { rows: RowSet::All, value: row.clone(), data_type, skip: 0 };
        Ok((row, self.register.value(first)?))
    }

    /// Plans an expression, with calls in columns.
    fn plan(&mut self, expr: &ast::Expr) -> Result<Expr> {
        let mut expr = expr.clone();
        if let ControlFlow::Break(error) = walk_mut(&mut expr, &mut Calls(self)) {
            return Err(error);
        }
        let schema = self.schema()?;
        self.context.sql_to_expr(expr, &schema)
    }

    /// The columns that the planner sees.
    fn schema(&self) -> Result<DFSchema> {
        let mut columns: Vec<(Option<TableReference>, FieldRef)> = Vec::new();
        let variables = self.variables.all_names().map(|name| variable_table(name));
        for table in variables.chain([ROW.to_string()]) {
            let table = Some(TableReference::bare(table));
            columns.extend(self.rows.fields().iter().map(|field| (table.clone(), Arc::clone(field))));
        }
        for (number, (_, _, data_type)) in self.calls.iter().enumerate() {
            let field = Field::new(number.to_string(), data_type.clone(), true);
            columns.push((Some(TableReference::bare(CALL)), Arc::new(field)));
        }
        DFSchema::new_with_metadata(columns, Default::default())
    }

    /// The value of a call in the place of its column, which is made of it.
    fn add_call(&mut self, value: Expr, semantics: Option<Semantics>, data_type: DataType) -> ast::Expr {
        self.calls.push((value, semantics, data_type));
        names::column(Column::new(Some(TableReference::bare(CALL)), (self.calls.len() - 1).to_string()))
    }

    fn add_term(&mut self, term: Term, data_type: DataType) -> ast::Expr {
        self.terms.push(term);
        let place = (self.terms.len() - 1).to_string();
        self.add_call(Expr::Column(Column::new(Some(TableReference::bare(TERM)), place)), None, data_type)
    }

    /// An argument with the values of the calls in it, which have no semantics of their own.
    fn argument(&mut self, expr: &ast::Expr) -> Result<(Expr, DataType)> {
        let schema = self.schema()?;
        let value = self.context.sql_to_expr(expr.clone(), &schema)?;
        let data_type = value.get_type(&schema)?;
        let value = value.transform_up(|expr| match place_in(&expr, CALL) {
            Some(call) => Ok(Transformed::yes(self.calls[call].0.clone())),
            None => Ok(Transformed::no(expr)),
        });
        Ok((value?.data, data_type))
    }

    /// The column in place of a call, if it is one that chooses rows.
    fn call(&mut self, call: &ast::Function) -> Result<Option<ast::Expr>> {
        let name = call.name.to_string().to_lowercase();
        let Some(given) = arguments(call) else { return self.count_of(&name, call) };
        match (name.as_str(), given.as_slice()) {
            ("first" | "first_value", [value]) => self.first(value, 0).map(Some),
            ("first" | "first_value", [value, skip]) => self.first(value, offset(skip)?).map(Some),
            ("last" | "last_value", [value]) => self.last(value, 0).map(Some),
            ("last" | "last_value", [value, back]) => self.last(value, offset(back)?).map(Some),
            ("prev", [value]) => self.prev(value, 1).map(Some),
            ("prev", [value, rows]) => self.prev(value, offset(rows)?).map(Some),
            ("next", _) => plan_err!(
                "match_recognize: next looks at rows that have not come yet; let the pattern go on for one more row, \
                 and look back at it with prev"
            ),
            ("final", [value]) => self.with_semantics(value, Semantics::Final).map(Some),
            ("running", [value]) => self.with_semantics(value, Semantics::Running).map(Some),
            ("match_number", []) => {
                self.is_numbered = true;
                let number = Column::new(Some(TableReference::bare(REGISTER)), MATCH_NUMBER);
                Ok(Some(self.add_call(Expr::Column(number), None, DataType::Int64)))
            }
            ("classifier", []) => self.classifier(RowSet::All).map(Some),
            ("classifier", [ast::Expr::CompoundIdentifier(parts)]) if is_of(parts, ROW) => {
                let rows = self.variables.known(&parts[1])?;
                self.classifier(RowSet::Of(BTreeSet::from([rows]))).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn classifier(&mut self, rows: RowSet) -> Result<ast::Expr> {
        Ok(self.add_term(Term::Classifier { rows }, DataType::Utf8))
    }

    /// `count(a.*)`.
    fn count_of(&mut self, name: &str, call: &ast::Function) -> Result<Option<ast::Expr>> {
        let FunctionArguments::List(list) = &call.args else { return Ok(None) };
        let [FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(of))] = list.args.as_slice() else {
            return Ok(None);
        };
        let rows = names::table(of)?;
        match self.variables.rows(&rows) {
            Some(rows) if name == "count" => {
                Ok(Some(self.add_term(Term::Count { rows, value: None }, DataType::Int64)))
            }
            _ => plan_err!(
                "match_recognize: the pattern has no variable {of}, or {call} is no count of its rows"
            ),
        }
    }

    fn first(&mut self, value: &ast::Expr, skip: usize) -> Result<ast::Expr> {
        let (value, data_type) = self.argument(value)?;
        let rows = self.rows_of(&value)?;
        let value = self.of_row(value)?;
        Ok(self.add_term(Term::First { rows, value, data_type: data_type.clone(), skip }, data_type))
    }

    fn last(&mut self, value: &ast::Expr, back: usize) -> Result<ast::Expr> {
        let (value, data_type) = self.argument(value)?;
        let rows = self.rows_of(&value)?;
        let value = self.of_row(value)?;
        Ok(self.add_term(Term::Last { rows, value, data_type: data_type.clone(), back }, data_type))
    }

    /// The same of so many rows earlier. What `first` and `last` have chosen is looked back from there.
    fn prev(&mut self, value: &ast::Expr, earlier: usize) -> Result<ast::Expr> {
        let (value, data_type) = self.argument(value)?;
        if let Some(term) = place_in(&value, TERM) {
            return match self.terms[term].clone() {
                Term::First { rows, value, data_type, skip } => {
                    let value = self.looked_back(value, earlier)?;
                    Ok(self
                        .add_term(Term::First { rows, value, data_type: data_type.clone(), skip }, data_type))
                }
                Term::Last { rows, value, data_type, back } => {
                    let value = self.looked_back(value, earlier)?;
                    Ok(self
                        .add_term(Term::Last { rows, value, data_type: data_type.clone(), back }, data_type))
                }
                _ => plan_err!("match_recognize: prev looks back from a row, and not from an aggregate"),
            };
        }
        self.rows_of(&value)?;
        let value = value.transform_up(|expr| {
            let Expr::Column(column) = &expr else { return Ok(Transformed::no(expr)) };
            let Some((table, before)) = table_of(column) else { return Ok(Transformed::no(expr)) };
            let table = match before + earlier {
                0 => TableReference::bare(table),
                rows => TableReference::partial(rows.to_string(), table),
            };
            Ok(Transformed::yes(Expr::Column(Column::new(Some(table), column.name.clone()))))
        });
        Ok(self.add_call(value?.data, None, data_type))
    }

    /// A value over the columns of rows, of so many rows earlier.
    fn looked_back(&mut self, value: Expr, earlier: usize) -> Result<Expr> {
        let value = value.transform_up(|expr| {
            let Expr::Column(column) = &expr else { return Ok(Transformed::no(expr)) };
            let (name, before) = match column.relation.as_ref().map(TableReference::table) {
                Some(EVENT) => (column.name.clone(), 0),
                _ => match self.previous.iter().find(|(name, n)| previous_column(name, *n) == column.name) {
                    Some((name, before)) => (name.clone(), *before),
                    None => return Ok(Transformed::no(expr)),
                },
            };
            Ok(Transformed::yes(self.row_column(name, before + earlier)))
        });
        Ok(value?.data)
    }

    /// `final …` and `running …`.
    fn with_semantics(&mut self, value: &ast::Expr, semantics: Semantics) -> Result<ast::Expr> {
        let schema = self.schema()?;
        let value = self.context.sql_to_expr(value.clone(), &schema)?;
        let data_type = value.get_type(&schema)?;
        Ok(self.add_call(value, Some(semantics), data_type))
    }

    /// The rows that an expression is about.
    fn rows_of(&self, value: &Expr) -> Result<RowSet> {
        let mut of: Option<&str> = None;
        for column in value.column_refs() {
            let table = column.relation.as_ref().map_or("", TableReference::table);
            if matches!(table, TERM | REGISTER) {
                return plan_err!(
                    "match_recognize: a call that chooses rows is within another; only prev(first(…)) and prev(last(…)) are"
                );
            }
            if of.is_some_and(|of| of != table) {
                return plan_err!(
                    "match_recognize: {value} is about rows of several variables; choose the rows of each one by itself"
                );
            }
            of = Some(table);
        }
        match of {
            None => Ok(RowSet::All),
            Some(table) => Ok(self.rows_in(table)),
        }
    }

    /// The rows of a table.
    fn rows_in(&self, table: &str) -> RowSet {
        let variable = table.strip_prefix(VARIABLE);
        variable.and_then(|name| self.variables.rows(name)).unwrap_or(RowSet::All)
    }

    /// A value over columns of rows, in the form that the pattern has.
    fn of_row(&mut self, value: Expr) -> Result<Expr> {
        let value = value.transform_up(|expr| {
            let Expr::Column(column) = &expr else { return Ok(Transformed::no(expr)) };
            match table_of(column) {
                Some((_, earlier)) => Ok(Transformed::yes(self.row_column(column.name.clone(), earlier))),
                None => Ok(Transformed::no(expr)),
            }
        });
        Ok(value?.data)
    }

    /// A column of the row so many rows earlier.
    fn row_column(&mut self, name: String, earlier: usize) -> Expr {
        if earlier == 0 {
            return Expr::Column(Column::new(Some(TableReference::bare(EVENT)), name));
        }
        let column = Column::new(Some(TableReference::bare(PREVIOUS)), previous_column(&name, earlier));
        if !self.previous.iter().any(|(known, rows)| *known == name && *rows == earlier) {
            self.previous.push((name, earlier));
        }
        Expr::Column(column)
    }

    /// A planned expression in the form that the pattern has, or the match.
    fn resolved(&mut self, expr: Expr, semantics: Semantics) -> Result<Expr> {
        let resolved = expr.transform_down(|expr| {
            if let Some(call) = place_in(&expr, CALL) {
                let (value, own, _) = self.calls[call].clone();
                let value =
                    self.resolved(value, own.filter(|_| !is_defining(semantics)).unwrap_or(semantics))?;
                return Ok(Transformed::new(value, true, TreeNodeRecursion::Jump));
            }
            if let Some(term) = place_in(&expr, TERM) {
                let value = self.term(self.terms[term].clone(), semantics)?;
                return Ok(Transformed::new(value, true, TreeNodeRecursion::Jump));
            }
            match &expr {
                Expr::AggregateFunction(_) => {
                    let value = self.aggregate(&expr, semantics)?;
                    Ok(Transformed::new(value, true, TreeNodeRecursion::Jump))
                }
                Expr::WindowFunction(_) => {
                    plan_err!("match_recognize: {expr} is over a window; compute it before match_recognize")
                }
                Expr::Column(column) => match table_of(column) {
                    Some((table, _)) => {
                        let rows = self.rows_in(table);
                        let value = self.last_value(expr, rows, semantics)?;
                        Ok(Transformed::new(value, true, TreeNodeRecursion::Jump))
                    }
                    None => Ok(Transformed::no(expr)),
                },
                _ => Ok(Transformed::no(expr)),
            }
        });
        Ok(resolved?.data)
    }

    /// The value of a column in the last of some rows.
    fn last_value(&mut self, column: Expr, rows: RowSet, semantics: Semantics) -> Result<Expr> {
        let is_current = matches!(semantics, Semantics::Defining(variable) if rows.contains(variable));
        let name =
            column.column_refs().into_iter().next().map_or("", |column| column.name.as_str()).to_string();
        let data_type = self.rows.field_with_unqualified_name(&name)?.data_type().clone();
        let value = self.of_row(column)?;
        match is_current {
            true => Ok(value),
            false => self.term(Term::Last { rows, value, data_type, back: 0 }, semantics),
        }
    }

    /// The value of a term.
    fn term(&mut self, term: Term, semantics: Semantics) -> Result<Expr> {
        let value = self.register.value(term)?;
        match semantics {
            Semantics::Final => Ok(value),
            Semantics::Defining(variable) => self.register.with_current_row(value, variable, &self.variables),
            Semantics::Running => {
                let known = self.of_rows.iter().position(|known| *known == value);
                let place = known.unwrap_or_else(|| {
                    self.of_rows.push(value);
                    self.of_rows.len() - 1
                });
                Ok(Expr::Column(Column::new(Some(TableReference::bare(OF_ROW)), of_row_name(place))))
            }
        }
    }

    /// The value of an aggregate.
    fn aggregate(&mut self, expr: &Expr, semantics: Semantics) -> Result<Expr> {
        let Expr::AggregateFunction(call) = expr else { return Ok(expr.clone()) };
        let (name, params) = (call.func.name().to_string(), &call.params);
        if params.distinct || params.filter.is_some() || !params.order_by.is_empty() {
            return plan_err!("match_recognize: {name} takes no distinct, filter or order here");
        }
        let (argument, data_type) = match params.args.as_slice() {
            [argument] => {
                let schema = self.schema()?;
                let data_type = argument.get_type(&schema)?;
                let argument = argument.clone().transform_up(|expr| match place_in(&expr, CALL) {
                    Some(call) => Ok(Transformed::yes(self.calls[call].0.clone())),
                    None => Ok(Transformed::no(expr)),
                });
                (argument?.data, data_type)
            }
            _ => {
                return plan_err!(
                    "match_recognize: {name} has one argument here, and not {}",
                    params.args.len()
                );
            }
        };
        let result = match name.as_str() {
            "sum" | "avg" => expr.get_type(&self.schema()?)?,
            _ => data_type.clone(),
        };
        let rows = self.rows_of(&argument)?;
        let is_rows = argument.column_refs().is_empty();
        let value = self.of_row(argument)?;
        match name.as_str() {
            "count" => {
                let is_null = matches!(&value, Expr::Literal(ScalarValue::Null, _));
                let value = (!is_rows || is_null).then_some(value);
                self.term(Term::Count { rows, value }, semantics)
            }
            "sum" => self.term(Term::Sum { rows, value, data_type: result }, semantics),
            "avg" => {
                let count = Term::Count { rows: rows.clone(), value: Some(value.clone()) };
                let sum = self.term(Term::Sum { rows, value, data_type: result.clone() }, semantics)?;
                let count = self.term(count, semantics)?;
                Ok(cast(sum / cast(count, result.clone()), result))
            }
            "min" | "max" => {
                let is_least = name == "min";
                self.term(Term::Extreme { rows, value, data_type, is_least }, semantics)
            }
            "array_agg" => self.term(Term::List { rows, value, data_type }, semantics),
            _ => plan_err!(
                "match_recognize: there is no {name} of the rows of a match; there are count, sum, avg, min, max, array_agg, \
                 first and last"
            ),
        }
    }
}

fn is_defining(semantics: Semantics) -> bool {
    matches!(semantics, Semantics::Defining(_))
}

/// The name of a value that each row of a match has.
pub(super) fn of_row_name(place: usize) -> String {
    format!("__v{place}")
}

/// Whether a column is one that each row of a match has.
pub(super) fn is_of_row(column: &Column) -> bool {
    column.relation.as_ref().is_some_and(|table| table.table() == OF_ROW)
}

/// The place that a column of this table names.
fn place_in(expr: &Expr, table: &str) -> Option<usize> {
    let Expr::Column(Column { relation: Some(relation), name, .. }) = expr else { return None };
    (relation.table() == table).then(|| name.parse().ok()).flatten()
}

/// The table of a column of rows, and how many rows earlier it is.
fn table_of(column: &Column) -> Option<(&str, usize)> {
    let relation = column.relation.as_ref()?;
    match relation.table() {
        CALL | TERM | OF_ROW | EVENT | PREVIOUS | REGISTER => None,
        table => Some((table, relation.schema().map_or(Some(0), |rows| rows.parse().ok())?)),
    }
}

/// How many rows further a call looks.
fn offset(expr: &ast::Expr) -> Result<usize> {
    let number = match expr {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::Number(digits, _) => digits.parse().ok(),
            _ => None,
        },
        _ => None,
    };
    match number {
        Some(number) => Ok(number),
        None => plan_err!("match_recognize: {expr} is no number of rows; write a whole number, 0 or more"),
    }
}

/// Whether a name begins with this table.
fn is_of(parts: &[Ident], table: &str) -> bool {
    matches!(parts, [first, _] if first.value == table)
}

/// The table of a variable's rows.
fn variable_table(name: &str) -> String {
    format!("{VARIABLE}{name}")
}

/// Gives columns the table of their variable, or that of any row, and calls that choose rows a column.
struct Calls<'b, 'a>(&'b mut Navigation<'a>);

impl VisitorMut for Calls<'_, '_> {
    type Break = DataFusionError;

    fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<DataFusionError> {
        let changed = match expr {
            ast::Expr::Identifier(name) => Ok(Some(in_table(ROW, std::slice::from_ref(name)))),
            ast::Expr::CompoundIdentifier(parts) => Ok(self.qualified(parts)),
            ast::Expr::Function(call) => self.0.call(call),
            _ => Ok(None),
        };
        match changed {
            Ok(Some(changed)) => *expr = changed,
            Ok(None) => {}
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }
}

impl Calls<'_, '_> {
    /// A column of a variable, or a field of a column of any row.
    fn qualified(&self, parts: &[Ident]) -> Option<ast::Expr> {
        let (first, rest) = parts.split_first()?;
        let name = names::ident(first);
        if self.0.variables.rows(&name).is_some() {
            return Some(in_table(&variable_table(&name), rest));
        }
        self.0.rows.has_column_with_unqualified_name(&name).then(|| in_table(ROW, parts))
    }
}

/// A name in a table.
fn in_table(table: &str, parts: &[Ident]) -> ast::Expr {
    let table = Ident::with_quote('"', table);
    ast::Expr::CompoundIdentifier([table].into_iter().chain(parts.iter().cloned()).collect())
}
