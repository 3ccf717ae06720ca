//! Expressions and schemas as messages of `datafusion-proto`, and back.

use super::document::Message;
use super::functions::{FunctionCodec, no_functions};
use super::names::Names;
use super::nesting::check_nesting;
use super::references::References;
use super::subquery::{self, SubqueryFunction};
use datafusion::arrow::datatypes::{Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{
    Column, DFSchema, DFSchemaRef, DataFusionError, Result, TableReference, plan_datafusion_err,
};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion_proto::logical_plan::from_proto::parse_expr;
use datafusion_proto::logical_plan::to_proto::serialize_expr;
use datafusion_proto::protobuf::{self, FromProtoError};
use prost::Message as _;
use std::sync::Arc;

/// Writes and reads expressions.
pub(super) struct Expressions {
    codec: FunctionCodec,
    context: TaskContext,
}

impl Expressions {
    pub fn new(references: Arc<dyn References>) -> Expressions {
        Expressions { codec: FunctionCodec(references), context: no_functions() }
    }

    /// An expression in bytes. Its subqueries are written first, by [`with_calls`].
    ///
    /// # Errors
    /// `Plan` if a part of it cannot be written.
    pub fn write(&self, expr: Expr, names: &mut Names) -> Result<Message> {
        let expr = expr.transform_down(|expr| {
            Ok(Transformed::yes(map_tables(expr, &mut |table| Ok(names.stand_in(table)))?))
        })?;
        let message = serialize_expr(&expr.data, &self.codec).map_err(|e| plan_datafusion_err!("{e}"))?;
        Ok(Message(message.encode_to_vec()))
    }

    /// The expression of these bytes. Its subqueries come from `read_plan`.
    ///
    /// # Errors
    /// `Plan` if the bytes are damaged; those of `read_plan`.
    pub fn read(
        &self,
        message: &Message,
        names: &Names,
        read_plan: &dyn Fn(u32) -> Result<Arc<LogicalPlan>>,
    ) -> Result<Expr> {
        check_nesting(&message.0)?;
        let message = protobuf::LogicalExprNode::decode(&message.0[..]).map_err(damaged)?;
        let expr = parse_expr(&message, &self.context, &self.codec).map_err(of_message)?;
        let expr = expr.transform_up(|expr| {
            Ok(Transformed::yes(match expr {
                Expr::ScalarFunction(ScalarFunction { func, args }) => {
                    match func.inner().downcast_ref::<SubqueryFunction>() {
                        Some(call) => subquery::from_call(&call.read, args, read_plan, &read_field)?,
                        None => Expr::ScalarFunction(ScalarFunction { func, args }),
                    }
                }
                other => other,
            }))
        })?;
        let expr = expr.data.transform_up(|expr| {
            Ok(Transformed::yes(map_tables(expr, &mut |number| names.stands_for(number))?))
        })?;
        Ok(expr.data)
    }
}

/// The expression with calls in place of its subqueries, whose plans are given to `write_plan`.
///
/// # Errors
/// `Plan` if a field cannot be written; those of `write_plan`.
pub(super) fn with_calls(
    expr: Expr,
    write_plan: &mut dyn FnMut(&LogicalPlan) -> Result<u32>,
) -> Result<Expr> {
    let expr =
        expr.transform_down(|expr| Ok(Transformed::yes(subquery::to_call(expr, write_plan, &write_field)?)))?;
    Ok(expr.data)
}

/// The columns of an expression, in other tables.
fn map_tables(expr: Expr, map: &mut dyn FnMut(&TableReference) -> Result<TableReference>) -> Result<Expr> {
    let mut in_table = |column: Column| -> Result<Column> {
        let relation = column.relation.as_ref().map(&mut *map).transpose()?;
        Ok(Column { relation, ..column })
    };
    Ok(match expr {
        Expr::Column(column) => Expr::Column(in_table(column)?),
        Expr::OuterReferenceColumn(field, column) => Expr::OuterReferenceColumn(field, in_table(column)?),
        other => other,
    })
}

/// A schema in bytes.
///
/// # Errors
/// `Plan` if it has a type that cannot be written.
pub(super) fn write_schema(schema: &DFSchema, names: &mut Names) -> Result<Message> {
    let schema = map_schema(schema, &mut |table| Ok(names.stand_in(table)))?;
    let message = protobuf::DfSchema::try_from(&schema).map_err(|e| plan_datafusion_err!("{e}"))?;
    Ok(Message(message.encode_to_vec()))
}

/// The schema of these bytes.
///
/// # Errors
/// `Plan` if they are damaged.
pub(super) fn read_schema(message: &Message, names: &Names) -> Result<DFSchemaRef> {
    check_nesting(&message.0)?;
    let message = protobuf::DfSchema::decode(&message.0[..]).map_err(damaged)?;
    let schema = DFSchema::try_from(&message).map_err(of_message)?;
    Ok(Arc::new(map_schema(&schema, &mut |number| names.stands_for(number))?))
}

fn map_schema(
    schema: &DFSchema,
    map: &mut dyn FnMut(&TableReference) -> Result<TableReference>,
) -> Result<DFSchema> {
    let fields =
        schema.iter().map(|(table, field)| Ok((table.map(&mut *map).transpose()?, Arc::clone(field))));
    DFSchema::new_with_metadata(fields.collect::<Result<_>>()?, schema.metadata().clone())
}

fn write_field(field: &FieldRef) -> Result<Vec<u8>> {
    let message = protobuf::Field::try_from(field.as_ref()).map_err(|e| plan_datafusion_err!("{e}"))?;
    Ok(message.encode_to_vec())
}

fn read_field(bytes: &[u8]) -> Result<FieldRef> {
    check_nesting(bytes)?;
    let message = protobuf::Field::decode(bytes).map_err(damaged)?;
    Ok(Arc::new(Field::try_from(&message).map_err(of_message)?))
}

/// The error for a message that says nothing sensible.
fn of_message(error: FromProtoError) -> DataFusionError {
    match error {
        FromProtoError::DataFusionError(error) => error,
        other => damaged(other),
    }
}

/// The error for bytes that are no message.
pub(super) fn damaged(error: impl std::fmt::Display) -> DataFusionError {
    plan_datafusion_err!("the bytes of this plan are damaged: {error}")
}
