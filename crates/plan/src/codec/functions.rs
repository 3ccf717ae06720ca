//! Functions in expressions, by name and by what tells functions of one name apart.
//!
//! Invariant: what is read is equal to what was written. The bytes of a function are checked when they are
//! written, so a function that is not known by its name and its bytes is refused.

use super::document::{Message, SubqueryUse};
use super::nesting::check_nesting;
use super::references::{References, own_scalar_functions};
use super::subquery::{self, SubqueryFunction};
use crate::aggregate::engine_functions;
use crate::row_pattern::RowPattern;
use crate::row_pattern_function::RowPatternFunction;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::common::{Result, TableReference, internal_err, plan_datafusion_err, plan_err};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{
    AggregateUDF, Expr, Extension, HigherOrderUDF, LogicalPlan, ScalarUDF, WindowUDF, lit,
};
use datafusion_proto::logical_plan::LogicalExtensionCodec;
use datafusion_proto::logical_plan::from_proto::parse_expr;
use datafusion_proto::logical_plan::to_proto::serialize_expr;
use datafusion_proto::protobuf;
use prost::Message as _;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;

/// Which function of a name it is.
#[derive(Debug, Serialize, Deserialize)]
enum Definition {
    /// The one at this place among the known functions of its name.
    Known(u32),
    /// One that is made with these parameters.
    Made(Vec<u8>),
    /// No function: what an expression reads of a subquery.
    Subquery(SubqueryUse),
    /// A pattern of rows, and the columns that it reads.
    RowPattern(Box<RowPattern<Message, Message>>, Vec<String>),
}

/// Writes and reads functions for `datafusion-proto`.
#[derive(Debug)]
pub(super) struct FunctionCodec(pub Arc<dyn References>);

impl FunctionCodec {
    fn scalar_functions(&self, name: &str) -> Vec<Arc<ScalarUDF>> {
        let own = own_scalar_functions().into_iter().filter(|function| function.name() == name);
        own.chain(self.0.scalar_functions(name)).collect()
    }

    fn aggregate_functions(&self, name: &str) -> Vec<Arc<AggregateUDF>> {
        let own = engine_functions().filter(|function| function.name() == name);
        own.chain(self.0.aggregate_functions(name)).collect()
    }

    fn scalar_definition(&self, function: &ScalarUDF) -> Option<Definition> {
        if let Some(subquery) = function.inner().downcast_ref::<SubqueryFunction>() {
            return Some(Definition::Subquery(subquery.read.clone()));
        }
        let known = place(&self.scalar_functions(function.name()), function);
        known.or_else(|| {
            let parameters = self.0.write_parameters(function)?;
            let made = self.0.make_function(function.name(), &parameters).ok()?;
            (made == *function).then_some(Definition::Made(parameters))
        })
    }
}

/// The expressions of row patterns.
impl FunctionCodec {
    fn row_pattern(&self, pattern: &RowPattern) -> Result<RowPattern<Message, Message>> {
        let write = |expr: &Expr| {
            let message = serialize_expr(expr, self).map_err(|e| plan_datafusion_err!("{e}"))?;
            Ok(Message(message.encode_to_vec()))
        };
        pattern.try_map(write)?.try_map_values(|value| write(&lit(value.clone())))
    }

    fn read_row_pattern(&self, pattern: &RowPattern<Message, Message>) -> Result<RowPattern> {
        let context = no_functions();
        let read = |message: &Message| {
            check_nesting(&message.0)?;
            let message = protobuf::LogicalExprNode::decode(&message.0[..]);
            let message =
                message.map_err(|_| plan_datafusion_err!("the bytes of a row pattern are damaged"))?;
            parse_expr(&message, &context, self).map_err(|e| plan_datafusion_err!("{e}"))
        };
        pattern.try_map(read)?.try_map_values(|message| match read(message)? {
            Expr::Literal(value, _) => Ok(value),
            other => plan_err!("{other} is no value"),
        })
    }
}

/// Where a function is among those of its name.
fn place<F: PartialEq>(functions: &[Arc<F>], function: &F) -> Option<Definition> {
    let place = functions.iter().position(|known| **known == *function)?;
    Some(Definition::Known(u32::try_from(place).ok()?))
}

/// The bytes of a definition; without one they are empty, which reading refuses. `datafusion-proto` passes no
/// errors on.
fn write(definition: Option<Definition>, bytes: &mut Vec<u8>) -> Result<()> {
    if let Some(definition) = definition {
        *bytes = postcard::to_stdvec(&definition).map_err(|e| plan_datafusion_err!("{e}"))?;
    }
    Ok(())
}

