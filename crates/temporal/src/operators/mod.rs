//! The operators, one file each.

mod aggregate;
mod allowed_lateness;
mod alter_lifetime;
mod changes;
mod chop;
mod clip;
mod coalesce;
mod exists;
mod extend_lifetime;
mod fill_gaps;
mod held_ends;
mod hopping;
mod join;
mod keyed_inputs;
mod last_snapshot;
mod lookup;
mod merge_join;
mod open_edges;
mod or_else;
mod pattern;
mod point_at_end;
mod process;
mod quantize;
mod recompute_groups;
mod require_distinct_starts;
mod require_duration;
mod require_sorted;
pub(crate) mod rows_out;
mod select;
mod session;
mod shorten;
mod stitch;
mod top_k;
mod union;
mod unnest;
mod where_;

pub use aggregate::{
    Accumulator, Aggregate, AggregateCall, AggregateFunction, Combine, Emission, Fraction, Rows,
    SessionAggregate, UserAggregate, same,
};
pub use allowed_lateness::AllowedLateness;
pub use alter_lifetime::AlterLifetime;
pub use changes::Changes;
pub use chop::Chop;
pub use clip::{Clip, ClipConstant};
pub use coalesce::{Coalesce, CoalesceOrder};
pub use exists::Exists;
pub use extend_lifetime::ExtendLifetime;
pub use fill_gaps::{Fill, FillGaps};
pub use hopping::Hopping;
pub use join::Join;
pub use last_snapshot::LastSnapshot;
pub use lookup::{Lookup, TableSide};
pub use merge_join::MergeJoin;
pub use or_else::OrElse;
pub use pattern::{
    AfterMatch, Automaton, Detect, Element, Label, MatchRecognize, Overlap, Previous, Quantifier, Regex,
    RegisterField, RowPattern, Simultaneous, Transition, quantified, with_previous,
};
pub use point_at_end::PointAtEnd;
pub use process::{Process, Processed, UserOperator, UserProcess};
pub use quantize::Quantize;
pub use recompute_groups::{Compute, RecomputeGroups};
pub use require_distinct_starts::RequireDistinctStarts;
pub use require_duration::RequireDuration;
pub use require_sorted::RequireSorted;
pub use select::{Select, WithStart};
pub use session::{Session, SessionCap};
pub use stitch::Stitch;
pub use top_k::TopK;
pub use union::Union;
pub use unnest::Unnest;
pub use where_::Where;
