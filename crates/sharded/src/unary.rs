//! Physical operators over one input: what DataFusion has to know of them, written once.
//!
//! An operator says how its rows are computed, in a [`UnaryOperator`]; [`UnaryExec`] makes a node of a
//! physical plan of it. Filters pass through to the input, and so do its statistics: the operators here
//! change no row, they copy, count, or reorder batches. A filter of which a column has the name of another
//! one does not pass: DataFusion looks for its columns by name.

use datafusion::arrow::datatypes::Schema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::filter_pushdown::{
    ChildFilterDescription, FilterDescription, FilterPushdownPhase,
};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions,
};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

/// How a physical operator hands on the rows of its only input.
pub(crate) trait UnaryOperator: fmt::Debug + Clone + Send + Sync + 'static {
    /// The name in a printed plan.
    const NAME: &'static str;

    /// Whether rows come out in the order in which the input has them.
    const KEEPS_ORDER: bool = true;

    /// The rows of one partition.
    fn execute(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream>;

    /// Partitioning, ordering and boundedness of the output, by default those of the input.
    fn properties(input: &Arc<dyn ExecutionPlan>) -> Arc<PlanProperties> {
        Arc::clone(input.properties())
    }

    /// After how many rows the operator stops, if it takes a limit.
    fn fetch(&self) -> Option<usize> {
        None
    }

    /// The operator with this limit; none if it takes no limit.
    fn with_fetch(&self, _fetch: Option<usize>) -> Option<Self> {
        None
    }
}

/// A [`UnaryOperator`] over an input, as a node of a physical plan.
#[derive(Debug, Clone)]
pub(crate) struct UnaryExec<O> {
    operator: O,
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl<O: UnaryOperator> UnaryExec<O> {
    /// The operator over this input.
    pub fn new(operator: O, input: Arc<dyn ExecutionPlan>) -> UnaryExec<O> {
        let properties = O::properties(&input);
        UnaryExec { operator, input, properties }
    }

    /// The input.
    pub fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }
}

/// The places of the columns whose names no other column has; none if that is so of all.
pub(crate) fn names_of_their_own(schema: &Schema) -> Option<HashSet<usize>> {
    let mut places: HashMap<&str, Option<usize>> = HashMap::new();
    for (place, field) in schema.fields().iter().enumerate() {
        places.entry(field.name()).and_modify(|first| *first = None).or_insert(Some(place));
    }
    (places.len() < schema.fields().len()).then(|| places.into_values().flatten().collect())
}

impl<O: UnaryOperator> DisplayAs for UnaryExec<O> {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(O::NAME)
    }
}

impl<O: UnaryOperator> ExecutionPlan for UnaryExec<O> {
    fn name(&self) -> &'static str {
        O::NAME
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![O::KEEPS_ORDER]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(Arc::new(UnaryExec::new(self.operator.clone(), input))),
            _ => internal_err!("{} has one input", O::NAME),
        }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn child_stats_requests(&self, _partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(None)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        match (inputs, self.fetch()) {
            ([input], None) => Ok(Arc::clone(input)),
            ([input], fetch) => Ok(Arc::new(input.as_ref().clone().with_fetch(fetch, 0, 1)?)),
            _ => internal_err!("{} has one input", O::NAME),
        }
    }

    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterDescription> {
        let child = match names_of_their_own(&self.input.schema()) {
            Some(columns) => {
                ChildFilterDescription::from_child_with_allowed_indices(&parent_filters, columns, &self.input)
            }
            None => ChildFilterDescription::from_child(&parent_filters, &self.input),
        };
        Ok(FilterDescription::new().with_child(child?))
    }

    fn fetch(&self) -> Option<usize> {
        self.operator.fetch()
    }

    fn with_fetch(&self, fetch: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let operator = self.operator.with_fetch(fetch)?;
        Some(Arc::new(UnaryExec { operator, ..self.clone() }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.operator.execute(&self.input, partition, context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::datatypes::{DataType, Field};

    #[test]
    fn columns_with_names_of_their_own() {
        let schema = |names: &[&str]| {
            Schema::new(names.iter().map(|name| Field::new(*name, DataType::Int64, true)).collect::<Vec<_>>())
        };
        assert_eq!(names_of_their_own(&schema(&[])), None);
        assert_eq!(names_of_their_own(&schema(&["a", "b", "A"])), None);
        assert_eq!(names_of_their_own(&schema(&["a", "b", "a", "c", "a"])), Some(HashSet::from([1, 3])));
    }
}
