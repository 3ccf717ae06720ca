//! The snapshot aggregate (trill.txt §5.2.1): at every instant, aggregates over the rows alive, for each key with any.
//!
//! A row of the result lives from one instant at which a row of its key starts or ends to the next; it is not merged
//! with the next one if the values are equal. Where nothing is alive there is no row; where rows are alive but none
//! counts (all filtered out, all null) there is one, with a count of 0 and nulls.
//!
//! How rows leave decides the variant (trill.txt §5.3): [`tumbling`] if all rows alive together started together,
//! [`windowed`] if every row lives equally long, or [`flat`] if besides all aggregates are vectors of words,
//! [`general`] otherwise.

mod accumulator;
mod calls;
mod carried;
mod combine;
mod emit;
mod ends;
mod extremes;
mod flat;
mod formulas;
mod function;
mod general;
mod held;
mod live;
mod sums;
mod tell;
mod tumbling;
mod vectors;
mod windowed;

pub use accumulator::{Accumulator, Rows, same};
pub use calls::AggregateCall;
pub use combine::Combine;
pub use formulas::{AddBlock, Block, Formulas, Operand, Picked};
pub use function::{AggregateFunction, UserAggregate};

use crate::batch::Message;
use crate::operator::Operator;
use crate::rules::Lifetimes;
use arrow::datatypes::SchemaRef;
use calls::Plan;
use datafusion::common::Result;
use flat::{Flat, MOST_WORDS};
use function::Leaving;
use general::General;
use tell::Tell;
use tumbling::Tumbling;
use vectors::Vectors;
use windowed::Windowed;

/// Aggregates per key and instant.
pub struct Aggregate {
    variant: Box<dyn Operator>,
    schema: SchemaRef,
}

impl Aggregate {
    /// Aggregates `calls` over the rows of a stream with this schema and these lifetimes, for every value of the `key`
    /// columns. A snapshot is told when it begins: as an edge, where its end is not known by then.
    ///
    /// # Errors
    /// `Plan` if an aggregate does not take its argument's type.
    pub fn new(
        input: SchemaRef,
        key: Vec<usize>,
        calls: Vec<AggregateCall>,
        lifetimes: Lifetimes,
    ) -> Result<Aggregate> {
        Aggregate::telling(Tell::edges, Plan::new(input, key, calls)?, lifetimes)
    }

    /// The same, but a snapshot is told when it is over: as an interval, in the order of the starts. That is for those
    /// who read the result of a query that ends; at the end of the stream what is not over leaves as it is.
    ///
    /// # Errors
    /// As [`new`](Aggregate::new).
    pub fn whole(
        input: SchemaRef,
        key: Vec<usize>,
        calls: Vec<AggregateCall>,
        lifetimes: Lifetimes,
    ) -> Result<Aggregate> {
        Aggregate::telling(Tell::intervals, Plan::new(input, key, calls)?, lifetimes)
    }

    /// Aggregates rows without a key that live in tumbling windows of `size` ticks, and are picked and computed by
    /// formulas. The calls' arguments compute what formulas do not.
    ///
    /// # Errors
    /// As [`new`](Aggregate::new); `Internal` if an aggregate does not take in blocks of whole numbers, see
    /// [`AggregateFunction::takes_blocks`].
    pub fn of_formulas(
        input: SchemaRef,
        calls: Vec<AggregateCall>,
        formulas: Formulas,
        size: i64,
    ) -> Result<Aggregate> {
        let plan = Plan::new(input, Vec::new(), calls)?;
        let schema = plan.schema.clone();
        Ok(Aggregate { variant: Box::new(Tumbling::of_formulas(plan, size, formulas)?), schema })
    }

    fn telling(tell: fn(&Plan) -> Tell, plan: Plan, lifetimes: Lifetimes) -> Result<Aggregate> {
        let (schema, tell) = (plan.schema.clone(), tell(&plan));
        let variant: Box<dyn Operator> = match lifetimes {
            Lifetimes::Points => Box::new(Tumbling::new(plan, 1)?),
            Lifetimes::Hop { size, hop, .. } if size == hop => Box::new(Tumbling::new(plan, size)?),
            Lifetimes::Hop { size, .. } | Lifetimes::Constant(size) => windowed(plan, size, tell)?,
            Lifetimes::StartEdges => Box::new(General::new(plan, Leaving::Never, tell)?),
            Lifetimes::Intervals | Lifetimes::Any => Box::new(General::new(plan, Leaving::AnyOrder, tell)?),
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
fn windowed(plan: Plan, size: i64, tell: Tell) -> Result<Box<dyn Operator>> {
    let keyed = !plan.key.is_empty() && !plan.calls.is_empty();
    let vectors = Vectors::of(&plan).filter(|vectors| keyed && vectors.words <= MOST_WORDS);
    let Some(vectors) = vectors else { return Ok(Box::new(Windowed::new(plan, size, tell)?)) };
    Ok(match vectors.words {
        0 | 1 => Box::new(Flat::<1>::new(plan, vectors, size, tell)),
        2 => Box::new(Flat::<2>::new(plan, vectors, size, tell)),
        3 | 4 => Box::new(Flat::<4>::new(plan, vectors, size, tell)),
        _ => Box::new(Flat::<MOST_WORDS>::new(plan, vectors, size, tell)),
    })
}

impl Operator for Aggregate {
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
