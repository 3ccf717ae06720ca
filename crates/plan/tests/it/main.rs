//! The plan, from outside: what every method of the builder makes, what it refuses and in which words, what
//! is known of the result, and how it reads.

#![allow(clippy::unwrap_used)]

mod aggregates;
mod calendar;
mod colocated;
mod durations;
mod estimates;
mod explain;
mod expressions;
mod ingress;
mod joins;
mod movement;
mod optimizer;
mod papers;
mod program;
mod relational;
mod relations_run;
mod requirements;
mod support;
mod windows;
