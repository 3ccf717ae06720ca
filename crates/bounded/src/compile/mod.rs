//! The compiler: from a statement to a [`Plan`] with a proven [`Bound`], or to what is missing for one.
//!
//! 1. `catalog`: DataFusion's planner makes a `LogicalPlan` of the statement, over our schema;
//! 2. `block`, `subquery`: trees of joins, and subqueries in expressions, become flat lists of relations and
//!    predicates; `typed` makes their types fit;
//! 3. `predicates`, `equalities`: what the predicates say that an index can use;
//! 4. `access`: the ways to one table, and the indexes that would make one;
//! 5. `turn`, `lists`, `references`, `search`: join order, stops and data-stops, the cheapest chain that has a bound;
//! 6. here: what stands above the joins (sort, limit, grouping, union), and pages.
//!
//! Invariant: compiling looks at the schema and at what the store can do, never at rows. The same statement has the
//! same verdict on a laptop, in a test and in production.

mod access;
mod block;
mod catalog;
mod distinct;
mod equalities;
mod extreme;
mod lists;
mod lowered;
mod predicates;
mod references;
mod search;
mod subquery;
mod turn;
mod typed;
pub(crate) mod types;

pub(crate) use catalog::{Planner, stored_alone};
pub(crate) use lowered::{coerced, physical};

use crate::bound::Bound;
use crate::error::{Error, Result};
use crate::plan::{Access, Chain, ParameterType, Plan, Source, Step};
use crate::schema::{Index, Schema, Table};
use crate::store::Capabilities;
use crate::text::{self, Parameter};
use block::{Block, column, substitute};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, FetchType, Limit, LogicalPlan, SkipType, SortExpr, Union, Values,
};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Compiles plans over one schema.
pub(crate) struct Compiler<'a> {
    pub schema: &'a Schema,
    pub capabilities: Capabilities,
    /// A query without a bound is taken too.
    pub allow: bool,
    pub parameters: &'a [Parameter],
    aliases: RefCell<BTreeSet<String>>,
}

/// Why there is no plan.
#[derive(Debug)]
pub(crate) enum Stuck {
    /// The statement is wrong, or says what is not there.
    Error(Error),
    /// There is no bound.
    Unbounded(Box<DeadEnd>),
}

impl From<Error> for Stuck {
    fn from(error: Error) -> Stuck {
        Stuck::Error(error)
    }
}

impl From<DataFusionError> for Stuck {
    fn from(error: DataFusionError) -> Stuck {
        Stuck::Error(error.into())
    }
}

/// Where nothing says how many rows there are.
#[derive(Debug, Clone)]
pub(crate) struct DeadEnd {
    /// The relation, as the query calls it.
    pub alias: String,
    pub table: Arc<Table>,
    /// What had been joined before.
    pub joined: Vec<String>,
    /// Its columns that equal something known.
    pub equal: Vec<usize>,
    /// Other relations that could have been next, and their columns that equal something known.
    pub also: Vec<(Arc<Table>, Vec<usize>)>,
    /// Predicates on it that no key makes true.
    pub residual: Vec<Expr>,
    /// The query's own stop, which could not be used here.
    pub stop: Option<u64>,
    /// Whether the query's order could come from an index of this table.
    pub orderable: bool,
    /// A reference of its rows that a join follows, and that can be null.
    pub nullable: Option<Reference>,
}

/// A column that refers to another table.
#[derive(Debug, Clone)]
pub(crate) struct Reference {
    /// The relation, as the query calls it.
    pub alias: String,
    pub table: Arc<Table>,
    pub column: usize,
}

impl Reference {
    /// As the query writes it.
    pub fn written(&self) -> String {
        format!("{}.{}", text::written(&self.alias), text::written(&self.table.columns[self.column].name))
    }
}

/// What is wanted of a part of a plan.
#[derive(Debug, Clone, Default)]
struct Want {
    order: Vec<SortExpr>,
    stop: Option<u64>,
    page: bool,
}

