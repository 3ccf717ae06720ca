//! A table of the subplans of a plan, in which equal subplans are found without comparing all of them.
//!
//! Invariant: equal subplans have equal fingerprints. A fingerprint is made of a node itself and of the
//! fingerprints of its inputs, so all fingerprints take one walk over the plan. The `Hash` of a plan would
//! walk the whole subplan at each node.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{HashMap, Result};
use datafusion::logical_expr::LogicalPlan;
use std::hash::{DefaultHasher, Hash, Hasher};
use whimbrel_plan::source_of;

/// Numbers of the subplans of a plan; equal subplans share an entry.
pub(super) struct SubplanTable<'a> {
    /// By address, which is stable while the plan is borrowed.
    fingerprints: HashMap<*const LogicalPlan, u64>,
    numbers: HashMap<u64, Vec<(&'a LogicalPlan, usize)>>,
}

impl<'a> SubplanTable<'a> {
    /// An empty table for the subplans of a plan.
    ///
    /// # Errors
    /// If the plan cannot be walked.
    pub fn within(plan: &'a LogicalPlan) -> Result<SubplanTable<'a>> {
        let mut table = SubplanTable { fingerprints: HashMap::new(), numbers: HashMap::new() };
        table.fingerprint(plan)?;
        Ok(table)
    }

    /// Computes the fingerprints of a subplan.
    fn fingerprint(&mut self, plan: &'a LogicalPlan) -> Result<u64> {
        let mut hasher = DefaultHasher::new();
        for input in plan.inputs() {
            self.fingerprint(input)?.hash(&mut hasher);
        }
        std::mem::discriminant(plan).hash(&mut hasher);
        match plan {
            // A table may be read in different numbers of shards.
            LogicalPlan::TableScan(scan) => {
                let shards = source_of(scan).map(|source| source.info().shards);
                (&scan.table_name, &scan.projection, shards).hash(&mut hasher);
            }
            LogicalPlan::Extension(extension) => extension.node.name().hash(&mut hasher),
            _ => {}
        }
        plan.apply_expressions(|expr| {
            expr.hash(&mut hasher);
            Ok(TreeNodeRecursion::Continue)
        })?;
        let fingerprint = hasher.finish();
        self.fingerprints.insert(plan, fingerprint);
        Ok(fingerprint)
    }

    /// The number of a subplan that is equal to this one.
    pub fn get(&self, plan: &LogicalPlan) -> Option<usize> {
        let candidates = self.numbers.get(self.fingerprints.get(&(plan as *const LogicalPlan))?)?;
        candidates.iter().find(|(subplan, _)| *subplan == plan).map(|(_, number)| *number)
    }

    /// Sets the number of a subplan.
    pub fn insert(&mut self, plan: &'a LogicalPlan, number: usize) {
        if let Some(fingerprint) = self.fingerprints.get(&(plan as *const LogicalPlan)) {
            self.numbers.entry(*fingerprint).or_default().push((plan, number));
        }
    }
}
