//! Patterns over events: automata, the expressions that make them, and what looks for them in a stream.
//!
//! [`automaton`] and [`regex`] are what a caller says; [`program`] is that made ready to run. [`intake`] brings
//! events in order, [`filters`] finds what holds of each. Then there are two engines: [`scan`], a loop over
//! integers for patterns that remember nothing, and [`threads`], which goes in [`rounds`] and evaluates
//! [`moves`] over columns of [`registers`]. [`detect`] is the operator around them.

mod automaton;
mod detect;
mod determinized;
mod filters;
mod intake;
mod matches;
mod moves;
mod program;
mod quantifier;
mod reader;
mod regex;
mod registers;
mod rounds;
mod scan;
mod threads;

pub use automaton::{Automaton, Element, Label, RegisterField, Transition};
pub use detect::{Detect, Overlap, Simultaneous};
pub use quantifier::{Quantifier, quantified};
pub use regex::Regex;
