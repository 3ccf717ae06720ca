//! The fluent builder. A [`Stream`] is an immutable plan with its properties; every method checks its
//! arguments and gives a new one.
//!
//! Invariants: the columns of a stream have unqualified, unique names, and their types are those that will be
//! computed; the columns of the current key are always among them. One family of methods, one file.

mod aggregates;
mod calls;
mod detect;
mod gaps;
mod ingress;
mod joins;
mod movement;
mod pairs;
mod process;
mod recursive;
mod relational;
mod requirements;
mod sequences;
mod shards;
mod values;
mod windows;

pub use calls::{Call, GROUPING_ID, Groups};
pub use gaps::column_fills;
pub use joins::{JoinHow, JoinKind};
pub use recursive::is_work_table;

use crate::depth::check_steps;
use crate::explain::explain;
use crate::properties::{Properties, properties};
use crate::source::{Source, scan};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{DFSchema, Result, plan_err};
use datafusion::logical_expr::LogicalPlan;
use std::collections::HashSet;
use std::sync::Arc;

/// A sharded stream or relation: a plan, built step by step. Cheap to clone.
///
/// ```
/// # use datafusion::arrow::datatypes::DataType;
/// # use datafusion::common::ScalarValue;
/// # use datafusion::logical_expr::lit;
/// # use whimbrel_plan::{Stream, column};
/// # fn main() -> datafusion::common::Result<()> {
/// # let integers = |name: &str| (name.to_string(), DataType::Int64);
/// # let row = |values: &[i64]| values.iter().map(|v| ScalarValue::from(*v)).collect::<Vec<_>>();
/// # let names = |s: &Stream| s.schema().fields().iter().map(|f| f.name().clone()).collect::<Vec<_>>();
/// let orders = Stream::values(&[integers("id"), integers("price")], vec![row(&[1, 20]), row(&[2, 30])])?;
/// let dear = orders.where_(column("price").gt(lit(25_i64)))?;
/// assert_eq!(names(&dear), ["id", "price"]);
/// // The first stream is unchanged: streams are values.
/// assert!(!orders.explain()?.contains("where"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Stream {
    plan: Arc<LogicalPlan>,
    properties: Arc<Properties>,
    /// The key columns of the `group_apply` calls that this stream is inside of, outermost first.
    groups: Arc<[String]>,
}

impl Stream {
    /// Takes over a plan that was made elsewhere. Its columns have to have unqualified, unique names.
    ///
    /// # Errors
    /// `Plan` if columns are qualified, two have one name, or the plan has a step that no stream has.
    pub fn from_plan(plan: LogicalPlan) -> Result<Stream> {
        let mut seen = HashSet::new();
        for (qualifier, field) in plan.schema().iter() {
            if let Some(qualifier) = qualifier {
                return plan_err!("column {:?} is qualified by {qualifier}; alias it", field.name());
            }
            if !seen.insert(field.name()) {
                return plan_err!(
                    "there would be two columns named {:?}; give one another name",
                    field.name()
                );
            }
        }
        let properties = Arc::new(properties(&plan)?);
        Ok(Stream { plan: Arc::new(plan), properties, groups: Arc::from([]) })
    }

    /// All rows and columns of a source. `name` is for people; every scan is a table of its own.
    ///
    /// # Errors
    /// `Plan` if two columns of the source have one name.
    pub fn scan(name: &str, source: Arc<dyn Source>) -> Result<Stream> {
        Stream::from_plan(scan(name, source)?)
    }

    /// The plan.
    pub fn plan(&self) -> &LogicalPlan {
        &self.plan
    }

    /// The columns.
    pub fn schema(&self) -> &SchemaRef {
        self.plan.schema().inner()
    }

    /// What is known of the stream before it runs.
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// The plan as indented text, a step a line, with the properties on the right.
    ///
    /// # Errors
    /// `Plan` if a step of the plan cannot be put in words.
    pub fn explain(&self) -> Result<String> {
        explain(&self.plan)
    }

    /// The next stream: another plan, in the same groups.
    fn then(&self, plan: LogicalPlan) -> Result<Stream> {
        check_steps(&plan)?;
        let next = Stream::from_plan(plan)?;
        Ok(Stream { groups: Arc::clone(&self.groups), ..next })
    }

    fn df_schema(&self) -> &DFSchema {
        self.plan.schema()
    }

    fn key(&self) -> &[String] {
        &self.properties.key
    }

    /// A copy of the plan to build on.
    fn input(&self) -> LogicalPlan {
        self.plan.as_ref().clone()
    }

    /// The type of the stream's time, or why `verb` needs it.
    fn time(&self, verb: &str) -> Result<&DataType> {
        match &self.properties.time {
            Some(time) => Ok(time),
            None => plan_err!(
                "{verb} needs a stream with time, this is a relation without: name its time column when you \
                read it, time=\"…\""
            ),
        }
    }
}
