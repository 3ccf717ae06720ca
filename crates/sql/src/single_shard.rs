//! The exchange that brings all rows of a stream to one shard: SQL speaks of all rows.
//!
//! A table in a query is always behind this exchange; shard planning removes it where an operator does not
//! need it.

use datafusion::common::Result;
use whimbrel_plan::Stream;
use whimbrel_plan::nodes::{Exchange, Movement, Scope};

/// The stream in one shard.
///
/// # Errors
/// `Plan` if the stream cannot be brought to one shard.
pub(crate) fn single_shard(stream: &Stream) -> Result<Stream> {
    match stream.properties().shards {
        1 => Ok(stream.clone()),
        _ => stream.reshard(Some(1), Scope::Global),
    }
}

/// Whether an exchange brings all rows to one shard.
pub(crate) fn is_single_shard(exchange: &Exchange) -> bool {
    let one = exchange.shards == Some(1) && exchange.scope == Scope::Global;
    one && matches!(*exchange.movement, Movement::ReShard)
}