/// A part of a plan that was compiled.
struct Part {
    chain: Chain,
    /// The columns of the plan, in terms of those of the chain.
    outputs: Vec<Expr>,
    /// In the order that was wanted.
    ordered: bool,
    /// No more rows than were wanted.
    stopped: bool,
    /// What tells the rows apart.
    identity: Vec<Expr>,
    /// The order of the pages.
    order: Vec<SortExpr>,
}

impl<'a> Compiler<'a> {
    pub fn new(
        schema: &'a Schema,
        capabilities: Capabilities,
        allow: bool,
        parameters: &'a [Parameter],
    ) -> Compiler<'a> {
        Compiler { schema, capabilities, allow, parameters, aliases: RefCell::default() }
    }

    /// Compiles a query; `paginate` is how many rows a page has.
    pub fn compile(&self, plan: &LogicalPlan, paginate: Option<u64>) -> std::result::Result<Plan, Stuck> {
        let want = Want { stop: paginate, page: paginate.is_some(), ..Want::default() };
        let mut part = self.part(plan, &want)?;
        if let Some(rows) = paginate
            && !part.stopped
        {
            let mut total = std::mem::take(&mut part.order);
            for expr in &part.identity {
                if !total.iter().any(|key| key.expr == *expr) {
                    total.push(expr.clone().sort(true, false));
                }
            }
            part.chain.steps.push(Step::Page { order: total, rows });
        }
        part.outputs.iter().try_for_each(check)?;
        let names = plan.schema().fields().iter().map(|field| field.name().clone());
        let columns = part.outputs.into_iter().zip(names).collect();
        part.chain.steps.push(Step::Project { columns, qualifier: None });
        let bound = Bound::of(&part.chain);
        Ok(Plan {
            new_indexes: new_indexes(&part.chain),
            bound,
            writes: None,
            page: paginate,
            allowed: None,
            parameters: self.parameter_types(plan, &part.chain)?,
            rows: self.rows_given(),
            chain: part.chain,
        })
    }

    fn part(&self, plan: &LogicalPlan, want: &Want) -> std::result::Result<Part, Stuck> {
        match plan {
            LogicalPlan::Limit(limit) => self.limit(limit, want),
            LogicalPlan::Sort(sort) => self.sort(sort, want),
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate),
            LogicalPlan::Distinct(Distinct::All(input)) => self.distinct(input),
            LogicalPlan::Distinct(Distinct::On(on)) => self.distinct_on(on),
            LogicalPlan::Union(union) => self.union(union, want),
            LogicalPlan::Values(values) => self.values(values),
            LogicalPlan::Projection(projection) if !is_joins(&projection.input) => {
                let schema = projection.input.schema();
                let order = through(&want.order, plan, &projection.expr)?;
                let order = Want { order, ..want.clone() };
                let part = self.part(&projection.input, &order)?;
                let outputs = projection.expr.iter().map(|expr| substitute(expr, schema, &part.outputs));
                Ok(Part { outputs: outputs.collect::<std::result::Result<_, _>>()?, ..part })
            }
            LogicalPlan::SubqueryAlias(alias) if !is_joins(&alias.input) => {
                let inputs: Vec<Expr> =
                    alias.input.schema().columns().into_iter().map(Expr::Column).collect();
                let order = Want { order: through(&want.order, plan, &inputs)?, ..want.clone() };
                self.part(&alias.input, &order)
            }
            LogicalPlan::Projection(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::Join(_)
            | LogicalPlan::TableScan(_) => self.joins(plan, want),
            LogicalPlan::EmptyRelation(empty) if empty.produce_one_row => self.joins(plan, want),
            LogicalPlan::Window(_) => Err(unsupported("a window function")),
            LogicalPlan::Subquery(_) => Err(unsupported("a lateral join")),
            other => Err(unsupported(&other.display().to_string())),
        }
    }

    /// Joins; of the two places of `x in (select …)`, before `x` and after it, the cheaper one.
    fn joins(&self, plan: &LogicalPlan, want: &Want) -> std::result::Result<Part, Stuck> {
        let names = self.aliases.borrow().clone();
        let mut block = Block::default();
        let outputs = self.flatten(plan, &mut block)?;
        let after = self.searched(plan, &block, outputs, want);
        if !block.may_begin_with_subqueries {
            return after;
        }
        let names = self.aliases.replace(names);
        let mut block = Block { begins_with_subqueries: true, ..Block::default() };
        let outputs = self.flatten(plan, &mut block);
        let before = outputs.and_then(|outputs| self.searched(plan, &block, outputs, want));
        let cost = |part: &Part| Bound::of(&part.chain).cost();
        match (after, before) {
            (Ok(after), Ok(before)) if cost(&before) < cost(&after) => Ok(before),
            (Err(_), Ok(before)) => Ok(before),
            (after, _) => {
                self.aliases.replace(names);
                after
            }
        }
    }

    fn searched(
        &self,
        plan: &LogicalPlan,
        block: &Block,
        outputs: Vec<Expr>,
        want: &Want,
    ) -> std::result::Result<Part, Stuck> {
        for expr in
            block.conjuncts.iter().chain(block.relations.iter().flat_map(|r| r.outer.iter().flatten()))
        {
            check(expr)?;
        }
        outputs.iter().try_for_each(check)?;
        let order = substitute_order(&want.order, plan, &outputs)?;
        let want = Want { order, ..want.clone() };
        let found = search::search(self, block, &want, &outputs)?;
        let repeated = block.relations.iter().filter(|relation| !relation.is_single());
        let identity = repeated.flat_map(|relation| match &relation.rows {
            block::Rows::Stored(table) => {
                let keys = table.key_columns().into_iter();
                keys.map(|at| column(&relation.alias, &table.columns[at].name)).collect()
            }
            block::Rows::Derived(chain) => match chain.steps.last() {
                Some(Step::Project { columns, .. }) => {
                    columns.iter().map(|(_, name)| column(&relation.alias, name)).collect()
                }
                _ => vec![],
            },
        });
        let identity = identity.collect();
        Ok(Part {
            chain: found.chain,
            outputs,
            ordered: found.ordered,
            stopped: found.stopped,
            identity,
            order: vec![],
        })
    }

    fn limit(&self, limit: &Limit, want: &Want) -> std::result::Result<Part, Stuck> {
        if !matches!(limit.get_skip_type()?, SkipType::Literal(0)) {
            return Err(Error::invalid(
                "offset reads all the rows that it leaves out: write paginate n, and give back the cursor for the next page",
            )
            .into());
        }
        let rows = match limit.get_fetch_type()? {
            FetchType::Literal(Some(rows)) => rows as u64,
            FetchType::Literal(None) => return self.part(&limit.input, want),
            FetchType::UnsupportedExpr => {
                return Err(Error::invalid(
                    "limit takes a number that stands in the query: with a parameter there is no bound, unless it says \
                     the most that it can be: limit ? at most 50",
                )
                .into());
            }
        };
        if want.page {
            return Err(Error::invalid("a query has either limit or paginate").into());
        }
        let inner = Want { order: vec![], stop: Some(rows), page: false };
        let mut part = self.part(&limit.input, &inner)?;
        if !part.stopped {
            part.chain.steps.push(Step::Stop(rows));
        }
        part.ordered = want.order.is_empty();
        part.stopped = want.stop.is_none_or(|stop| rows <= stop);
        Ok(part)
    }

    fn sort(&self, sort: &datafusion::logical_expr::Sort, want: &Want) -> std::result::Result<Part, Stuck> {
        let stop = if want.order.is_empty() { want.stop } else { None };
        let stop = match (stop, sort.fetch) {
            (Some(stop), Some(fetch)) => Some(stop.min(fetch as u64)),
            (stop, fetch) => stop.or(fetch.map(|fetch| fetch as u64)),
        };
        sort.expr.iter().try_for_each(|key| check(&key.expr))?;
        let inner = Want { order: sort.expr.clone(), stop, page: want.page };
        let mut part = self.part(&sort.input, &inner)?;
        if want.page {
            part.order = substitute_order(&sort.expr, &sort.input, &part.outputs)?;
            return Ok(part);
        }
        if !part.ordered {
            let order = substitute_order(&sort.expr, &sort.input, &part.outputs)?;
            part.chain.steps.push(Step::Sort(order));
        }
        if let Some(rows) = stop
            && !part.stopped
        {
            part.chain.steps.push(Step::Stop(rows));
        }
        part.ordered = want.order.is_empty();
        part.stopped = stop.is_some() || want.stop.is_none();
        Ok(part)
    }

    /// Aggregates; a greatest or least value alone is that of the first row by it, where that is cheaper.
    fn aggregate(&self, aggregate: &Aggregate) -> std::result::Result<Part, Stuck> {
        let Some(first) = extreme::by_extreme(aggregate)? else {
            return self.aggregated(aggregate, &aggregate.input);
        };
        let names = self.aliases.borrow().clone();
        let of_all = self.aggregated(aggregate, &aggregate.input);
        let after = self.aliases.replace(names);
        let of_first = self.aggregated(aggregate, &first);
        let cost = |part: &Part| (new_indexes(&part.chain).len(), Bound::of(&part.chain).cost());
        match (of_all, of_first) {
            (Err(_), Ok(first)) => Ok(first),
            (Ok(all), Ok(first)) if cost(&first) < cost(&all) => Ok(first),
            (all, _) => {
                self.aliases.replace(after);
                all
            }
        }
    }

    fn aggregated(&self, aggregate: &Aggregate, input: &LogicalPlan) -> std::result::Result<Part, Stuck> {
        let schema = input.schema();
        let input = self.part(input, &Want::default())?;
        let rewrite = |exprs: &[Expr]| {
            exprs
                .iter()
                .map(|expr| substitute(expr, schema, &input.outputs))
                .collect::<std::result::Result<Vec<_>, _>>()
        };
        let (group, aggregates) = (rewrite(&aggregate.group_expr)?, rewrite(&aggregate.aggr_expr)?);
        if group.iter().any(|expr| matches!(expr, Expr::GroupingSet(_))) {
            return Err(unsupported("grouping sets"));
        }
        group.iter().chain(&aggregates).try_for_each(check)?;
        Ok(self.grouped(input.chain, group, aggregates))
    }

    fn grouped(&self, mut chain: Chain, group: Vec<Expr>, aggregates: Vec<Expr>) -> Part {
        let qualifier = self.alias("group");
        let names: Vec<String> =
            (0..group.len() + aggregates.len()).map(|at| format!("column{}", at + 1)).collect();
        let outputs: Vec<Expr> = names.iter().map(|name| column(&qualifier, name)).collect();
        let identity = outputs.clone();
        chain.steps.push(Step::Aggregate { group, aggregates, names, qualifier });
        Part { chain, outputs, ordered: false, stopped: false, identity, order: vec![] }
    }

    fn union(&self, union: &Union, want: &Want) -> std::result::Result<Part, Stuck> {
        if want.page {
            return Err(Error::invalid(
                "equal rows of a union all cannot be told apart, so it has no pages: write union, or limit",
            )
            .into());
        }
        let fields: Vec<Field> = union.schema.fields().iter().map(|field| field.as_ref().clone()).collect();
        let mut branches = Vec::new();
        for input in &union.inputs {
            let columns: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
            let order = want.order.iter().map(|key| {
                Ok(SortExpr { expr: substitute(&key.expr, &union.schema, &columns)?, ..key.clone() })
            });
            let order = order.collect::<std::result::Result<Vec<_>, Stuck>>()?;
            let inner = Want { order, stop: want.stop, page: false };
            let mut part = self.part(input, &inner)?;
            if let Some(rows) = want.stop
                && !part.stopped
            {
                if !part.ordered {
                    part.chain.steps.push(Step::Sort(substitute_order(&inner.order, input, &part.outputs)?));
                }
                part.chain.steps.push(Step::Stop(rows));
            }
            let columns = part.outputs.into_iter().zip(&fields);
            let columns = columns.map(|(expr, field)| (cast(expr, field.data_type()), field.name().clone()));
            part.chain.steps.push(Step::Project { columns: columns.collect(), qualifier: None });
            branches.push(part.chain);
        }
        let chain = Chain { source: Source::Union { fields: fields.clone(), branches }, steps: vec![] };
        let outputs: Vec<Expr> = fields
            .iter()
            .map(|field| Expr::Column(datafusion::common::Column::new_unqualified(field.name())))
            .collect();
        let part =
            Part { chain, identity: outputs.clone(), outputs, ordered: false, stopped: false, order: vec![] };
        let part = projected(part, &self.alias("union"));
        Ok(Part { ordered: want.order.is_empty(), stopped: want.stop.is_none(), ..part })
    }

    fn values(&self, values: &Values) -> std::result::Result<Part, Stuck> {
        values.values.iter().flatten().try_for_each(check)?;
        let qualifier = self.alias("values");
        let fields: Vec<Field> = values.schema.fields().iter().map(|field| field.as_ref().clone()).collect();
        let outputs: Vec<Expr> = fields
            .iter()
            .map(|field| Expr::Column(datafusion::common::Column::new_unqualified(field.name())))
            .collect();
        let source = Source::Values { fields, rows: values.values.clone() };
        let chain = Chain { source, steps: vec![] };
        let part =
            Part { chain, identity: outputs.clone(), outputs, ordered: false, stopped: false, order: vec![] };
        Ok(projected(part, &qualifier))
    }

    /// A name that nothing has in this query.
    fn alias(&self, wanted: &str) -> String {
        let mut aliases = self.aliases.borrow_mut();
        let mut names = (1..).map(|n| if n == 1 { wanted.to_string() } else { format!("{wanted}_{n}") });
        // There are more numbers than names.
        names.find(|name| aliases.insert(name.clone())).unwrap_or_default()
    }

    /// Whether a list is one parameter.
    fn is_given(&self, values: &[Expr]) -> bool {
        let [Expr::Placeholder(Placeholder { id, .. })] = values else { return false };
        parameter_number(id)
            .and_then(|at| self.parameters.get(at))
            .is_some_and(|parameter| parameter.list.is_some())
    }

    /// How many values a list can have.
    fn list_length(&self, values: &[Expr]) -> u64 {
        match values {
            [Expr::Placeholder(Placeholder { id, .. })] => {
                let parameter = parameter_number(id).and_then(|at| self.parameters.get(at));
                parameter.and_then(|parameter| parameter.list).unwrap_or(1)
            }
            values => values.len() as u64,
        }
    }

    /// The parameter that says how many rows are wanted, and the most that it can be.
    fn rows_given(&self) -> Option<(usize, u64)> {
        self.parameters.iter().enumerate().find_map(|(at, parameter)| Some((at, parameter.most_rows?)))
    }

    /// The types of the parameters, from where they stand.
    fn parameter_types(&self, plan: &LogicalPlan, chain: &Chain) -> Result<Vec<ParameterType>> {
        let types = catalog::placeholders(plan, chain)?;
        let all = self.parameters.iter().enumerate();
        Ok(all
            .map(|(at, parameter)| ParameterType {
                name: parameter.name.clone(),
                of: match parameter.most_rows {
                    Some(_) => DataType::Int64,
                    None => types.get(&at).cloned().unwrap_or(DataType::Utf8),
                },
                list: parameter.list,
            })
            .collect())
    }
}

