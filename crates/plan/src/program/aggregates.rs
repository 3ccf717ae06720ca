//! Aggregate nodes: by the current key, or by grouping sets.

use super::arguments::keyword_argument;
use super::document::Doc;
use super::literal::{argument_text, python_string};
use super::reader::{Reader, Required, Scope, has_qualifiers, unique_name, without_coercion_casts};
use super::rows::{positions, readable};
use super::steps::StepKind;
use super::variable_names::name_of;
use crate::aggregate::{Agg, AggFunction, aggregate_of};
use crate::names::{column, column_name, names};
use crate::stream::{Call, GROUPING_ID, Groups};
use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, plan_err};
use datafusion::logical_expr::expr::{
    AggregateFunction, AggregateFunctionParams, NullTreatment, Sort as SortExpr,
};
use datafusion::logical_expr::{Aggregate, Expr, ExprSchemable, GroupingSet};

impl Reader {
    /// The step of an aggregate node: `.rekey(…)` and `.aggregate(…)`.
    pub fn aggregate(&mut self, aggregate: &Aggregate, required: &Required) -> Result<Scope> {
        if let [Expr::GroupingSet(sets)] = aggregate.group_expr.as_slice() {
            return self.grouping_sets(aggregate, sets, required);
        }
        let schema = aggregate.input.schema();
        let input = self.read(&aggregate.input, &required_input(aggregate)?)?;
        let mut key: Vec<(String, Expr)> = Vec::new();
        for (i, expr) in aggregate.group_expr.iter().enumerate() {
            let rewritten = self.rewrite_expr(expr, schema, &input)?;
            let name = self.key_name(&rewritten, required, i, aggregate, &input);
            // Equal expressions are one column of the key.
            let taken = |n: &str| key.iter().any(|(taken, expr)| taken == n && *expr != rewritten);
            key.push((unique_name(&name, taken), rewritten));
        }
        if aggregate.aggr_expr.is_empty() {
            return self.distinct_groups(input, key);
        }
        let distinct_key = deduplicated(&key);
        let columns: Vec<String> = key.iter().map(|(name, _)| name.clone()).collect();
        let by = self.keyed_by(input.clone(), &distinct_key)?;
        let calls = self.calls(aggregate, &input, required, &columns)?;
        let arguments = self.call_arguments(by.step, &calls)?;
        let name = match columns.as_slice() {
            [] => "totals".to_string(),
            [one, two, ..] if one.len() + two.len() <= 16 => name_of(&format!("per_{one}_and_{two}")),
            [one, ..] => name_of(&format!("per_{one}")),
        };
        let columns = columns.into_iter().chain(calls.iter().map(|(name, _)| name.clone())).collect();
        let stream = self.steps.stream(by.step).aggregate_by(Groups::Key, calls)?;
        let scope =
            self.add_named_step(by, StepKind::QueryMethod, Doc::call(".aggregate", arguments), stream, name);
        Ok(Scope { columns, ..scope })
    }

    /// `aggregate(wb.rollup("region", "kind"), n=wb.count())`.
    fn grouping_sets(
        &mut self,
        aggregate: &Aggregate,
        sets: &GroupingSet,
        required: &Required,
    ) -> Result<Scope> {
        let schema = aggregate.input.schema();
        let input = self.read(&aggregate.input, &required_input(aggregate)?)?;
        let input = self.keyed(input, &[])?;
        let (input, computed) =
            self.with_computed_groups(aggregate, sets.distinct_expr(), input, required)?;
        // Grouping sets take columns only: computed expressions have become columns.
        let group_column = |reader: &Reader, expr: &Expr| -> Result<String> {
            let rewritten = reader.rewrite_expr(expr, schema, &input)?;
            let computed_name =
                || computed.iter().find(|(_, expr)| *expr == rewritten).map(|(name, _)| name.clone());
            match column_name(&rewritten).map(String::from).or_else(computed_name) {
                Some(name) => Ok(name),
                None => plan_err!("the program has no word for grouping sets by {rewritten}"),
            }
        };
        let mut columns: Vec<String> = Vec::new();
        for expr in sets.distinct_expr() {
            columns.push(group_column(self, expr)?);
        }
        let columns_of = |exprs: &[Expr]| -> Result<Vec<Expr>> {
            exprs.iter().map(|e| Ok(column(group_column(self, e)?))).collect()
        };
        let listed = |exprs: &[Expr]| -> Vec<Doc> {
            exprs.iter().filter_map(column_name).map(|n| Doc::Text(python_string(n))).collect()
        };
        let (doc, sets) = match sets {
            GroupingSet::Rollup(exprs) => {
                let exprs = columns_of(exprs)?;
                (Doc::call("wb.rollup", listed(&exprs)), GroupingSet::Rollup(exprs))
            }
            GroupingSet::Cube(exprs) => {
                let exprs = columns_of(exprs)?;
                (Doc::call("wb.cube", listed(&exprs)), GroupingSet::Cube(exprs))
            }
            GroupingSet::GroupingSets(sets) => {
                let sets = sets.iter().map(|set| columns_of(set)).collect::<Result<Vec<_>>>()?;
                let docs = sets.iter().map(|set| Doc::list(listed(set))).collect();
                (Doc::call("wb.grouping_sets", docs), GroupingSet::GroupingSets(sets))
            }
        };
        columns.push(GROUPING_ID.to_string());
        let calls = self.calls(aggregate, &input, required, &columns)?;
        let mut arguments = vec![doc];
        arguments.extend(self.call_arguments(input.step, &calls)?);
        let name = name_of(&format!("per_{}", columns.first().map_or("group", String::as_str)));
        columns.extend(calls.iter().map(|(name, _)| name.clone()));
        let stream = self.steps.stream(input.step).aggregate_by(Groups::Sets(sets), calls)?;
        let scope = self.add_named_step(
            input,
            StepKind::QueryMethod,
            Doc::call(".aggregate", arguments),
            stream,
            name,
        );
        Ok(Scope { columns, ..scope })
    }

