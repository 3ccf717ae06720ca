//! Sums that fail on overflow instead of wrapping around, and sums of floats over sliding frames that recover
//! from infinities.
//!
//! DataFusion's sums of integers wrap around. It subtracts the values that leave a frame from a sum of
//! floats, which stays NaN once it was infinite. These replacements are only in plans that are about to run:
//! they cannot be encoded.
//!
//! Invariant: whether a sum overflows does not depend on the order of its values.

mod checked_sum;
mod frame_sum;
mod group_sums;
mod interval_sum;

use checked_sum::{CheckedSum, DistinctSum};
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{
    DataType, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, DurationMicrosecondType,
    DurationMillisecondType, DurationNanosecondType, DurationSecondType, FieldRef, Int64Type, TimeUnit,
    UInt64Type,
};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, ScalarValue, exec_err, internal_err};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Expr, GroupsAccumulator, LogicalPlan, ReversedUDAF,
    Signature, WindowFunctionDefinition,
};
use frame_sum::FrameSum;
use group_sums::GroupSums;
use interval_sum::{INTERVAL, IntervalSum};
use std::sync::Arc;

/// Replaces the sums of a plan.
///
/// # Errors
/// If a node cannot be rebuilt.
pub(super) fn check_sums(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up(|plan| match plan {
        LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) => {
            let names = NamePreserver::new(&plan);
            plan.map_expressions(|expr| {
                let name = names.save(&expr);
                Ok(check_sums_of(expr)?.update_data(|expr| name.restore(expr)))
            })
        }
        _ => Ok(Transformed::no(plan)),
    })
    .data()
}

/// Replaces the sums of an expression.
///
/// # Errors
/// If it cannot be rebuilt.
pub(super) fn check_sums_of(expr: Expr) -> Result<Transformed<Expr>> {
    expr.transform_up(|expr| {
        Ok(match expr {
            Expr::AggregateFunction(mut call) if is_replaced(&call.func) => {
                call.func = checked(&call.func);
                Transformed::yes(Expr::AggregateFunction(call))
            }
            Expr::WindowFunction(mut window) => {
                match &window.fun {
                    WindowFunctionDefinition::AggregateUDF(udf) if is_replaced(udf) => {
                        window.fun = WindowFunctionDefinition::AggregateUDF(checked(udf));
                    }
                    _ => {}
                }
                Transformed::yes(Expr::WindowFunction(window))
            }
            other => Transformed::no(other),
        })
    })
}

/// Whether an aggregate is replaced, and not yet.
fn is_replaced(function: &AggregateUDF) -> bool {
    matches!(function.name(), "sum" | "avg" | "min" | "max")
        && function.inner().downcast_ref::<CheckedAggregate>().is_none()
}

/// The replacement of an aggregate.
fn checked(aggregate: &Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::from(CheckedAggregate(Arc::clone(aggregate))))
}

/// The error of a sum that overflows.
fn overflow(kind: &DataType) -> Result<()> {
    if *kind == INTERVAL {
        return exec_err!(
            "a sum of lengths of time is too long for an interval: sum up their epochs, extract(epoch from x)"
        );
    }
    exec_err!(
        "a sum is too large for {}: cast what is summed up to a larger type, as to decimal(38, 0) or float64",
        whimbrel_plan::names::type_name(kind)
    )
}

/// Checks that decimals have no more digits than their type.
fn check_digits(sums: &ArrayRef) -> Result<()> {
    let fit = match sums.data_type() {
        DataType::Decimal32(digits, _) => {
            sums.as_primitive::<Decimal32Type>().validate_decimal_precision(*digits)
        }
        DataType::Decimal64(digits, _) => {
            sums.as_primitive::<Decimal64Type>().validate_decimal_precision(*digits)
        }
        DataType::Decimal128(digits, _) => {
            sums.as_primitive::<Decimal128Type>().validate_decimal_precision(*digits)
        }
        DataType::Decimal256(digits, _) => {
            sums.as_primitive::<Decimal256Type>().validate_decimal_precision(*digits)
        }
        _ => Ok(()),
    };
    if fit.is_err() { overflow(sums.data_type()) } else { Ok(()) }
}

