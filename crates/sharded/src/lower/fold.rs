//! Rows that are picked, computed and added up at once.
//!
//! Filters and projections that only an aggregate without a key reads, over tumbling windows, are done by the aggregate,
//! if all that is computed are [`Formula`]s of whole numbers: then a row is read once, and nothing is written but sums.
//!
//! Invariant: what lies between such a step and the aggregate gives rows other lifetimes and does not look at them, so
//! that it may do so before the step as well as after it.

use super::aggregate::{call, function};
use super::arithmetic;
use crate::stage::{Operand, Stage};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::{Aggregate, BinaryExpr, Expr, LogicalPlan, Operator};
use datafusion::physical_expr::PhysicalExpr;
use std::collections::HashMap;
use std::sync::Arc;
use whimbrel_plan::nodes::{self, Node};
use whimbrel_plan::{aggregate_of, physical, properties};
use whimbrel_temporal::formula::Formula;
use whimbrel_temporal::operators::{self, AggregateCall, Formulas, Picked};
use whimbrel_temporal::{DurationRule, Lifetimes, StartRule};

/// An aggregate that does the steps below it.
pub(super) struct Fold {
    input: SchemaRef,
    calls: Vec<AggregateCall>,
    formulas: Formulas,
    size: i64,
}

impl Fold {
    /// The operator, over the rows that the lowest of the steps reads.
    pub fn operator(self) -> Result<operators::Aggregate> {
        operators::Aggregate::of_formulas(self.input, self.calls, self.formulas, self.size)
    }
}

/// The aggregates of a stage that do the steps below them, and the nodes that need not be done any more.
pub(super) fn folds(stage: &Stage) -> Result<(HashMap<usize, Fold>, Vec<usize>)> {
    let (mut folds, mut done) = (HashMap::new(), Vec::new());
    if std::env::var("WB_NOFOLD").is_ok() {
        return Ok((folds, done));
    }
    for (number, node) in stage.nodes.iter().enumerate() {
        let LogicalPlan::Aggregate(plan) = &node.plan else { continue };
        let steps = steps(stage, node.inputs[0]);
        if let Some(fold) = fold(plan, &steps.iter().map(|n| &stage.nodes[*n].plan).collect::<Vec<_>>())? {
            folds.insert(number, fold);
            done.extend(steps.into_iter().filter(|n| !moves_lifetimes(&stage.nodes[*n].plan)));
        }
    }
    Ok((folds, done))
}

/// The steps below a reader that nobody else reads, the highest first.
fn steps(stage: &Stage, mut read: Operand) -> Vec<usize> {
    let mut steps = Vec::new();
    while let Operand::Node(number) = read {
        let inputs = stage.nodes.iter().flat_map(|n| &n.inputs);
        let readers = inputs.chain(stage.outputs.iter().map(|o| &o.operand)).filter(|r| **r == read);
        let node = &stage.nodes[number];
        let passes = matches!(
            node.plan,
            LogicalPlan::Filter(_) | LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_)
        );
        if readers.count() > 1 || !(passes || moves_lifetimes(&node.plan)) {
            break;
        }
        steps.push(number);
        read = node.inputs[0];
    }
    steps
}

/// Whether a step gives each row another lifetime, whatever the row is, and cannot fail.
fn moves_lifetimes(plan: &LogicalPlan) -> bool {
    let Some(Node::AlterLifetime(node)) = nodes::node(plan) else { return false };
    matches!(*node.start, StartRule::Keep | StartRule::Snap { .. } | StartRule::Shift(_))
        && matches!(*node.duration, DurationRule::Keep | DurationRule::Constant(_) | DurationRule::Infinite)
}