    /// Adds a column for each computed grouping expression; returns these with their names.
    fn with_computed_groups(
        &mut self,
        aggregate: &Aggregate,
        groups: Vec<&Expr>,
        input: Scope,
        required: &Required,
    ) -> Result<(Scope, Vec<(String, Expr)>)> {
        let mut computed: Vec<(String, Expr)> = Vec::new();
        for (i, expr) in groups.into_iter().enumerate() {
            let rewritten = self.rewrite_expr(expr, aggregate.input.schema(), &input)?;
            if column_name(&rewritten).is_none() {
                let name = self.key_name(&rewritten, required, i, aggregate, &input);
                computed.push((unique_name(&name, |n| computed.iter().any(|(c, _)| c == n)), rewritten));
            }
        }
        if computed.is_empty() {
            return Ok((input, computed));
        }
        let arguments = super::arguments::arguments(self, input.step, &computed)?;
        let stream = self.steps.stream(input.step).with_columns(super::reader::aliased(&computed))?;
        Ok((
            self.add_step(input, StepKind::QueryMethod, Doc::call(".with_columns", arguments), stream),
            computed,
        ))
    }

    /// The aggregate functions of a node, under unique names.
    fn calls(
        &mut self,
        aggregate: &Aggregate,
        input: &Scope,
        required: &Required,
        key: &[String],
    ) -> Result<Vec<(String, Call)>> {
        let groups = aggregate.schema.fields().len() - aggregate.aggr_expr.len();
        let mut calls: Vec<(String, Call)> = Vec::new();
        for (i, expr) in aggregate.aggr_expr.iter().enumerate() {
            let call = self.call_over(expr, aggregate, input)?;
            let builder_name = match expr {
                Expr::Alias(alias) if !has_qualifiers(aggregate.input.schema()) => Some(alias.name.clone()),
                _ => None,
            };
            let wanted = || required.name(groups + i, |name| readable_name(name, &call));
            let name = builder_name.or_else(wanted).unwrap_or_else(|| default_name(&call));
            let taken = |n: &str| key.iter().any(|k| k == n) || calls.iter().any(|(c, _)| c == n);
            calls.push((unique_name(&name, taken), call));
        }
        Ok(calls)
    }

    fn call_arguments(&mut self, step: usize, calls: &[(String, Call)]) -> Result<Vec<Doc>> {
        calls
            .iter()
            .map(|(name, call)| {
                let doc = match call {
                    Call::Agg(agg) => self.agg(step, agg)?,
                    Call::Relational(call) => self.relational(step, call)?,
                };
                Ok(keyword_argument(name, doc))
            })
            .collect()
    }

    /// The name of a key column; a computed one gets a unique name.
    fn key_name(
        &self,
        over: &Expr,
        required: &Required,
        i: usize,
        aggregate: &Aggregate,
        input: &Scope,
    ) -> String {
        match column_name(over) {
            Some(name) => name.to_string(),
            None => {
                let taken = names(self.steps.stream(input.step).plan().schema());
                let own = || readable(aggregate.schema.field(i).name(), over);
                let name = required.name(i, |name| readable(name, over)).unwrap_or_else(own);
                unique_name(&name, |n| taken.contains(&n))
            }
        }
    }