/// Makes `$make` for the native type of sums of type `$kind`; `$otherwise` if they are not of integers.
macro_rules! with_native_type {
    ($kind:expr, $make:ident, $otherwise:expr) => {
        match $kind {
            DataType::Int64 => Ok(Box::new($make::<Int64Type>::new($kind))),
            DataType::UInt64 => Ok(Box::new($make::<UInt64Type>::new($kind))),
            DataType::Decimal32(..) => Ok(Box::new($make::<Decimal32Type>::new($kind))),
            DataType::Decimal64(..) => Ok(Box::new($make::<Decimal64Type>::new($kind))),
            DataType::Decimal128(..) => Ok(Box::new($make::<Decimal128Type>::new($kind))),
            DataType::Decimal256(..) => Ok(Box::new($make::<Decimal256Type>::new($kind))),
            DataType::Duration(TimeUnit::Second) => Ok(Box::new($make::<DurationSecondType>::new($kind))),
            DataType::Duration(TimeUnit::Millisecond) => {
                Ok(Box::new($make::<DurationMillisecondType>::new($kind)))
            }
            DataType::Duration(TimeUnit::Microsecond) => {
                Ok(Box::new($make::<DurationMicrosecondType>::new($kind)))
            }
            DataType::Duration(TimeUnit::Nanosecond) => {
                Ok(Box::new($make::<DurationNanosecondType>::new($kind)))
            }
            _ => $otherwise,
        }
    };
}

/// An empty sum of a type.
fn empty_sum(kind: &DataType) -> Result<Box<dyn Accumulator>> {
    if *kind == INTERVAL {
        return Ok(Box::new(IntervalSum::default()));
    }
    with_native_type!(kind, CheckedSum, internal_err!("{kind} is no type of sums of different values"))
}

/// One of DataFusion's aggregates sum, avg, min and max, computed here where DataFusion is wrong.
#[derive(Debug, PartialEq, Eq, Hash)]
struct CheckedAggregate(Arc<AggregateUDF>);

impl CheckedAggregate {
    /// Whether it is min or max.
    fn is_min_or_max(&self) -> bool {
        matches!(self.0.name(), "min" | "max")
    }

    /// Whether it is sum.
    fn is_sum(&self) -> bool {
        self.0.name() == "sum"
    }
}

impl AggregateUDFImpl for CheckedAggregate {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.0.return_type(types)
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        self.0.return_field(fields)
    }

    fn is_nullable(&self) -> bool {
        self.0.is_nullable()
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.0.state_fields(args)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.0.coerce_types(types)
    }

    fn default_value(&self, kind: &DataType) -> Result<ScalarValue> {
        self.0.default_value(kind)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match args.return_field.data_type() {
            kind if self.is_sum() && args.is_distinct => match kind {
                DataType::Float64 => self.0.accumulator(args),
                kind => Ok(Box::new(DistinctSum::new(kind.clone(), self.0.accumulator(args)?))),
            },
            kind if self.is_sum() && *kind == INTERVAL => Ok(Box::new(IntervalSum::default())),
            kind if self.is_sum() => with_native_type!(kind, CheckedSum, self.0.accumulator(args)),
            _ => self.0.accumulator(args),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if self.is_min_or_max() {
            return self.0.create_sliding_accumulator(args);
        }
        let floats = args.expr_fields.iter().all(|field| *field.data_type() == DataType::Float64);
        match args.return_field.data_type() {
            kind if self.is_sum() && args.is_distinct => match kind {
                DataType::Float64 => self.0.create_sliding_accumulator(args),
                kind => {
                    Ok(Box::new(DistinctSum::new(kind.clone(), self.0.create_sliding_accumulator(args)?)))
                }
            },
            DataType::Float64 if floats && !args.is_distinct => Ok(Box::new(FrameSum::new(!self.is_sum()))),
            kind if self.is_sum() && *kind == INTERVAL => Ok(Box::new(IntervalSum::default())),
            kind if self.is_sum() => {
                with_native_type!(kind, CheckedSum, self.0.create_sliding_accumulator(args))
            }
            _ => self.0.create_sliding_accumulator(args),
        }
    }

    /// DataFusion's min and max for many groups forget a NaN when another value comes, and its sums of
    /// intervals do not fail.
    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        let kind = args.return_field.data_type();
        !(self.is_min_or_max() && kind.is_floating() || self.is_sum() && *kind == INTERVAL)
            && self.0.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        match args.return_field.data_type() {
            kind if self.is_sum() => {
                with_native_type!(kind, GroupSums, self.0.create_groups_accumulator(args))
            }
            _ => self.0.create_groups_accumulator(args),
        }
    }
}
