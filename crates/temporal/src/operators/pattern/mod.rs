//! Patterns over events: automata, the expressions that make them, and what looks for them in a stream.
//!
//! [`automaton`] and [`regex`] are what a caller says; [`program`] is that made ready to run. [`intake`]
//! brings events in order, [`filters`] finds what holds of each. Then there are two engines: [`scan`], a loop
//! over integers for patterns that remember nothing, and [`threads`], which goes in [`rounds`] and evaluates
//! [`moves`] over columns of [`registers`]. [`detect`] is the operator around them. [`match_recognize`]
//! prefers one match to another: [`attempts`] is its engine, on the same moves.

mod attempts;
mod automaton;
mod detect;
mod determinized;
mod filters;
mod holds;
mod intake;
mod lookback;
mod match_recognize;
mod matches;
mod moves;
mod program;
mod quantifier;
mod reader;
mod regex;
mod registers;
mod rounds;
mod scan;
mod sweeps;
mod threads;

pub use attempts::AfterMatch;
pub use automaton::{Automaton, Element, Label, RegisterField, Transition};
pub use detect::{Detect, Overlap, Simultaneous};
pub use lookback::{Previous, with_previous};
pub use match_recognize::{MatchRecognize, RowPattern};
pub use quantifier::{Quantifier, quantified};
pub use regex::Regex;
