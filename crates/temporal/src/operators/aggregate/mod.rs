//! The snapshot aggregate (trill.txt §5.2.1): at every instant, aggregates over the rows alive, for each key
//! with any.
//!
//! A row of the result lives from one instant at which a row of its key starts or ends to the next; it is not
//! merged with the next one if the values are equal. Where nothing is alive there is no row; where rows are
//! alive but none counts (all filtered out, all null) there is one, with a count of 0 and nulls.
//!
//! How rows leave decides the variant (trill.txt §5.3): [`tumbling`] if all rows alive together started
//! together, [`windowed`] if every row lives equally long, or [`flat`] if besides all aggregates are vectors
//! of words, [`general`] otherwise.

mod accumulator;
mod bag;
mod calls;
mod carried;
mod combine;
mod emitter;
mod ends;
mod exact_sum;
mod extremes;
mod flat;
mod float_sum;
mod fraction;
mod function;
mod general;
mod instant_table;
mod leaving;
mod lists;
mod live;
mod moments;
mod multiset;
mod output_batch;
mod percentile;
mod product;
mod scaled;
mod sessions;
mod sort_keys;
mod squares;
mod state_column;
mod sums;
mod total;
mod tumbling;
mod vectors;
mod windowed;

pub use accumulator::{Accumulator, Rows, same};
pub use calls::AggregateCall;
pub use combine::Combine;
pub use emitter::Emission;
pub use fraction::Fraction;
pub use function::{AggregateFunction, UserAggregate};
pub use sessions::SessionAggregate;

use crate::batch::Message;
use crate::held::Held;
use crate::operator::Operator;
use crate::rules::Lifetimes;
use arrow::datatypes::SchemaRef;
use calls::Plan;
use datafusion::common::Result;
use emitter::Emitter;
use flat::{Flat, MOST_WORDS};
use general::General;
use leaving::Leaving;
use tumbling::Tumbling;
use vectors::Vectors;
use windowed::Windowed;

/// Aggregates per key and instant.
pub struct Aggregate {
    variant: Box<dyn Operator>,
    schema: SchemaRef,
}

impl Aggregate {
    /// Aggregates `calls` over the rows of a stream with this schema and these lifetimes, for every value of
    /// the `key` columns. A snapshot is emitted [when it begins](Emission::OnStart).
    ///
    /// # Errors
    /// `Plan` if an aggregate does not take its argument's type.
    pub fn new(
        input: SchemaRef,
        key: Vec<usize>,
        calls: Vec<AggregateCall>,
        lifetimes: Lifetimes,
    ) -> Result<Aggregate> {
        Aggregate::emitting(Emission::OnStart, input, key, calls, lifetimes)
    }

    /// The same with snapshots emitted at another time. [`Emission::OnClose`] is for those who read the
    /// result of a query that ends.
    ///
    /// # Errors
    /// As [`new`](Aggregate::new).
    pub fn emitting(
        emission: Emission,
        input: SchemaRef,
        key: Vec<usize>,
        calls: Vec<AggregateCall>,
        lifetimes: Lifetimes,
    ) -> Result<Aggregate> {
        let plan = Plan::new(input, key, calls)?;
        let (schema, emitter) = (plan.schema.clone(), Emitter::new(emission, &plan));
        let variant: Box<dyn Operator> = match lifetimes {
            Lifetimes::Points => Box::new(Tumbling::new(plan, Some(1))?),
            Lifetimes::Hop { size, hop, .. } if size == hop => Box::new(Tumbling::new(plan, Some(size))?),
            Lifetimes::Tiled => Box::new(Tumbling::new(plan, None)?),
            Lifetimes::Hop { size, .. } | Lifetimes::Constant(size) => windowed(plan, size, emitter)?,
            Lifetimes::StartEdges => Box::new(General::new(plan, Leaving::Never, emitter)?),
            Lifetimes::Intervals | Lifetimes::Any => {
                Box::new(General::new(plan, Leaving::AnyOrder, emitter)?)
            }
        };
        Ok(Aggregate { variant, schema })
    }

    /// The rows of each snapshot, once each: a stream with these lifetimes grouped by all its columns.
    ///
    /// # Errors
    /// `Plan` if a column's type has no equality.
    pub fn distinct(input: SchemaRef, lifetimes: Lifetimes) -> Result<Aggregate> {
        let key = (0..input.fields().len()).collect();
        Aggregate::new(input, key, Vec::new(), lifetimes)
    }

    /// The columns of the result: the key's, then one for each call.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}

/// The variant for rows that live `size` ticks each that fits what is asked of them.
fn windowed(plan: Plan, size: i64, emitter: Emitter) -> Result<Box<dyn Operator>> {
    let keyed = !plan.key.is_empty() && !plan.calls.is_empty();
    let vectors = Vectors::of(&plan).filter(|vectors| keyed && vectors.words <= MOST_WORDS);
    let Some(vectors) = vectors else { return Ok(Box::new(Windowed::new(plan, size, emitter)?)) };
    Ok(match vectors.words {
        0 | 1 => Box::new(Flat::<1>::new(plan, vectors, size, emitter)),
        2 => Box::new(Flat::<2>::new(plan, vectors, size, emitter)),
        3 | 4 => Box::new(Flat::<4>::new(plan, vectors, size, emitter)),
        _ => Box::new(Flat::<MOST_WORDS>::new(plan, vectors, size, emitter)),
    })
}

impl Operator for Aggregate {
    fn held(&self) -> Held {
        self.variant.held()
    }

    fn push(&mut self, input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        self.variant.push(input, message, out)
    }
    fn save(&self) -> Result<Vec<u8>> {
        self.variant.save()
    }
    fn restore(&mut self, state: &[u8]) -> Result<()> {
        self.variant.restore(state)
    }
}
