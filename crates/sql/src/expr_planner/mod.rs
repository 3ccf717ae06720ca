//! Operators that DataFusion plans otherwise than DuckDB and PostgreSQL, by the types of their operands.

mod boolean_coercion;
mod division;
mod interval_arithmetic;
mod shift;
mod subscript;
mod untyped_operands;

pub(crate) use boolean_coercion::BooleanCoercion;
pub(crate) use division::Division;
pub(crate) use interval_arithmetic::IntervalArithmetic;
pub(crate) use shift::Shift;
pub(crate) use subscript::Subscript;
pub(crate) use untyped_operands::UntypedOperands;
