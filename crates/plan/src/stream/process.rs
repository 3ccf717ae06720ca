//! Operators of a user's own.

use super::Stream;
use crate::nodes::{OperatorObject, Process, extension};
use crate::properties;
use datafusion::common::{Result, plan_err};
use std::sync::Arc;
use whimbrel_temporal::operators::UserOperator;

impl Stream {
    /// Runs an operator of a user's own over the rows, batch by batch. The columns of the current key stay,
    /// in front of those that the operator makes; a row has the lifetime of the row that it is made of.
    ///
    /// # Errors
    /// `Plan` if this is a relation, its rows do not carry their ends, or the operator makes a column of the
    /// key's name, or two of one name.
    pub fn process(&self, operator: Arc<dyn UserOperator>) -> Result<Stream> {
        self.time("process")?;
        if !properties(self.plan())?.lifetimes.edge_free() {
            return plan_err!(
                "process: when rows of this stream end may be known only later, so what is made of them has no end; \
                 process the stream before what makes it so, or cut lifetimes before, as .clip(\"1h\") does"
            );
        }
        let made = operator.schema();
        for (place, field) in made.fields().iter().enumerate() {
            if self.key().contains(field.name()) {
                return plan_err!(
                    "process: {:?} is a column of the key, which stays; give what the operator makes another name",
                    field.name()
                );
            }
            if made.fields()[..place].iter().any(|other| other.name() == field.name()) {
                return plan_err!("process: the operator makes two columns {:?}", field.name());
            }
        }
        let process = Process::try_new(self.input(), self.key_exprs(), OperatorObject(operator))?;
        self.then(extension(process))
    }
}