/// `$3` is the third, at place 2.
pub(crate) fn parameter_number(id: &str) -> Option<usize> {
    id.trim_start_matches('$').parse::<usize>().ok()?.checked_sub(1)
}

/// The outputs as columns of this qualifier.
fn projected(mut part: Part, qualifier: &str) -> Part {
    let names: Vec<String> = (0..part.outputs.len()).map(|at| format!("column{}", at + 1)).collect();
    let columns = part.outputs.into_iter().zip(names.iter().cloned()).collect();
    part.chain.steps.push(Step::Project { columns, qualifier: Some(qualifier.to_string()) });
    let outputs: Vec<Expr> = names.iter().map(|name| column(qualifier, name)).collect();
    Part { identity: outputs.clone(), outputs, ..part }
}

fn cast(expr: Expr, of: &DataType) -> Expr {
    Expr::Cast(datafusion::logical_expr::Cast::new(Box::new(expr), of.clone()))
}

/// Whether a plan is joins, filters and projections over tables and other parts.
fn is_joins(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => is_joins(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => is_joins(&alias.input),
        LogicalPlan::Filter(_) | LogicalPlan::Join(_) | LogicalPlan::TableScan(_) => true,
        LogicalPlan::EmptyRelation(empty) => empty.produce_one_row,
        _ => false,
    }
}

