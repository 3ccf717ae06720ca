//! A `match_recognize` as a row pattern, and the columns of its result.
//!
//! With `all rows per match` the register has a list of the match's rows, which is unnested in the end: each
//! row with what it has to know of the rows before it.

use super::is_of_register;
use super::navigation::{MATCH_NUMBER, Navigation, Semantics, is_of_row, of_row_name};
use super::variables::{Rows, Variables};
use crate::syntax::ast::derived_table;
use crate::syntax::names;
use crate::syntax::tokens::{INPUT, SUBSET, WITHIN};
use datafusion::arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, Result, ScalarValue, TableReference, plan_err};
use datafusion::functions::core::expr_fn::{get_field, named_struct};
use datafusion::functions_nested::expr_fn::array_append;
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, cast, lit};
use datafusion::sql::sqlparser::ast::{
    self, AfterMatchSkip, EmptyMatchesMode, Ident, MatchRecognizePattern, Measure, OrderByExpr, RowsPerMatch,
    SymbolDefinition, TableFactor,
};
use std::sync::Arc;
use whimbrel_plan::{EVENT, Element, Pattern, REGISTER, RowPattern, column};
use whimbrel_temporal::operators::AfterMatch;

/// The list of a match's rows.
const ROWS: &str = "__rows";

/// The clauses that say what is looked for.
pub(super) struct Clauses {
    pub measures: Vec<Measure>,
    pub rows_per_match: Option<RowsPerMatch>,
    pub after_match_skip: Option<AfterMatchSkip>,
    pub pattern: MatchRecognizePattern,
    pub symbols: Vec<SymbolDefinition>,
}

impl Clauses {
    /// How long a match may take, if that is given.
    pub fn within(&self) -> Option<&ast::Expr> {
        self.hidden(WITHIN)
    }

    /// What is read: this table, or a query in its place.
    ///
    /// # Errors
    /// `Internal` if the query cannot be a table.
    pub fn table(&self, table: TableFactor) -> Result<TableFactor> {
        let Some(ast::Expr::Subquery(query)) = self.hidden(INPUT) else { return Ok(table) };
        let mut derived = derived_table(query.as_ref().clone())?;
        if let (TableFactor::Derived { alias, .. }, TableFactor::Table { alias: given, .. }) =
            (&mut derived, table)
        {
            *alias = given;
        }
        Ok(derived)
    }

    fn hidden(&self, alias: &str) -> Option<&ast::Expr> {
        self.measures.iter().find(|measure| measure.alias.value == alias).map(|measure| &measure.expr)
    }

    /// The measures proper.
    fn measures(&self) -> impl Iterator<Item = &Measure> {
        let is_measure =
            |measure: &&Measure| ![WITHIN, SUBSET, INPUT].contains(&measure.alias.value.as_str());
        self.measures.iter().filter(is_measure)
    }

    /// The subsets: names and variables.
    fn subsets(&self) -> Result<Vec<(&Ident, Vec<Ident>)>> {
        let given = self.measures.iter().filter(|measure| measure.alias.value == SUBSET);
        given
            .map(|given| match subset(given) {
                Some(subset) => Ok(subset),
                None => plan_err!("match_recognize: {} is no subset; write subset u = (a, b)", given.expr),
            })
            .collect()
    }
}

/// A subset: its name and variables.
fn subset(measure: &Measure) -> Option<(&Ident, Vec<Ident>)> {
    let ast::Expr::BinaryOp { left, op: ast::BinaryOperator::Eq, right } = &measure.expr else { return None };
    let ast::Expr::Identifier(name) = left.as_ref() else { return None };
    let of = match right.as_ref() {
        ast::Expr::Tuple(of) => of.iter().collect(),
        ast::Expr::Nested(of) => vec![of.as_ref()],
        _ => return None,
    };
    let of = of.into_iter().map(|of| match of {
        ast::Expr::Identifier(variable) => Some(variable.clone()),
        _ => None,
    });
    Some((name, of.collect::<Option<_>>()?))
}

/// What is looked for, and what comes out.
pub(super) struct Compiled {
    /// The pattern.
    pub pattern: RowPattern,
    /// The measures: names, and values over the register and over what each row of a match has.
    measures: Vec<(String, Expr)>,
    /// The columns of each row of a match, if all of them come out.
    all_rows: Option<Vec<String>>,
}

