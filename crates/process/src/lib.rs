//! What a process that runs queries has once, whatever its interface is: the memory allocator, and the
//! progress bar on standard error. The command and the Python module use it.
//!
//! Layers, lowest first; neither uses the other:
//! 1. [`allocator`]: the global allocator and its settings;
//! 2. [`progress`]: the progress bar of a running query.
//!
//! Start at [`allocator::keep_pages`], which a program calls first. Nothing here plans or runs a query.

pub mod allocator;
pub mod progress;
