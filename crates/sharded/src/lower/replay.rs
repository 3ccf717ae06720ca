//! DataFusion's aggregates over rows that come and go, by replay.
//!
//! An accumulator of DataFusion takes rows in and cannot take them out. So a state is the rows of a group
//! themselves, and a result is that of a fresh accumulator over them. That is right for every aggregate, at a
//! cost that grows with the group. Aggregates that our operators can subtract
//! ([`aggregate_of`](whimbrel_plan::aggregate_of)) are not replayed.
//!
//! Invariants: rows are encoded so that they sort by the order of the aggregate first. So the order of a
//! state is that in which the accumulator wants the rows, and does not depend on their arrival. Counts of
//! rows are not zero.

use super::sums;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::row::{RowConverter, Rows as Encoded, SortField};
use datafusion::common::{DFSchema, DataFusionError, Result, ScalarValue, exec_err, plan_err};
use datafusion::execution::context::ExecutionProps;
use datafusion::functions::core::expr_fn::named_struct;
use datafusion::logical_expr::expr::{AggregateFunction as Call, Sort};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, ExprSchemable, ident, lit};
use datafusion::physical_expr::aggregate::{
    AggregateFunctionExpr, LoweredAggregate, LoweredAggregateBuilder,
};
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use whimbrel_temporal::checkpoint::{decode, encode};
use whimbrel_temporal::operators::{
    Accumulator, AggregateCall, AggregateFunction, Rows, UserAggregate, same,
};
use whimbrel_temporal::{Column, Time};

/// The call of an aggregate that is replayed.
///
/// # Errors
/// `Plan` if the expression is no aggregate.
pub(super) fn call(expr: &Expr, schema: &DFSchema) -> Result<AggregateCall> {
    let name = expr.schema_name().to_string();
    let Expr::AggregateFunction(Call { func, mut params }) = expr.clone().unalias_nested().data else {
        return plan_err!("{name} is no aggregate");
    };
    let filter = params.filter.take().map(|f| whimbrel_plan::physical(&f, schema)).transpose()?;
    let mut row = PackedRow { schema, values: Vec::new(), fields: Vec::new(), options: Vec::new() };
    for Sort { expr, asc, nulls_first } in &mut params.order_by {
        *expr = row.column(expr, SortOptions { descending: !*asc, nulls_first: *nulls_first })?;
    }
    for argument in &mut params.args {
        *argument = row.column(argument, SortOptions::default())?;
    }
    if row.fields.is_empty() {
        row.column(&lit(true).is_true(), SortOptions::default())?;
    }
    let (values, columns, options) = (row.packed(), Arc::new(Schema::new(row.fields)), row.options);
    let own = DFSchema::try_from(columns.clone())?;
    let aggregate = sums::check_sums_of(Expr::AggregateFunction(Call { func, params }))?.data;
    let function = lower(&aggregate, &name, &own)?;
    let replay = Replay { name: name.clone(), function: function.aggregate, columns, options };
    Ok(AggregateCall {
        function: AggregateFunction::User(Arc::new(replay)),
        argument: Some(whimbrel_plan::physical(&values, schema)?),
        filter,
        name,
    })
}

/// The result of an aggregate over no rows.
///
/// # Errors
/// `Plan` if the expression is no aggregate.
pub(super) fn empty_result(expr: &Expr, schema: &DFSchema) -> Result<ScalarValue> {
    let call = expr.clone().unalias_nested().data;
    lower(&call, &expr.schema_name().to_string(), schema)?.aggregate.create_accumulator()?.evaluate()
}

/// The physical aggregate.
fn lower(expr: &Expr, name: &str, schema: &DFSchema) -> Result<LoweredAggregate> {
    let (properties, context) = (ExecutionProps::new(), PhysicalPlanningContext::default());
    LoweredAggregateBuilder::new(expr, schema, schema.as_arrow(), &properties, &context)
        .with_name(name)
        .build()
}

/// The columns that an aggregate reads, packed into one struct.
struct PackedRow<'a> {
    schema: &'a DFSchema,
    values: Vec<Expr>,
    fields: Vec<Field>,
    options: Vec<SortOptions>,
}

impl PackedRow<'_> {
    /// Adds the column of an expression. A literal stays one: some aggregates expect that.
    fn column(&mut self, expr: &Expr, options: SortOptions) -> Result<Expr> {
        if matches!(expr, Expr::Literal(..)) {
            return Ok(expr.clone());
        }
        let name = format!("c{}", self.fields.len());
        self.fields.push(Field::new(&name, expr.get_type(self.schema)?, true));
        self.options.push(options);
        self.values.push(expr.clone());
        Ok(ident(name))
    }

    /// The struct of all columns.
    fn packed(&self) -> Expr {
        let parts =
            self.fields.iter().zip(&self.values).flat_map(|(f, v)| [lit(f.name().as_str()), v.clone()]);
        named_struct(parts.collect())
    }
}

/// An aggregate over the columns of packed rows.
#[derive(Clone)]
struct Replay {
    name: String,
    function: Arc<AggregateFunctionExpr>,
    columns: SchemaRef,
    options: Vec<SortOptions>,
}

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of rows", self.name)
    }
}