/// An order over the columns of a plan, in terms of what these are.
fn substitute_order(
    order: &[SortExpr],
    plan: &LogicalPlan,
    outputs: &[Expr],
) -> std::result::Result<Vec<SortExpr>, Stuck> {
    let keys = order
        .iter()
        .map(|key| Ok(SortExpr { expr: substitute(&key.expr, plan.schema(), outputs)?, ..key.clone() }));
    keys.collect()
}

/// An order over the columns of a projection, over its input.
fn through(
    order: &[SortExpr],
    plan: &LogicalPlan,
    exprs: &[Expr],
) -> std::result::Result<Vec<SortExpr>, Stuck> {
    substitute_order(order, plan, exprs)
}

fn unsupported(what: &str) -> Stuck {
    Error::invalid(format!("{what} is not supported in a bounded query")).into()
}

/// Refuses what cannot be computed when the query is called.
pub(crate) fn check(expr: &Expr) -> Result<()> {
    use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
    let mut wrong = None;
    expr.apply(|expr| {
        wrong = match expr {
            Expr::InSubquery(_) | Expr::Exists(_) | Expr::ScalarSubquery(_) | Expr::SetComparison(_) => {
                Some("a subquery is not supported here: write it as a join, or ask twice".to_string())
            }
            Expr::ScalarFunction(call)
                if call.func.signature().volatility != datafusion::logical_expr::Volatility::Immutable =>
            {
                Some(format!("{}() is another value in every call: give it as a parameter", call.func.name()))
            }
            _ => None,
        };
        Ok(if wrong.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    wrong.map_or(Ok(()), |message| Err(Error::invalid(message)))
}

/// The indexes of a chain that no schema has.
fn new_indexes(chain: &Chain) -> Vec<(String, Index)> {
    let mut found: Vec<(String, Index)> = Vec::new();
    if let Source::Union { branches, .. } = &chain.source {
        found.extend(branches.iter().flat_map(new_indexes));
    }
    for step in &chain.steps {
        if let Step::Fetch(fetch) = step
            && let Access::Range { index, .. } = &fetch.access
            && index.id == Index::UNNUMBERED
            && !found.iter().any(|(table, known)| *table == fetch.table.name && known.parts == index.parts)
        {
            found.push((fetch.table.name.clone(), Index::clone(index)));
        }
    }
    found
}
