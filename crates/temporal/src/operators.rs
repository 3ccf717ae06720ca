//! The operators, one file each.

mod aggregate;
mod alter_lifetime;
mod clip;
mod coalesce;
mod exists;
mod join;
mod point_at_end;
pub(crate) mod rows_out;
pub(crate) mod runs;
mod select;
mod session;
mod union;
mod unnest;
mod where_;

pub use aggregate::{
    Accumulator, Aggregate, AggregateCall, AggregateFunction, Combine, Rows, UserAggregate, same,
};
pub use alter_lifetime::AlterLifetime;
pub use clip::{Clip, ClipConstant};
pub use coalesce::{Coalesce, CoalesceOrder};
pub use exists::Exists;
pub use join::Join;
pub use point_at_end::PointAtEnd;
pub use select::{Select, WithStart};
pub use session::Session;
pub use union::Union;
pub use unnest::Unnest;
pub use where_::Where;
