//! Operators that DataFusion plans otherwise than DuckDB and PostgreSQL, by the types of their operands.

mod boolean_coercion;
mod division;
mod interval_arithmetic;
mod shift;
mod subscript;

pub(crate) use boolean_coercion::BooleanCoercion;
pub(crate) use division::Division;
pub(crate) use interval_arithmetic::IntervalArithmetic;
pub(crate) use shift::Shift;
pub(crate) use subscript::Subscript;
