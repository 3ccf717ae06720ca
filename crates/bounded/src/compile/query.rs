//! Operators above the joins: sort, limit, grouping, union, values; and the pages of a query.

use super::block::{Block, Rows};
use super::compiler::{Compiler, cast, check, is_joins, unsupported};
use super::error::CompileError;
use super::expressions::{column, substitute, substitute_order};
use super::part::{Part, Required, project_outputs};
use super::{min_max, planner, search};
use crate::bound::Bound;
use crate::error::{Error, Result};
use crate::plan::{Access, Chain, ParameterType, Plan, Source, Step};
use crate::schema::Index;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, FetchType, Limit, LogicalPlan, SkipType, SortExpr, Union, Values,
};

impl Compiler<'_> {
    /// Compiles a query; `paginate` is how many rows a page has.
    ///
    /// # Errors
    /// [`CompileError::Unbounded`] if the query has no bound, [`CompileError::Other`] if it is wrong.
    pub fn compile(
        &self,
        plan: &LogicalPlan,
        paginate: Option<u64>,
    ) -> std::result::Result<Plan, CompileError> {
        let want = Required { stop: paginate, page: paginate.is_some(), ..Required::default() };
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
            rows: self.row_count_parameter(),
            chain: part.chain,
        })
    }

    /// Compiles an operator and its inputs.
    pub(super) fn part(
        &self,
        plan: &LogicalPlan,
        want: &Required,
    ) -> std::result::Result<Part, CompileError> {
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
                let order = substitute_order(&want.order, plan, &projection.expr)?;
                let order = Required { order, ..want.clone() };
                let part = self.part(&projection.input, &order)?;
                let outputs = projection.expr.iter().map(|expr| substitute(expr, schema, &part.outputs));
                Ok(Part { outputs: outputs.collect::<std::result::Result<_, _>>()?, ..part })
            }
            LogicalPlan::SubqueryAlias(alias) if !is_joins(&alias.input) => {
                let inputs: Vec<Expr> =
                    alias.input.schema().columns().into_iter().map(Expr::Column).collect();
                let order = Required { order: substitute_order(&want.order, plan, &inputs)?, ..want.clone() };
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

    /// Compiles joins. If subqueries can be joined first, both ways are compiled, and the cheaper one is
    /// used.
    fn joins(&self, plan: &LogicalPlan, want: &Required) -> std::result::Result<Part, CompileError> {
        let names = self.aliases.borrow().clone();
        let mut block = Block::default();
        let outputs = self.flatten(plan, &mut block)?;
        let after = self.search_block(plan, &block, outputs, want);
        if !block.can_put_subqueries_first {
            return after;
        }
        let names = self.aliases.replace(names);
        let mut block = Block { subqueries_first: true, ..Block::default() };
        let outputs = self.flatten(plan, &mut block);
        let before = outputs.and_then(|outputs| self.search_block(plan, &block, outputs, want));
        let cost = |part: &Part| Bound::of(&part.chain).cost();
        match (after, before) {
            (Ok(after), Ok(before)) if cost(&before) < cost(&after) => Ok(before),
            (Err(_), Ok(before)) => Ok(before),
            // The refusal is more useful if some columns of the relation equal something.
            (Err(CompileError::Unbounded(after)), Err(CompileError::Unbounded(before)))
                if after.equal.is_empty() && !before.equal.is_empty() =>
            {
                Err(CompileError::Unbounded(before))
            }
            (after, _) => {
                self.aliases.replace(names);
                after
            }
        }
    }

    /// The cheapest chain for a block, with the columns that the block returns.
    fn search_block(
        &self,
        plan: &LogicalPlan,
        block: &Block,
        outputs: Vec<Expr>,
        want: &Required,
    ) -> std::result::Result<Part, CompileError> {
        for expr in
            block.conjuncts.iter().chain(block.relations.iter().flat_map(|r| r.outer.iter().flatten()))
        {
            check(expr)?;
        }
        outputs.iter().try_for_each(check)?;
        let order = substitute_order(&want.order, plan, &outputs)?;
        let want = Required { order, ..want.clone() };
        let found = search::search(self, block, &want, &outputs)?;
        let repeated = block.relations.iter().filter(|relation| !relation.keeps_row_count());
        let identity = repeated.flat_map(|relation| match &relation.rows {
            Rows::Stored(table) => {
                let keys = table.key_columns().into_iter();
                keys.map(|at| column(&relation.alias, &table.columns[at].name)).collect()
            }
            Rows::Derived(chain) => match chain.steps.last() {
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

    /// `limit n`: a stop, pushed down where that is possible.
    fn limit(&self, limit: &Limit, want: &Required) -> std::result::Result<Part, CompileError> {
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
        let inner = Required { order: vec![], stop: Some(rows), page: false };
        let mut part = self.part(&limit.input, &inner)?;
        if !part.stopped {
            part.chain.steps.push(Step::Stop(rows));
        }
        part.ordered = want.order.is_empty();
        part.stopped = want.stop.is_none_or(|stop| rows <= stop);
        Ok(part)
    }

    /// `order by`: by the order of an index where that is possible.
    fn sort(
        &self,
        sort: &datafusion::logical_expr::Sort,
        want: &Required,
    ) -> std::result::Result<Part, CompileError> {
        let stop = if want.order.is_empty() { want.stop } else { None };
        let stop = match (stop, sort.fetch) {
            (Some(stop), Some(fetch)) => Some(stop.min(fetch as u64)),
            (stop, fetch) => stop.or(fetch.map(|fetch| fetch as u64)),
        };
        sort.expr.iter().try_for_each(|key| check(&key.expr))?;
        let inner = Required { order: sort.expr.clone(), stop, page: want.page };
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

    /// Compiles a grouping. A lone minimum or maximum is the first row of an order, where that is cheaper.
    fn aggregate(&self, aggregate: &Aggregate) -> std::result::Result<Part, CompileError> {
        let Some(first) = min_max::first_row_plan(aggregate)? else {
            return self.aggregate_input(aggregate, &aggregate.input);
        };
        let names = self.aliases.borrow().clone();
        let of_all = self.aggregate_input(aggregate, &aggregate.input);
        let after = self.aliases.replace(names);
        let of_first = self.aggregate_input(aggregate, &first);
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

    /// Compiles the input of a grouping, and the grouping over it.
    fn aggregate_input(
        &self,
        aggregate: &Aggregate,
        input: &LogicalPlan,
    ) -> std::result::Result<Part, CompileError> {
        let schema = input.schema();
        let input = self.part(input, &Required::default())?;
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

    /// A chain with a grouping behind it.
    pub(super) fn grouped(&self, mut chain: Chain, group: Vec<Expr>, aggregates: Vec<Expr>) -> Part {
        let qualifier = self.alias("group");
        let names: Vec<String> =
            (0..group.len() + aggregates.len()).map(|at| format!("column{}", at + 1)).collect();
        let outputs: Vec<Expr> = names.iter().map(|name| column(&qualifier, name)).collect();
        let identity = outputs.clone();
        chain.steps.push(Step::Aggregate { group, aggregates, names, qualifier });
        Part { chain, outputs, ordered: false, stopped: false, identity, order: vec![] }
    }

    /// `union all`: its branches run side by side.
    fn union(&self, union: &Union, want: &Required) -> std::result::Result<Part, CompileError> {
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
            let order = order.collect::<std::result::Result<Vec<_>, CompileError>>()?;
            let inner = Required { order, stop: want.stop, page: false };
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
        let part = project_outputs(part, &self.alias("union"));
        Ok(Part { ordered: want.order.is_empty(), stopped: want.stop.is_none(), ..part })
    }

    /// `values (…)`
    fn values(&self, values: &Values) -> std::result::Result<Part, CompileError> {
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
        Ok(project_outputs(part, &qualifier))
    }

    /// The types of the parameters, from the expressions that they stand in.
    fn parameter_types(&self, plan: &LogicalPlan, chain: &Chain) -> Result<Vec<ParameterType>> {
        let types = planner::placeholders(plan, chain)?;
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

/// The new indexes that a chain needs.
fn new_indexes(chain: &Chain) -> Vec<(String, Index)> {
    let mut found: Vec<(String, Index)> = Vec::new();
    if let Source::Union { branches, .. } = &chain.source {
        found.extend(branches.iter().flat_map(new_indexes));
    }
    for step in &chain.steps {
        if let Step::Fetch(fetch) = step
            && let Access::Range { index, .. } = &fetch.access
            && index.id == Index::UNNUMBERED
            && !found
                .iter()
                .any(|(table, existing)| *table == fetch.table.name && existing.parts == index.parts)
        {
            found.push((fetch.table.name.clone(), Index::clone(index)));
        }
    }
    found
}