fn read(name: &str, bytes: &[u8]) -> Result<Definition> {
    if bytes.is_empty() {
        return plan_err!(
            "the function {name:?} belongs to this process (Python made it, or it counts in a session) and cannot be \
             written with a plan; say it with expressions, or, if it can be pickled (lambdas by the package \
             cloudpickle), write the plan with python_functions=\"pickle\""
        );
    }
    postcard::from_bytes(bytes)
        .map_err(|_| plan_datafusion_err!("the bytes of the function {name:?} are damaged"))
}

/// The function at a place.
fn known<F>(name: &str, functions: Vec<Arc<F>>, definition: &Definition) -> Result<Arc<F>> {
    let function = match definition {
        Definition::Known(place) => functions.into_iter().nth(*place as usize),
        _ => None,
    };
    function.ok_or_else(|| {
        plan_datafusion_err!(
            "there is no function {name:?} here; read the plan with the release that wrote it"
        )
    })
}

/// A context without functions: all of them come from the codec.
pub(super) fn no_functions() -> TaskContext {
    TaskContext::new(
        None,
        String::new(),
        Default::default(),
        HashMap::new(),
        HashMap::new(),
        HashMap::new(),
        HashMap::new(),
        Default::default(),
    )
}

impl LogicalExtensionCodec for FunctionCodec {
    fn try_encode_udf(&self, function: &ScalarUDF, bytes: &mut Vec<u8>) -> Result<()> {
        write(self.scalar_definition(function), bytes)
    }

    fn try_decode_udf(&self, name: &str, bytes: &[u8]) -> Result<Arc<ScalarUDF>> {
        match read(name, bytes)? {
            Definition::Subquery(read) => Ok(subquery::function(read)),
            Definition::Made(parameters) => Ok(Arc::new(self.0.make_function(name, &parameters)?)),
            definition => known(name, self.scalar_functions(name), &definition),
        }
    }

    fn try_encode_udaf(&self, function: &AggregateUDF, bytes: &mut Vec<u8>) -> Result<()> {
        write(place(&self.aggregate_functions(function.name()), function), bytes)
    }

    fn try_decode_udaf(&self, name: &str, bytes: &[u8]) -> Result<Arc<AggregateUDF>> {
        known(name, self.aggregate_functions(name), &read(name, bytes)?)
    }

    fn try_encode_udwf(&self, function: &WindowUDF, bytes: &mut Vec<u8>) -> Result<()> {
        let definition = match function.inner().downcast_ref::<RowPatternFunction>() {
            Some(of) => {
                Some(Definition::RowPattern(Box::new(self.row_pattern(&of.pattern)?), of.columns.clone()))
            }
            None => place(&self.0.window_functions(function.name()), function),
        };
        write(definition, bytes)
    }

    fn try_decode_udwf(&self, name: &str, bytes: &[u8]) -> Result<Arc<WindowUDF>> {
        match read(name, bytes)? {
            Definition::RowPattern(pattern, columns) => {
                Ok(RowPatternFunction::over_columns(self.read_row_pattern(&pattern)?, columns))
            }
            definition => known(name, self.0.window_functions(name), &definition),
        }
    }

    fn try_encode_higher_order_function(&self, function: &HigherOrderUDF, bytes: &mut Vec<u8>) -> Result<()> {
        write(place(&self.0.higher_order_functions(function.name()), function), bytes)
    }

    fn try_decode_higher_order_function(&self, name: &str, bytes: &[u8]) -> Result<Arc<HigherOrderUDF>> {
        known(name, self.0.higher_order_functions(name), &read(name, bytes)?)
    }

    fn try_decode(&self, _: &[u8], _: &[LogicalPlan], _: &TaskContext) -> Result<Extension> {
        plan_err!("an expression of this plan holds a plan, which expressions do not")
    }

    fn try_encode(&self, _: &Extension, _: &mut Vec<u8>) -> Result<()> {
        internal_err!("an expression holds a plan")
    }

    fn try_decode_table_provider(
        &self,
        _: &[u8],
        _: &TableReference,
        _: SchemaRef,
        _: &TaskContext,
    ) -> Result<Arc<dyn TableProvider>> {
        plan_err!("an expression of this plan holds a table, which expressions do not")
    }

    fn try_encode_table_provider(
        &self,
        _: &TableReference,
        _: Arc<dyn TableProvider>,
        _: &mut Vec<u8>,
    ) -> Result<()> {
        internal_err!("an expression holds a table")
    }
}
