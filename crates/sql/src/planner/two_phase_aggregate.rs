//! Aggregates in two phases (quill.txt §1.1): partial groups of the rows of each shard, which are merged into
//! groups.
//!
//! | call       | partial             | merge                | result   |
//! |------------|---------------------|----------------------|----------|
//! | `count(x)` | `count(x)` as n     | `sum(n)`             | n        |
//! | `sum(x)`   | `sum(x)` as s       | `sum(s)`             | s        |
//! | `min(x)`   | `min(x)` as m       | `min(m)`             | m        |
//! | `avg(x)`   | `sum(x)`, `count(x)`| `sum(s)`, `sum(n)`   | s / n    |

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Column, DFSchema, Result};
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::utils::COUNT_STAR_EXPANSION;
use datafusion::logical_expr::{Aggregate, AggregateUDF, Expr, ExprSchemable, cast};
use std::sync::Arc;

/// The calls of an aggregate in two phases. The second may be repeated: merged partial groups are partial
/// groups.
pub(super) struct TwoPhaseAggregate {
    /// Calls over the rows.
    pub partial: Vec<Expr>,
    /// Calls over partial groups, with the same names.
    pub merge: Vec<Expr>,
    /// The calls of the query, with their names, computed of merged groups.
    pub result: Vec<Expr>,
}

impl TwoPhaseAggregate {
    /// The phases; `None` if one of the calls cannot be merged from partial groups.
    ///
    /// # Errors
    /// `Plan` if an argument has no type.
    pub fn of(aggregate: &Aggregate) -> Result<Option<TwoPhaseAggregate>> {
        let mut split = TwoPhaseAggregate { partial: vec![], merge: vec![], result: vec![] };
        let first = aggregate.group_expr.len();
        for (place, call) in aggregate.aggr_expr.iter().enumerate() {
            let field = aggregate.schema.field(first + place);
            let Expr::AggregateFunction(call) = call.clone().unalias() else { return Ok(None) };
            let Some(result) = split.call(place, &call, field.data_type(), aggregate.input.schema())? else {
                return Ok(None);
            };
            split.result.push(result.alias(field.name()));
        }
        Ok(Some(split))
    }

    /// Adds a call, and returns it as an expression over merged groups.
    fn call(
        &mut self,
        place: usize,
        call: &AggregateFunction,
        wanted: &DataType,
        input: &DFSchema,
    ) -> Result<Option<Expr>> {
        let params = &call.params;
        if params.distinct || !params.order_by.is_empty() || params.null_treatment.is_some() {
            return Ok(None);
        }
        let merged = match call.func.name() {
            "count" => self.part(place, "n", as_row_count(call, input)?, sum_udaf()),
            "sum" => self.part(place, "sum", call.clone(), sum_udaf()),
            "min" | "max" | "bool_and" | "bool_or" | "bit_and" | "bit_or" | "bit_xor" => {
                self.part(place, "part", call.clone(), Arc::clone(&call.func))
            }
            "avg" => {
                let [of] = params.args.as_slice() else { return Ok(None) };
                let of = of.get_type(input)?;
                if !(of == DataType::Float64 || of.is_decimal()) || *wanted != DataType::Float64 {
                    return Ok(None);
                }
                let sum = AggregateFunction { func: sum_udaf(), params: params.clone() };
                let sum = self.part(place, "sum", sum, sum_udaf());
                let counted = AggregateFunction { func: count_udaf(), params: params.clone() };
                let counted = as_row_count(&counted, input)?;
                let n = self.part(place, "n", counted, sum_udaf());
                return Ok(Some(cast(sum, wanted.clone()) / cast(n, wanted.clone())));
            }
            _ => return Ok(None),
        };
        Ok(Some(cast(merged, wanted.clone())))
    }

    /// Adds a partial call, unless there is an equal one, and the function that merges it. Returns its
    /// column.
    fn part(
        &mut self,
        place: usize,
        name: &str,
        partial: AggregateFunction,
        merge: Arc<AggregateUDF>,
    ) -> Expr {
        let partial = Expr::AggregateFunction(partial);
        let known = self.partial.iter().find_map(|known| match known {
            Expr::Alias(known) if *known.expr == partial => Some(&known.name),
            _ => None,
        });
        if let Some(name) = known {
            return Expr::Column(Column::from_name(name));
        }
        let name = format!("__{name}_{place}");
        let column = Expr::Column(Column::from_name(&name));
        let merge = AggregateFunction::new_udf(merge, vec![column.clone()], false, None, vec![], None);
        self.partial.push(partial.alias(&name));
        self.merge.push(Expr::AggregateFunction(merge).alias(&name));
        column
    }
}

/// A count of values that are never null is a count of rows, which several calls share.
fn as_row_count(count: &AggregateFunction, input: &DFSchema) -> Result<AggregateFunction> {
    let mut count = count.clone();
    let nullable = count.params.args.iter().map(|of| of.nullable(input));
    if !nullable.collect::<Result<Vec<_>>>()?.contains(&true) {
        count.params.args = vec![Expr::Literal(COUNT_STAR_EXPANSION, None)];
    }
    Ok(count)
}
