//! Sums that fail where they are too large for their type, instead of being another number; and sums of floats over frames
//! from which an infinity leaves again.
//!
//! DataFusion adds whole numbers up modulo the size of their type, and takes what leaves a frame off a sum of floats, which
//! is of no number any more once it was infinite. Only a fragment that is about to run has these instead.
//!
//! Invariant: whether a sum fits does not depend on the order of its values.

mod floats;
mod groups;
mod lengths;
mod total;

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
use floats::Floats;
use groups::Groups;
use lengths::{LENGTH, Lengths};
use std::sync::Arc;
use total::{Distinct, Total};

/// The same plan with sums that fail where they are too large.
pub(super) fn checked(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up(|plan| match plan {
        LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) => {
            let names = NamePreserver::new(&plan);
            plan.map_expressions(|expr| {
                let name = names.save(&expr);
                Ok(expression(expr)?.update_data(|expr| name.restore(expr)))
            })
        }
        _ => Ok(Transformed::no(plan)),
    })
    .data()
}

/// The same expression with such sums.
pub(super) fn expression(expr: Expr) -> Result<Transformed<Expr>> {
    expr.transform_up(|expr| {
        Ok(match expr {
            Expr::AggregateFunction(mut call) if is_known(&call.func) => {
                call.func = function(&call.func);
                Transformed::yes(Expr::AggregateFunction(call))
            }
            Expr::WindowFunction(mut window) => {
                match &window.fun {
                    WindowFunctionDefinition::AggregateUDF(known) if is_known(known) => {
                        window.fun = WindowFunctionDefinition::AggregateUDF(function(known));
                    }
                    _ => {}
                }
                Transformed::yes(Expr::WindowFunction(window))
            }
            other => Transformed::no(other),
        })
    })
}

fn is_known(function: &AggregateUDF) -> bool {
    matches!(function.name(), "sum" | "avg" | "min" | "max")
        && function.inner().downcast_ref::<Checked>().is_none()
}

fn function(function: &Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::from(Checked(Arc::clone(function))))
}

/// Refuses a sum.
fn too_large(kind: &DataType) -> Result<()> {
    if *kind == LENGTH {
        return exec_err!(
            "a sum of lengths of time is too long for an interval: sum up their epochs, extract(epoch from x)"
        );
    }
    exec_err!(
        "a sum is too large for {}: cast what is summed up to a larger type, as to decimal(38, 0) or float64",
        whimbrel_plan::names::type_name(kind)
    )
}

/// Refuses decimals that have more digits than their type.
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
    if fit.is_err() { too_large(sums.data_type()) } else { Ok(()) }
}

/// What a type of sums is kept as; nothing for one that is none of whole numbers.
macro_rules! of_type {
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

/// The sum of all values of a type.
fn total(kind: &DataType) -> Result<Box<dyn Accumulator>> {
    if *kind == LENGTH {
        return Ok(Box::new(Lengths::default()));
    }
    of_type!(kind, Total, internal_err!("{kind} is no type of sums of different values"))
}

/// A sum, an average or an extreme of DataFusion's, computed here where that does not do it right.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked(Arc<AggregateUDF>);

impl Checked {
    /// Whether it is the least or the greatest value.
    fn is_extreme(&self) -> bool {
        matches!(self.0.name(), "min" | "max")
    }

    fn is_sum(&self) -> bool {
        self.0.name() == "sum"
    }
}

impl AggregateUDFImpl for Checked {
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
                kind => Ok(Box::new(Distinct::new(kind.clone(), self.0.accumulator(args)?))),
            },
            kind if self.is_sum() && *kind == LENGTH => Ok(Box::new(Lengths::default())),
            kind if self.is_sum() => of_type!(kind, Total, self.0.accumulator(args)),
            _ => self.0.accumulator(args),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if self.is_extreme() {
            return self.0.create_sliding_accumulator(args);
        }
        let floats = args.expr_fields.iter().all(|field| *field.data_type() == DataType::Float64);
        match args.return_field.data_type() {
            kind if self.is_sum() && args.is_distinct => match kind {
                DataType::Float64 => self.0.create_sliding_accumulator(args),
                kind => Ok(Box::new(Distinct::new(kind.clone(), self.0.create_sliding_accumulator(args)?))),
            },
            DataType::Float64 if floats && !args.is_distinct => Ok(Box::new(Floats::new(!self.is_sum()))),
            kind if self.is_sum() && *kind == LENGTH => Ok(Box::new(Lengths::default())),
            kind if self.is_sum() => of_type!(kind, Total, self.0.create_sliding_accumulator(args)),
            _ => self.0.create_sliding_accumulator(args),
        }
    }

    /// What DataFusion has for the extremes of many groups forgets a NaN when another value comes, and its sums of
    /// lengths of time do not fail.
    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        let kind = args.return_field.data_type();
        !(self.is_extreme() && kind.is_floating() || self.is_sum() && *kind == LENGTH)
            && self.0.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        match args.return_field.data_type() {
            kind if self.is_sum() => of_type!(kind, Groups, self.0.create_groups_accumulator(args)),
            _ => self.0.create_groups_accumulator(args),
        }
    }
}