fn fold(plan: &Aggregate, steps: &[&LogicalPlan]) -> Result<Option<Fold>> {
    let known = properties(&plan.input)?;
    let Lifetimes::Hop { size, hop, .. } = known.lifetimes else { return Ok(None) };
    if size != hop || !plan.group_expr.is_empty() {
        return Ok(None);
    }
    let mut below = Below { exprs: plan.aggr_expr.clone(), predicates: vec![], schema: plan.input.schema() };
    for step in steps {
        below = below.step(step)?;
    }
    let mut arguments = Vec::new();
    let picked = match below.predicates.iter().cloned().reduce(Expr::and) {
        None => None,
        Some(all) => match formula(&all, below.schema, &mut arguments) {
            Some((formula, Kind::Truth)) => Some(Picked { predicates: below.physical()?, formula }),
            _ => return Ok(None),
        },
    };
    let (mut calls, mut formulas) = (Vec::new(), Vec::new());
    for (expr, wanted) in below.exprs.iter().zip(plan.schema.fields()) {
        let Some(formula) = below.argument(expr, &mut arguments) else { return Ok(None) };
        formulas.push(formula);
        let call = call(&arithmetic::expression(expr.clone(), below.schema)?, below.schema)?;
        calls.push(AggregateCall { name: wanted.name().clone(), ..call });
    }
    // A column by itself is added up as fast without.
    let computes = |formula: &Formula| formula.operations() > 0;
    if picked.is_none() && !formulas.iter().flatten().any(computes) {
        return Ok(None);
    }
    let input = below.schema.inner().clone();
    Ok(Some(Fold { input, calls, formulas: Formulas { arguments, picked, calls: formulas }, size }))
}

/// Aggregates over what lies below some steps.
struct Below<'a> {
    exprs: Vec<Expr>,
    /// What the steps ask of rows, the lowest first.
    predicates: Vec<Expr>,
    schema: &'a DFSchema,
}

impl<'a> Below<'a> {
    /// The same below one more step.
    fn step(self, step: &'a LogicalPlan) -> Result<Below<'a>> {
        let input = step.inputs()[0].schema();
        let replaced = |expr: Expr| expr.transform_up(|expr| replaced(expr, step)).data();
        let own = match step {
            LogicalPlan::Filter(filter) => Some(filter.predicate.clone()),
            _ => None,
        };
        let above = self.predicates.into_iter().map(replaced);
        let predicates = own.map(Ok).into_iter().chain(above).collect::<Result<_>>()?;
        let exprs = self.exprs.into_iter().map(replaced).collect::<Result<_>>()?;
        Ok(Below { exprs, predicates, schema: input })
    }

    /// What an aggregate adds up, and none if it counts rows; none at all if it is not for formulas.
    fn argument(&self, expr: &Expr, arguments: &mut Vec<operators::Operand>) -> Option<Option<Formula>> {
        let (_, call) = aggregate_of(expr).ok()?;
        if call.filter.is_some() || !function(&call.function).takes_blocks() {
            return None;
        }
        let Some(argument) = call.argument else { return Some(None) };
        match formula(&argument, self.schema, arguments)? {
            (formula, Kind::Number) => Some(Some(formula)),
            (_, Kind::Truth) => None,
        }
    }

    /// What is asked of rows as expressions.
    fn physical(&self) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
        let ours = |expr: &Expr| arithmetic::expression(expr.clone(), self.schema);
        self.predicates.iter().map(|expr| physical(&ours(expr)?, self.schema)).collect()
    }
}

/// A column of a step as what it is made of.
fn replaced(expr: Expr, step: &LogicalPlan) -> Result<Transformed<Expr>> {
    let Expr::Column(column) = &expr else { return Ok(Transformed::no(expr)) };
    let place = step.schema().index_of_column(column)?;
    Ok(Transformed::yes(match step {
        LogicalPlan::Projection(step) => step.expr[place].clone().unalias_nested().data,
        step => Expr::from(step.inputs()[0].schema().qualified_field(place)),
    }))
}

/// What a formula comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Number,
    Truth,
}