impl Compiled {
    /// Compiles clauses over rows with these columns. `within_order`: a match's time is that of this order.
    ///
    /// # Errors
    /// `Plan` if an expression is not about rows of the pattern.
    pub fn new(
        clauses: &Clauses,
        rows: &DFSchema,
        context: &mut dyn RelationPlannerContext,
        within_order: Option<&OrderByExpr>,
    ) -> Result<Compiled> {
        let mut variables = Variables::default();
        let pattern = variables.read(&clauses.pattern)?;
        for (name, of) in clauses.subsets()? {
            variables.add_subset(name, &of)?;
        }
        let after_match = after_match(clauses.after_match_skip.as_ref(), &variables)?;
        let is_all = is_all_rows(clauses.rows_per_match.as_ref())?;
        let mut navigation = Navigation::new(variables, rows, context);
        let mut conditions = definitions(clauses, &mut navigation)?;
        if let (Some(within), Some(order)) = (clauses.within(), within_order) {
            bound_time(&mut conditions, within, order, &mut navigation)?;
        }
        let semantics = if is_all { Semantics::Running } else { Semantics::Final };
        let measures = clauses
            .measures()
            .map(|measure| Ok((names::ident(&measure.alias), navigation.compile(&measure.expr, semantics)?)));
        let measures = measures.collect::<Result<Vec<_>>>()?;
        let all_rows = is_all.then(|| rows.fields().iter().map(|field| field.name().clone()).collect());
        let list = is_all.then(|| RowList::new(&navigation, rows)).transpose()?;
        let updates = updates(&navigation, list.as_ref())?;
        let mut register = navigation.register.fields();
        register.extend(list.map(|list| (ROWS.to_string(), list.initial)));
        let pattern = RowPattern {
            pattern: to_pattern(&pattern, &conditions, &updates),
            previous: navigation.previous,
            register,
            within: None,
            after_match,
            match_number: navigation.is_numbered.then(|| MATCH_NUMBER.to_string()),
        };
        Ok(Compiled { pattern, measures, all_rows })
    }

    /// The columns of the result, over matches: `field` is a column of the register.
    ///
    /// # Errors
    /// `Plan` if two columns have one name.
    pub fn output(
        self,
        matches: LogicalPlan,
        partition: &[String],
        field: &dyn Fn(&str) -> Expr,
    ) -> Result<LogicalPlan> {
        let Some(columns) = &self.all_rows else {
            let measures = self.measures.iter().map(|(name, value)| Ok(over(value, field)?.alias(name)));
            let measures = measures.collect::<Result<Vec<_>>>()?;
            let all = partition.iter().map(column).chain(measures).collect::<Vec<_>>();
            return LogicalPlanBuilder::from(matches).project(all)?.build();
        };
        let number = self.pattern.match_number.as_ref();
        let names = self.pattern.register.iter().map(|(name, _)| name).chain(number);
        let fields: Vec<Expr> = names.map(|name| field(name).alias(name)).collect();
        let rows = LogicalPlanBuilder::from(matches)
            .project(fields)?
            .unnest_column(Column::from_name(ROWS))?
            .filter(column(ROWS).is_not_null())?;
        let own = columns.iter().map(|name| get_field(column(ROWS), name.as_str()).alias(name));
        let measures =
            self.measures.iter().map(|(name, value)| Ok(over(value, &|name| column(name))?.alias(name)));
        let all = own.map(Ok).chain(measures).collect::<Result<Vec<_>>>()?;
        rows.project(all)?.build()
    }
}

/// A value over the columns of a match.
fn over(value: &Expr, field: &dyn Fn(&str) -> Expr) -> Result<Expr> {
    let value = value.clone().transform_up(|expr| match &expr {
        Expr::Column(column) if is_of_register(column) => Ok(Transformed::yes(field(&column.name))),
        Expr::Column(of) if is_of_row(of) => Ok(Transformed::yes(get_field(column(ROWS), of.name.as_str()))),
        _ => Ok(Transformed::no(expr)),
    });
    Ok(value?.data)
}

/// Where the next match may begin.
fn after_match(given: Option<&AfterMatchSkip>, variables: &Variables) -> Result<AfterMatch> {
    Ok(match given {
        None | Some(AfterMatchSkip::PastLastRow) => AfterMatch::PastLastRow,
        Some(AfterMatchSkip::ToNextRow) => AfterMatch::ToNextRow,
        Some(AfterMatchSkip::ToFirst(variable)) => AfterMatch::ToFirst(variables.known(variable)?),
        Some(AfterMatchSkip::ToLast(variable)) => AfterMatch::ToLast(variables.known(variable)?),
    })
}

/// Whether all rows of matches come out.
fn is_all_rows(given: Option<&RowsPerMatch>) -> Result<bool> {
    match given {
        None | Some(RowsPerMatch::OneRow) => Ok(false),
        Some(RowsPerMatch::AllRows(Some(EmptyMatchesMode::WithUnmatched))) => plan_err!(
            "match_recognize: rows without a match do not come out; join the table with its matches to find them"
        ),
        Some(RowsPerMatch::AllRows(_)) => Ok(true),
    }
}

