//! A relation that is a plan: it is put into the query as that plan.
//!
//! DataFusion's planner asks a source for its plan and inlines it. So the plan of a query holds the scans of
//! its tables and nothing that only the session knows.

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::HashMap;
use datafusion::logical_expr::{Expr, LogicalPlan, TableSource};
use std::borrow::Cow;
use std::sync::Arc;

/// A relation that is a plan.
pub(crate) struct Inlined {
    /// The plan.
    plan: LogicalPlan,
    /// Its columns.
    schema: SchemaRef,
    /// The defaults of its columns.
    defaults: HashMap<String, Expr>,
}

impl Inlined {
    /// The plan as a source of rows.
    pub fn source(plan: LogicalPlan) -> Arc<dyn TableSource> {
        Inlined::with_defaults(plan, HashMap::new())
    }

    /// The plan as a source of rows, with the defaults of columns that an insert leaves out.
    pub fn with_defaults(plan: LogicalPlan, defaults: HashMap<String, Expr>) -> Arc<dyn TableSource> {
        let schema = plan.schema().inner().clone();
        Arc::new(Inlined { plan, schema, defaults })
    }
}

impl TableSource for Inlined {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn get_logical_plan(&self) -> Option<Cow<'_, LogicalPlan>> {
        Some(Cow::Borrowed(&self.plan))
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.defaults.get(column)
    }
}