impl Replay {
    /// The encoder of rows.
    fn converter(&self) -> Result<RowConverter> {
        let field =
            |(f, o): (&Arc<Field>, &SortOptions)| SortField::new_with_options(f.data_type().clone(), *o);
        Ok(RowConverter::new(self.columns.fields().iter().zip(&self.options).map(field).collect())?)
    }

    /// The result over the rows of a state.
    fn result(&self, state: &State) -> Result<ScalarValue> {
        let mut accumulator = self.function.create_accumulator()?;
        if !state.is_empty() {
            let converter = self.converter()?;
            let parser = converter.parser();
            let rows = state.iter().flat_map(|(bytes, &n)| std::iter::repeat_n(bytes, n.max(0) as usize));
            let columns = converter.convert_rows(rows.map(|bytes| parser.parse(bytes)))?;
            let count = columns.first().map_or(0, |c| c.len());
            let options = RecordBatchOptions::new().with_row_count(Some(count));
            let rows = RecordBatch::try_new_with_options(self.columns.clone(), columns, &options)?;
            let order = self.function.order_bys().iter().map(|by| by.expr.clone());
            let read = self.function.expressions().into_iter().chain(order);
            let values: Vec<ArrayRef> =
                read.map(|e| e.evaluate(&rows)?.into_array(count)).collect::<Result<_>>()?;
            accumulator.update_batch(&values)?;
        }
        accumulator.evaluate()
    }
}

impl UserAggregate for Replay {
    fn name(&self) -> &str {
        &self.name
    }

    fn return_type(&self, _argument: Option<&DataType>) -> Result<DataType> {
        Ok(self.function.field().data_type().clone())
    }

    fn accumulator(&self, _argument: Option<&DataType>, _undone: bool) -> Box<dyn Accumulator> {
        let replay = self.clone();
        Box::new(States { replay, states: Vec::new(), loaded: None, filter: None, failure: Mutex::new(None) })
    }
}

/// The encoded rows of a group, with their counts.
type State = BTreeMap<Box<[u8]>, i64>;

/// The states of all groups.
#[derive(Debug)]
struct States {
    replay: Replay,
    states: Vec<State>,
    loaded: Option<Encoded>,
    filter: Option<BooleanArray>,
    failure: Mutex<Option<DataFusionError>>,
}

impl States {
    /// Adds `by` to the counts of loaded rows, each in its state.
    fn add(&mut self, states: &[u32], first: usize, by: i64) {
        let Some(rows) = &self.loaded else { return };
        for (row, state) in (first..).zip(states) {
            if self.filter.as_ref().is_none_or(|f| f.is_valid(row) && f.value(row)) {
                change(&mut self.states[*state as usize], rows.row(row).as_ref().into(), by);
            }
        }
    }

    /// Adds the counts of other states, or subtracts them.
    fn merge(&mut self, to: &[u32], other: &dyn Accumulator, from: &[u32], sign: i64) {
        let other: &States = same(other);
        for (to, from) in to.iter().zip(from) {
            for (row, count) in &other.states[*from as usize] {
                change(&mut self.states[*to as usize], row.clone(), sign * count);
            }
        }
    }
}

/// Changes the count of a row.
fn change(state: &mut State, row: Box<[u8]>, by: i64) {
    let count = state.entry(row.clone()).or_default();
    *count += by;
    if *count == 0 {
        state.remove(&row);
    }
}

impl Accumulator for States {
    fn grow(&mut self, states: usize) {
        if self.states.len() < states {
            self.states.resize_with(states, State::new);
        }
    }

    fn reset(&mut self, states: &[u32]) {
        states.iter().for_each(|s| self.states[*s as usize].clear());
    }

    fn load(&mut self, rows: &Rows) -> Result<()> {
        let Some(packed) = rows.argument.as_ref().and_then(|a| a.as_struct_opt()) else {
            return exec_err!("{} needs its arguments", self.replay.name);
        };
        self.loaded = Some(self.replay.converter()?.convert_columns(packed.columns())?);
        self.filter = rows.filter.clone();
        Ok(())
    }

    fn accumulate(&mut self, states: &[u32], first: usize) {
        self.add(states, first, 1);
    }

    fn deaccumulate(&mut self, states: &[u32], first: usize) {
        self.add(states, first, -1);
    }

    fn combine(&mut self, to: &[u32], other: &dyn Accumulator, from: &[u32], _end: Time) {
        self.merge(to, other, from, 1);
    }

    fn difference(&mut self, to: &[u32], other: &dyn Accumulator, from: &[u32], _end: Time) {
        self.merge(to, other, from, -1);
    }

    fn result(&self, states: &[u32], out: &mut Column) {
        for state in states {
            let result = self.replay.result(&self.states[*state as usize]).and_then(|value| value.to_array());
            if let Err(error) = result.and_then(|array| out.append(&array)) {
                *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                return;
            }
        }
    }

    fn failure(&mut self) -> Result<()> {
        match self.failure.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn save(&self) -> Result<Vec<u8>> {
        encode(&self.states)
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        self.states = decode(bytes)?;
        Ok(())
    }
}
