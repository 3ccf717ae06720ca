//! Equal subplans of a plan, found without comparing or hashing whole subplans again and again.
//!
//! Invariant: equal subplans have equal fingerprints. A fingerprint is made of what a node says itself and of its
//! inputs' fingerprints, so all of them together cost one walk; a plan's own `Hash` walks all that is below, at every
//! node.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{HashMap, Result};
use datafusion::logical_expr::LogicalPlan;
use std::hash::{DefaultHasher, Hash, Hasher};
use whimbrel_plan::source_of;

/// What is known of the subplans of a plan, equal ones once.
pub(super) struct Equal<'a> {
    /// By address: a plan is borrowed as long as this is there.
    fingerprints: HashMap<*const LogicalPlan, u64>,
    known: HashMap<u64, Vec<(&'a LogicalPlan, usize)>>,
}

impl<'a> Equal<'a> {
    /// Of this plan's subplans nothing is known yet.
    pub fn within(plan: &'a LogicalPlan) -> Result<Equal<'a>> {
        let mut equal = Equal { fingerprints: HashMap::new(), known: HashMap::new() };
        equal.fingerprint(plan)?;
        Ok(equal)
    }

    fn fingerprint(&mut self, plan: &'a LogicalPlan) -> Result<u64> {
        let mut hasher = DefaultHasher::new();
        for input in plan.inputs() {
            self.fingerprint(input)?.hash(&mut hasher);
        }
        std::mem::discriminant(plan).hash(&mut hasher);
        match plan {
            // A table may be read in one shard here and in many there.
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

    /// What is known of a subplan that is equal to this one.
    pub fn get(&self, plan: &LogicalPlan) -> Option<usize> {
        let alike = self.known.get(self.fingerprints.get(&(plan as *const LogicalPlan))?)?;
        alike.iter().find(|(known, _)| *known == plan).map(|(_, number)| *number)
    }

    /// What is known of this subplan from now on.
    pub fn insert(&mut self, plan: &'a LogicalPlan, number: usize) {
        if let Some(fingerprint) = self.fingerprints.get(&(plan as *const LogicalPlan)) {
            self.known.entry(*fingerprint).or_default().push((plan, number));
        }
    }
}
