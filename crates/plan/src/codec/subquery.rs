//! Subqueries in expressions.
//!
//! In bytes, a subquery is a step of the document, and the expression calls a function that names the step.

use super::document::SubqueryUse;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Column, Result, internal_err, plan_datafusion_err, plan_err};
use datafusion::logical_expr::expr::{Exists, InSubquery, ScalarFunction, SetComparison, SetQuantifier};
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Subquery,
    Volatility,
};
use datafusion_proto::logical_plan::from_proto::from_proto_binary_op;
use std::sync::Arc;

/// The function that stands for a subquery, or for a column of the query around it.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct SubqueryFunction {
    /// What the expression reads.
    pub read: SubqueryUse,
    signature: Signature,
}

/// The function as DataFusion sees it.
pub(super) fn function(read: SubqueryUse) -> Arc<ScalarUDF> {
    let signature = Signature::variadic_any(Volatility::Immutable);
    Arc::new(ScalarUDF::from(SubqueryFunction { read, signature }))
}

impl ScalarUDFImpl for SubqueryFunction {
    fn name(&self) -> &str {
        "subquery"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("a subquery in bytes has no type")
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("a subquery in bytes has no value")
    }
}

/// The call that stands for a subquery. `write_plan` gives the step of its plan.
///
/// # Errors
/// Those of `write_plan`.
pub(super) fn to_call(
    expr: Expr,
    write_plan: &mut dyn FnMut(&LogicalPlan) -> Result<u32>,
    write_field: &dyn Fn(&FieldRef) -> Result<Vec<u8>>,
) -> Result<Expr> {
    let call = |read, first: Option<Expr>, outer: Vec<Expr>| {
        Expr::ScalarFunction(ScalarFunction::new_udf(
            function(read),
            first.into_iter().chain(outer).collect(),
        ))
    };
    Ok(match expr {
        Expr::ScalarSubquery(of) => {
            call(SubqueryUse::Scalar { plan: write_plan(&of.subquery)? }, None, of.outer_ref_columns)
        }
        Expr::Exists(Exists { subquery: of, negated }) => {
            call(SubqueryUse::Exists { plan: write_plan(&of.subquery)?, negated }, None, of.outer_ref_columns)
        }
        Expr::InSubquery(InSubquery { expr, subquery: of, negated }) => call(
            SubqueryUse::In { plan: write_plan(&of.subquery)?, negated },
            Some(*expr),
            of.outer_ref_columns,
        ),
        Expr::SetComparison(SetComparison { expr, subquery: of, op, quantifier }) => {
            let (op, all) = (format!("{op:?}"), quantifier == SetQuantifier::All);
            let read = SubqueryUse::Compare { plan: write_plan(&of.subquery)?, op, all };
            call(read, Some(*expr), of.outer_ref_columns)
        }
        Expr::OuterReferenceColumn(field, column) => {
            call(SubqueryUse::OuterColumn { field: write_field(&field)? }, Some(Expr::Column(column)), vec![])
        }
        other => other,
    })
}

/// The subquery that a call stands for. `read_plan` gives the plan of a step.
///
/// # Errors
/// `Plan` if the call is not one that [`to_call`] makes; those of `read_plan`.
pub(super) fn from_call(
    read: &SubqueryUse,
    mut args: Vec<Expr>,
    read_plan: &dyn Fn(u32) -> Result<Arc<LogicalPlan>>,
    read_field: &dyn Fn(&[u8]) -> Result<FieldRef>,
) -> Result<Expr> {
    let subquery = |plan: u32, outer_ref_columns| -> Result<Subquery> {
        Ok(Subquery { subquery: read_plan(plan)?, outer_ref_columns, spans: Default::default() })
    };
    let first = |args: &mut Vec<Expr>| match args.is_empty() {
        true => plan_err!("a subquery of this plan misses what it is compared with"),
        false => Ok(Box::new(args.remove(0))),
    };
    Ok(match read {
        SubqueryUse::Scalar { plan } => Expr::ScalarSubquery(subquery(*plan, args)?),
        SubqueryUse::Exists { plan, negated } => Expr::Exists(Exists::new(subquery(*plan, args)?, *negated)),
        SubqueryUse::In { plan, negated } => {
            let expr = first(&mut args)?;
            Expr::InSubquery(InSubquery::new(expr, subquery(*plan, args)?, *negated))
        }
        SubqueryUse::Compare { plan, op, all } => {
            let expr = first(&mut args)?;
            let op = from_proto_binary_op(op).map_err(|e| plan_datafusion_err!("{e}"))?;
            let quantifier = if *all { SetQuantifier::All } else { SetQuantifier::Any };
            Expr::SetComparison(SetComparison::new(expr, subquery(*plan, args)?, op, quantifier))
        }
        SubqueryUse::OuterColumn { field } => {
            Expr::OuterReferenceColumn(read_field(field)?, only_column(args)?)
        }
    })
}

fn only_column(args: Vec<Expr>) -> Result<Column> {
    match <[Expr; 1]>::try_from(args) {
        Ok([Expr::Column(column)]) => Ok(column),
        _ => plan_err!("an outer column of this plan is no column"),
    }
}