    /// An aggregate without functions is a `.distinct()`.
    fn distinct_groups(&mut self, input: Scope, key: Vec<(String, Expr)>) -> Result<Scope> {
        let input = match self.steps.stream(input.step).properties().key.is_empty() {
            true => input,
            false => self.keyed(input, &[])?,
        };
        let columns: Vec<String> = key.iter().map(|(name, _)| name.clone()).collect();
        let all = names(self.steps.stream(input.step).plan().schema());
        let are_columns = key.iter().all(|(name, expr)| column_name(expr) == Some(name));
        let scope = match are_columns && all == columns {
            true => Scope { columns, ..input },
            false => Scope { columns, ..self.select(input, deduplicated(&key), false)? },
        };
        let stream = self.steps.stream(scope.step).distinct()?;
        Ok(self.add_step(scope, StepKind::QueryMethod, Doc::text(".distinct()"), stream))
    }

    /// An aggregate function over the columns of a step: a snapshot aggregate if it has the same type.
    fn call_over(&self, expr: &Expr, aggregate: &Aggregate, input: &Scope) -> Result<Call> {
        let schema = aggregate.input.schema();
        let own = self.steps.stream(input.step).plan().schema();
        if let Ok((_, agg)) = aggregate_of(expr) {
            let over = |e: Option<Expr>| e.map(|e| self.rewrite_expr(&e, schema, input)).transpose();
            let agg =
                Agg { function: agg.function, argument: over(agg.argument)?, filter: over(agg.filter)? };
            let short =
                Agg { argument: agg.argument.clone().map(|a| without_cast(a, &agg.function)), ..agg.clone() };
            let of = |agg: &Agg| Call::from(agg.clone()).expr(own)?.get_type(own);
            match (of(&short), of(&agg)) {
                (Ok(a), Ok(b)) if a == b => return Ok(short.into()),
                (_, Ok(_)) => return Ok(agg.into()),
                _ => {}
            }
        }
        let Expr::AggregateFunction(AggregateFunction { func, params }) = expr.clone().unalias() else {
            return plan_err!("{expr} is no aggregate");
        };
        let AggregateFunctionParams { args, distinct, filter, order_by, null_treatment } = params;
        let params = AggregateFunctionParams {
            args: self.rewrite_exprs(&args, schema, input)?,
            distinct,
            filter: filter
                .map(|f| {
                    Ok::<_, datafusion::common::DataFusionError>(Box::new(
                        self.rewrite_expr(&f, schema, input)?,
                    ))
                })
                .transpose()?,
            order_by: self.rewrite_orderings(&order_by, schema, input)?,
            null_treatment,
        };
        let call = without_coercion_casts(Expr::AggregateFunction(AggregateFunction { func, params }), own)?;
        match call {
            Expr::AggregateFunction(call) => Ok(Call::Relational(Box::new(call))),
            other => plan_err!("{other} is no aggregate"),
        }
    }

    /// `wb.sum("price", where=lambda e: e.item == "a")`.
    pub fn agg(&mut self, step: usize, agg: &Agg) -> Result<Doc> {
        let function = match (&agg.function, &agg.argument) {
            (AggFunction::User(_), _) => {
                return plan_err!(
                    "the program has no word for the aggregate {}, which is a user's own",
                    agg.function.name()
                );
            }
            (AggFunction::Count, Some(_)) => "count_non_null",
            (AggFunction::Variance { .. }, _) => "var",
            (AggFunction::StandardDeviation { .. }, _) => "std",
            (AggFunction::Percentile { .. }, _) => "percentile",
            (AggFunction::SumOfSquares, _) => "sum_squares",
            (AggFunction::AverageOfSquares, _) => "avg_squares",
            (function, _) => function.name(),
        };
        let mut arguments = Vec::new();
        match (&agg.argument, key_and_value(agg)) {
            (_, Some((key, value))) => {
                arguments.extend([self.argument(step, value)?, self.argument(step, key)?]);
            }
            (Some(argument), None) => arguments.push(self.argument(step, argument)?),
            (None, None) => {}
        }
        arguments.extend(parameters(&agg.function).into_iter().map(Doc::text));
        if let Some(filter) = &agg.filter {
            arguments.push(Doc::keyword("where", self.lambda(step, filter)?));
        }
        Ok(Doc::call(format!("wb.{function}"), arguments))
    }

    /// `wb.agg.string_agg("name", wb.lit(","), order_by="name")`.
    pub fn relational(&mut self, step: usize, call: &AggregateFunction) -> Result<Doc> {
        let AggregateFunctionParams { args, distinct, filter, order_by, null_treatment } = &call.params;
        let mut arguments = args.iter().map(|a| self.argument(step, a)).collect::<Result<Vec<_>>>()?;
        if *distinct {
            arguments.push(Doc::text("distinct=True"));
        }
        if let Some(filter) = filter {
            arguments.push(Doc::keyword("where", self.lambda(step, filter)?));
        }
        arguments.extend(self.ordering(step, order_by)?);
        if *null_treatment == Some(NullTreatment::IgnoreNulls) {
            arguments.push(Doc::text("ignore_nulls=True"));
        }
        Ok(Doc::call(format!("wb.agg.{}", call.func.name()), arguments))
    }

