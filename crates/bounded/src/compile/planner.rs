//! DataFusion's planner over a schema of ours: from the parser's tree to a `LogicalPlan`, and the types of
//! its parameters.

use super::coercion::coerce_plan;
use crate::datum::Type;
use crate::error::{Error, Result};
use crate::expression::session;
use crate::plan::{Chain, Fetch, Source, Step};
use crate::schema::{Schema, Table};
use crate::syntax::parameter_number;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, TableReference};
use datafusion::config::ConfigOptions;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::expr::{Alias, Placeholder};
use datafusion::logical_expr::planner::{ContextProvider, ExprPlanner};
use datafusion::logical_expr::{
    AggregateUDF, Cast, Expr, HigherOrderUDF, LogicalPlan, ScalarUDF, TableSource, WindowUDF,
};
use datafusion::sql::planner::SqlToRel;
use datafusion::sql::sqlparser::ast::Statement;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Plans statements over a schema.
pub(crate) struct Planner<'a> {
    schema: &'a Schema,
}

impl<'a> Planner<'a> {
    /// A planner over the tables of a schema.
    pub fn new(schema: &'a Schema) -> Planner<'a> {
        Planner { schema }
    }

    /// The logical plan of a statement. It is coerced, and not optimized.
    ///
    /// # Errors
    /// `Invalid` if the statement does not fit the schema, or a subquery or function is not supported.
    pub fn plan(&self, statement: Statement) -> Result<LogicalPlan> {
        coerce_plan(SqlToRel::new(self).sql_statement_to_plan(statement)?)
    }
}

/// A table, as the planner sees it: its columns.
struct StoredTable(SchemaRef);

impl TableSource for StoredTable {
    fn schema(&self) -> SchemaRef {
        self.0.clone()
    }
}

impl ContextProvider for Planner<'_> {
    fn get_table_source(&self, name: TableReference) -> datafusion::common::Result<Arc<dyn TableSource>> {
        let table: &Table = match self.schema.table(name.table()) {
            Ok(table) => table,
            Err(Error::Invalid(error)) => return Err(error),
            Err(other) => return Err(DataFusionError::Plan(other.to_string())),
        };
        if let Err(Error::Invalid(error)) = table.check_filled() {
            return Err(error);
        }
        Ok(Arc::new(StoredTable(table.visible_schema())))
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        session().expr_planners()
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        session().scalar_functions().get(name).cloned()
    }

    fn get_higher_order_meta(&self, name: &str) -> Option<Arc<HigherOrderUDF>> {
        session().higher_order_functions().get(name).cloned()
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        session().aggregate_functions().get(name).cloned()
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        session().window_functions().get(name).cloned()
    }

    fn get_variable_type(&self, _: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        session().config_options()
    }

    fn udf_names(&self) -> Vec<String> {
        session().udfs().into_iter().collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        session().higher_order_functions().keys().cloned().collect()
    }

    fn udaf_names(&self) -> Vec<String> {
        session().udafs().into_iter().collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        session().udwfs().into_iter().collect()
    }
}

/// The types of the parameters, by position, from all expressions of a query.
pub(super) fn placeholders(plan: &LogicalPlan, chain: &Chain) -> Result<BTreeMap<usize, DataType>> {
    let mut types = BTreeMap::new();
    // Parameters in keys have the types of the columns.
    exprs_of_chain(chain, &mut |expr| collect_placeholder_types(expr, &mut types))?;
    plan.apply_with_subqueries(|node| {
        let schema = datafusion::logical_expr::utils::merge_schema(&node.inputs());
        node.apply_expressions(|expr| {
            // Other parameters get the type of the operation that they stand in.
            let typed = expr.clone().infer_placeholder_types(&schema).map(|(expr, _)| expr);
            collect_placeholder_types(&typed.unwrap_or_else(|_| expr.clone()), &mut types)?;
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(types)
}

/// Parameters that are stored as they are: no expression or comparison uses them.
pub(crate) fn unmodified_parameters(plan: &LogicalPlan) -> Result<BTreeSet<usize>> {
    let (mut stored, mut other) = (BTreeSet::new(), BTreeSet::new());
    plan.apply_with_subqueries(|node| {
        let stores = matches!(node, LogicalPlan::Projection(_) | LogicalPlan::Values(_));
        node.apply_expressions(|expr| {
            let mut value = expr;
            while let Expr::Cast(Cast { expr, .. }) | Expr::Alias(Alias { expr, .. }) = value {
                value = expr;
            }
            let alone = stores && matches!(value, Expr::Placeholder(_));
            value.apply(|expr| {
                if let Expr::Placeholder(Placeholder { id, .. }) = expr {
                    let found = if alone { &mut stored } else { &mut other };
                    found.extend(parameter_number(id));
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(stored.difference(&other).copied().collect())
}

/// Adds the types of the parameters in an expression.
fn collect_placeholder_types(
    expr: &Expr,
    types: &mut BTreeMap<usize, DataType>,
) -> datafusion::common::Result<()> {
    expr.apply(|expr| {
        // `?::int` takes a number.
        if let Expr::Cast(cast) = expr
            && let Expr::Placeholder(Placeholder { id, field: None }) = cast.expr.as_ref()
            && let Some(at) = parameter_number(id)
            && let Some(of) = Type::holding(cast.field.data_type())
        {
            types.entry(at).or_insert(of.arrow());
        }
        if let Expr::Placeholder(Placeholder { id, field: Some(field) }) = expr
            && let Some(at) = parameter_number(id)
            && *field.data_type() != DataType::Null
        {
            types.entry(at).or_insert_with(|| field.data_type().clone());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// Calls a function with each expression of a chain, keys first.
fn exprs_of_chain(
    chain: &Chain,
    each: &mut dyn FnMut(&Expr) -> datafusion::common::Result<()>,
) -> datafusion::common::Result<()> {
    match &chain.source {
        Source::Lists(lists) => lists.iter().flat_map(|list| &list.values).try_for_each(&mut *each)?,
        Source::Values { rows, .. } => rows.iter().flatten().try_for_each(&mut *each)?,
        Source::Union { branches, .. } => {
            branches.iter().try_for_each(|branch| exprs_of_chain(branch, each))?
        }
        Source::Call => {}
    }
    for step in &chain.steps {
        if let Step::Fetch(fetch) = step {
            exprs_of_fetch(fetch, each)?;
        }
    }
    Ok(())
}

/// The same for a fetch.
fn exprs_of_fetch(
    fetch: &Fetch,
    each: &mut dyn FnMut(&Expr) -> datafusion::common::Result<()>,
) -> datafusion::common::Result<()> {
    fetch.keys.iter().try_for_each(&mut *each)?;
    if let crate::plan::Access::Range { interval: Some(interval), .. } = &fetch.access {
        let ends = interval.lower.iter().chain(&interval.upper).map(|(expr, _)| expr);
        ends.chain(interval.then.iter().map(|(_, expr)| expr)).try_for_each(each)?;
    }
    Ok(())
}