/// The conditions of the variables; a variable without one takes any row.
fn definitions(clauses: &Clauses, navigation: &mut Navigation<'_>) -> Result<Vec<Option<Expr>>> {
    let mut conditions = vec![None; navigation.variables.len()];
    for SymbolDefinition { symbol, definition } in &clauses.symbols {
        let variable = navigation.variables.known(symbol)?;
        if conditions[variable].is_some() {
            return plan_err!("match_recognize: {symbol} is defined twice");
        }
        conditions[variable] = Some(navigation.compile(definition, Semantics::Defining(variable))?);
    }
    Ok(conditions)
}

/// Bounds the time of a match of a table, whose rows are in this order.
fn bound_time(
    conditions: &mut [Option<Expr>],
    within: &ast::Expr,
    order: &OrderByExpr,
    navigation: &mut Navigation<'_>,
) -> Result<()> {
    if order.options.asc == Some(false) {
        return plan_err!(
            "match_recognize: within bounds the time after the first row, and {order} goes back in time"
        );
    }
    let within = navigation.compile(within, Semantics::Final)?;
    let (row, first) = navigation.first_of_all(&order.expr)?;
    for (variable, condition) in conditions.iter_mut().enumerate() {
        let first = navigation.register.with_current_row(first.clone(), variable, &navigation.variables)?;
        let is_in_time = row.clone().lt(first + within.clone());
        *condition = Some(match condition.take() {
            Some(condition) => condition.and(is_in_time),
            None => is_in_time,
        });
    }
    Ok(())
}

/// The list of a match's rows in the register.
struct RowList {
    initial: ScalarValue,
    row: DataType,
    names: Vec<String>,
}

impl RowList {
    fn new(navigation: &Navigation<'_>, rows: &DFSchema) -> Result<RowList> {
        let register = navigation.register.fields();
        let register = register.iter().map(|(name, value)| {
            (Some(TableReference::bare(REGISTER)), Arc::new(Field::new(name, value.data_type(), true)))
        });
        let register = DFSchema::new_with_metadata(register.collect(), Default::default())?;
        let own = rows.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
        let mut fields: Vec<Field> = own.collect();
        for (place, value) in navigation.of_rows.iter().enumerate() {
            fields.push(Field::new(of_row_name(place), value.get_type(&register)?, true));
        }
        let names = rows.fields().iter().map(|field| field.name().clone()).collect();
        let row = DataType::Struct(Fields::from(fields));
        let list = DataType::List(Arc::new(Field::new_list_field(row.clone(), true)));
        Ok(RowList { initial: ScalarValue::try_from(&list)?, row, names })
    }

    /// The list with the current row, of a variable.
    fn append(&self, navigation: &Navigation<'_>, variable: usize) -> Result<Expr> {
        let mut parts = Vec::new();
        for name in &self.names {
            let value = Expr::Column(Column::new(Some(TableReference::bare(EVENT)), name.clone()));
            parts.extend([lit(name.as_str()), value]);
        }
        for (place, value) in navigation.of_rows.iter().enumerate() {
            let value =
                navigation.register.with_current_row(value.clone(), variable, &navigation.variables)?;
            parts.extend([lit(of_row_name(place)), value]);
        }
        let list = Expr::Column(Column::new(Some(TableReference::bare(REGISTER)), ROWS));
        Ok(array_append(list, cast(named_struct(parts), self.row.clone())))
    }
}

/// The updates of a variable.
struct Updates {
    /// Of a row that comes out.
    included: Vec<(usize, Expr)>,
    /// Of a row that does not.
    excluded: Vec<(usize, Expr)>,
}

/// The updates of each variable.
fn updates(navigation: &Navigation<'_>, list: Option<&RowList>) -> Result<Vec<Updates>> {
    let fields = navigation.register.fields().len();
    let of_variable = |variable| {
        let excluded = navigation.register.updates(variable, &navigation.variables);
        let mut included = excluded.clone();
        if let Some(list) = list {
            included.push((fields, list.append(navigation, variable)?));
        }
        Ok(Updates { included, excluded })
    };
    (0..navigation.variables.len()).map(of_variable).collect()
}

/// The pattern of elements.
fn to_pattern(rows: &Rows, conditions: &[Option<Expr>], updates: &[Updates]) -> Pattern {
    let each = |parts: &[Rows]| parts.iter().map(|part| to_pattern(part, conditions, updates)).collect();
    match rows {
        Rows::Variable { number, is_excluded } => Pattern::Event(Element {
            condition: conditions[*number].clone(),
            update: match is_excluded {
                true => updates[*number].excluded.clone(),
                false => updates[*number].included.clone(),
            },
            variable: Some(*number),
        }),
        Rows::Concat(parts) => Pattern::Concat(each(parts)),
        Rows::Or(parts) => Pattern::Or(each(parts)),
        Rows::Repeat { of, least, most, greedy } => Pattern::Repeat {
            of: Box::new(to_pattern(of, conditions, updates)),
            least: *least,
            most: *most,
            greedy: *greedy,
        },
    }
}