    /// An argument: a column name, a literal, or a lambda.
    pub fn argument(&mut self, step: usize, expr: &Expr) -> Result<Doc> {
        match (column_name(expr), expr) {
            (Some(name), _) => Ok(Doc::Text(python_string(name))),
            (None, Expr::Literal(value, _)) => argument_text(value),
            (None, expr) => self.lambda(step, expr),
        }
    }

    /// Orderings over the columns of a step.
    pub fn rewrite_orderings(
        &self,
        orders: &[SortExpr],
        schema: &DFSchema,
        scope: &Scope,
    ) -> Result<Vec<SortExpr>> {
        orders
            .iter()
            .map(|order| Ok(order.with_expr(self.rewrite_expr(&order.expr, schema, scope)?)))
            .collect()
    }

    /// `order_by="price", descending=True`.
    pub fn ordering(&mut self, step: usize, orders: &[SortExpr]) -> Result<Vec<Doc>> {
        if orders.is_empty() {
            return Ok(vec![]);
        }
        let mut by = orders.iter().map(|o| self.argument(step, &o.expr)).collect::<Result<Vec<_>>>()?;
        let by = if by.len() == 1 { by.swap_remove(0) } else { Doc::list(by) };
        let mut arguments = vec![Doc::keyword("order_by", by)];
        arguments.extend(super::orderings::directions(orders));
        Ok(arguments)
    }
}

/// The pairs without duplicates, in order.
fn deduplicated(key: &[(String, Expr)]) -> Vec<(String, Expr)> {
    let mut once: Vec<(String, Expr)> = Vec::new();
    for pair in key {
        if !once.contains(pair) {
            once.push(pair.clone());
        }
    }
    once
}

/// What else the call of a function says.
fn parameters(function: &AggFunction) -> Vec<String> {
    let mut parameters = Vec::new();
    match function {
        AggFunction::Variance { population: true } | AggFunction::StandardDeviation { population: true } => {
            parameters.push("population=True".to_string());
        }
        AggFunction::Percentile { fraction, continuous } => {
            parameters.push(format!("{:?}", fraction.value()));
            parameters.extend((!continuous).then(|| "continuous=False".to_string()));
        }
        AggFunction::TopK { k, ties, descending } => {
            parameters.push(k.to_string());
            parameters.extend((!ties).then(|| "ties=False".to_string()));
            parameters.extend((!descending).then(|| "descending=False".to_string()));
        }
        _ => {}
    }
    parameters
}

/// The key and the value of the row that an aggregate takes.
fn key_and_value(agg: &Agg) -> Option<(&Expr, &Expr)> {
    let (AggFunction::MaxBy | AggFunction::MinBy, Some(Expr::ScalarFunction(row))) =
        (&agg.function, &agg.argument)
    else {
        return None;
    };
    match row.args.as_slice() {
        [_, key, _, value] => Some((key, value)),
        _ => None,
    }
}

/// The argument without a cast to the type in which the function computes anyway.
fn without_cast(argument: Expr, function: &AggFunction) -> Expr {
    let Expr::Cast(cast) = &argument else { return argument };
    let to = cast.field.data_type();
    let own = matches!(
        (function, to),
        (AggFunction::Sum, DataType::Int64 | DataType::UInt64 | DataType::Float64)
            | (AggFunction::Average, DataType::Float64)
    );
    if own && column_name(&cast.expr).is_some() { cast.expr.as_ref().clone() } else { argument }
}

/// The columns that an aggregate node requires of its input.
fn required_input(aggregate: &Aggregate) -> Result<Required> {
    if !has_qualifiers(aggregate.input.schema()) {
        return Ok(Required::default());
    }
    let mut used = std::collections::BTreeSet::new();
    for expr in aggregate.group_expr.iter().chain(&aggregate.aggr_expr) {
        used.extend(positions(expr, aggregate.input.schema())?);
    }
    Ok(Required { used: Some(used), ..Required::default() })
}

/// The name of an aggregate; a default one if SQL made the name from the text of the call.
fn readable_name(name: &str, call: &Call) -> String {
    if super::variable_names::is_name(name) { name.to_string() } else { default_name(call) }
}

/// The default name of an aggregate: `sum_price`, `n`.
fn default_name(call: &Call) -> String {
    let of = |function: &str, argument: Option<&Expr>| match argument {
        None => "n".to_string(),
        Some(argument) => match column_name(argument) {
            Some(name) => name_of(&format!("{function}_{name}")),
            None => name_of(function),
        },
    };
    match call {
        Call::Agg(agg) => of(agg.function.name(), agg.argument.as_ref()),
        Call::Relational(call) => of(call.func.name(), call.params.args.first()),
    }
}
