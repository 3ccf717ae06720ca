//! Rows as text and as files.
//!
//! Layers, lowest first:
//! 1. `format`: the formats, and how results look; `file_options`: what a statement says of the file that it
//!    writes; `terminal`: the width of the terminal; `fit`: which columns fit it;
//! 2. `writer`: what writes rows; `cell`: values and types as text;
//! 3. `arrow`, `csv`, `json`, `line`, `markdown`, `parquet`, `table`: one writer each;
//! 4. `target`: where results go.

mod arrow;
mod cell;
mod csv;
mod file_options;
mod fit;
mod format;
mod json;
mod line;
mod markdown;
mod parquet;
mod table;
mod target;
mod terminal;
mod writer;

pub use file_options::FileOptions;
pub use format::{Format, OutputOptions};
pub use target::{ResultWriter, Target};
