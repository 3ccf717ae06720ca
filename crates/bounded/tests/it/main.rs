//! Everything about bounded queries, from outside.

mod answers;
mod crashes;
mod cursors;
mod encoding;
mod random;
mod refusals;
mod scadr;
mod speed;
mod support;
mod tpcw;
mod writes;
