//! Aggregates in two steps: what each shard computes of its rows, how the parts come together, and what the whole is
//! then (quill.txt §1.1).

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Column, DFSchema, Result};
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::utils::COUNT_STAR_EXPANSION;
use datafusion::logical_expr::{Aggregate, AggregateUDF, Expr, ExprSchemable, cast};
use std::sync::Arc;

/// An aggregate in two steps. Steps may be repeated: parts of parts are parts.
pub(super) struct Split {
    /// Over the rows.
    pub parts: Vec<Expr>,
    /// Over parts, under the same names.
    pub together: Vec<Expr>,
    /// Over what has come together: the columns that were asked for, under their names.
    pub whole: Vec<Expr>,
}

impl Split {
    /// The steps; none if one of the calls cannot be put together from parts.
    pub fn of(aggregate: &Aggregate) -> Result<Option<Split>> {
        let mut split = Split { parts: vec![], together: vec![], whole: vec![] };
        let first = aggregate.group_expr.len();
        for (place, call) in aggregate.aggr_expr.iter().enumerate() {
            let field = aggregate.schema.field(first + place);
            let Expr::AggregateFunction(call) = call.clone().unalias() else { return Ok(None) };
            let Some(whole) = split.call(place, &call, field.data_type(), aggregate.input.schema())? else {
                return Ok(None);
            };
            split.whole.push(whole.alias(field.name()));
        }
        Ok(Some(split))
    }

    /// Adds a call; gives what it is, over what has come together.
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
        let whole = match call.func.name() {
            "count" => self.part(place, "n", of_rows(call, input)?, sum_udaf()),
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
                let counted = of_rows(&counted, input)?;
                let n = self.part(place, "n", counted, sum_udaf());
                return Ok(Some(cast(sum, wanted.clone()) / cast(n, wanted.clone())));
            }
            _ => return Ok(None),
        };
        Ok(Some(cast(whole, wanted.clone())))
    }

    /// Adds a part, unless it is there already, and the function that puts it together; gives its column.
    fn part(
        &mut self,
        place: usize,
        name: &str,
        made: AggregateFunction,
        together: Arc<AggregateUDF>,
    ) -> Expr {
        let made = Expr::AggregateFunction(made);
        let known = self.parts.iter().find_map(|part| match part {
            Expr::Alias(part) if *part.expr == made => Some(&part.name),
            _ => None,
        });
        if let Some(name) = known {
            return Expr::Column(Column::from_name(name));
        }
        let name = format!("__{name}_{place}");
        let column = Expr::Column(Column::from_name(&name));
        let sum = AggregateFunction::new_udf(together, vec![column.clone()], false, None, vec![], None);
        self.parts.push(made.alias(&name));
        self.together.push(Expr::AggregateFunction(sum).alias(&name));
        column
    }
}

/// What counts values that cannot be null counts rows, and rows are counted once.
fn of_rows(count: &AggregateFunction, input: &DFSchema) -> Result<AggregateFunction> {
    let mut count = count.clone();
    let nullable = count.params.args.iter().map(|of| of.nullable(input));
    if !nullable.collect::<Result<Vec<_>>>()?.contains(&true) {
        count.params.args = vec![Expr::Literal(COUNT_STAR_EXPANSION, None)];
    }
    Ok(count)
}