/// An expression as a formula; its columns and numbers become arguments.
fn formula(
    expr: &Expr,
    schema: &DFSchema,
    arguments: &mut Vec<operators::Operand>,
) -> Option<(Formula, Kind)> {
    use operators::Operand::{Column, Value};
    let argument = match expr {
        Expr::Alias(alias) => return formula(&alias.expr, schema, arguments),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (left, of_left) = formula(left, schema, arguments)?;
            let (right, of_right) = formula(right, schema, arguments)?;
            let (wanted, kind) = operation(*op)?;
            return ((of_left, of_right) == (wanted, wanted)).then(|| (Formula::of(*op, left, right), kind));
        }
        Expr::Column(column) => {
            let place = schema.maybe_index_of_column(column)?;
            (schema.field(place).data_type() == &DataType::Int64).then_some(Column(place))?
        }
        Expr::Literal(ScalarValue::Int64(Some(value)), _) => Value(*value),
        _ => return None,
    };
    let known = arguments.iter().position(|known| *known == argument);
    let number = known.unwrap_or_else(|| {
        arguments.push(argument);
        arguments.len() - 1
    });
    Some((Formula::Argument(number), Kind::Number))
}

/// What an operation takes, and what it comes to.
fn operation(op: Operator) -> Option<(Kind, Kind)> {
    use Operator::*;
    match op {
        Plus | Minus | Multiply => Some((Kind::Number, Kind::Number)),
        Lt | LtEq | Gt | GtEq | Eq | NotEq => Some((Kind::Number, Kind::Truth)),
        And | Or => Some((Kind::Truth, Kind::Truth)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::MemoryDataset;
    use crate::stage::cut;
    use datafusion::arrow::datatypes::{Field, Schema};
    use datafusion::prelude::lit;
    use whimbrel_plan::nodes::TimeSpec;
    use whimbrel_plan::{Agg, AggFunction, Stream, column};
    use whimbrel_temporal::{Closed, IngressOptions};

    fn source() -> Stream {
        let fields = [("time", DataType::Int64), ("a", DataType::Int64), ("x", DataType::Float64)];
        let fields = fields.map(|(name, of)| Field::new(name, of, true));
        let dataset = MemoryDataset::new(Arc::new(Schema::new(fields.to_vec())), vec![vec![]]).unwrap();
        let source = Stream::scan("source", Arc::new(dataset)).unwrap();
        source.ingress(TimeSpec::point("time"), IngressOptions::default()).unwrap()
    }

    /// How many steps the aggregates of a query do beside their own.
    fn done(query: &Stream, function: AggFunction) -> Vec<usize> {
        let windows = query.tumbling(10, 0, Closed::Left).unwrap();
        let sum = windows.aggregate(vec![("s".into(), Agg::of(function, column("a")))]).unwrap();
        let stages = cut(sum.plan()).unwrap();
        let folds = stages.stages.iter().map(|stage| folds(stage).unwrap());
        folds.filter(|(folds, _)| !folds.is_empty()).map(|(_, done)| done.len()).collect()
    }

    #[test]
    fn steps_of_whole_numbers_are_done_by_sums() {
        let few = source().where_(column("a").lt(lit(5_i64))).unwrap();
        let doubled = few.select(vec![(column("a") + column("a")).alias("a")]).unwrap();
        assert_eq!(done(&doubled, AggFunction::Sum), [2]);
        assert_eq!(done(&few, AggFunction::Average), [1]);
        assert_eq!(done(&few, AggFunction::Max), [0; 0], "it is not a sum");
        assert_eq!(done(&source(), AggFunction::Sum), [0; 0], "there is nothing to be done");
        let unknown = source().where_(column("x").lt(lit(0.5))).unwrap();
        assert_eq!(done(&unknown, AggFunction::Sum), [0; 0], "it is no whole number");
    }

    #[test]
    fn what_others_read_too_is_done_by_itself() {
        let few = source().where_(column("a").lt(lit(5_i64))).unwrap();
        let twice = few.union(&few.shift(3).unwrap()).unwrap();
        assert_eq!(done(&twice, AggFunction::Sum), [0; 0]);
    }
}
