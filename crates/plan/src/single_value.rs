//! `single_value`: the value of the only row there is. A query that stands for one value has it as its
//! aggregate.
//!
//! Invariant: none of no rows is null, and a second row is an error, whatever its value.

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use std::sync::{Arc, LazyLock};

/// The name of the function.
const NAME: &str = "single_value";

/// The aggregate.
pub fn single_value() -> Arc<AggregateUDF> {
    static FUNCTION: LazyLock<Arc<AggregateUDF>> =
        LazyLock::new(|| Arc::new(AggregateUDF::from(SingleValue::new())));
    Arc::clone(&FUNCTION)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SingleValue {
    signature: Signature,
}

impl SingleValue {
    fn new() -> SingleValue {
        SingleValue { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for SingleValue {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments.first().cloned().unwrap_or(DataType::Null))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let value = args.return_field.data_type().clone();
        Ok(vec![
            Arc::new(Field::new(format!("{}[rows]", args.name), DataType::Int64, false)),
            Arc::new(Field::new(format!("{}[value]", args.name), value, true)),
        ])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Only { rows: 0, value: ScalarValue::try_from(args.return_type())? }))
    }
}

/// How many rows there were (two are never kept), and the value of the one.
#[derive(Debug)]
struct Only {
    rows: i64,
    value: ScalarValue,
}

impl Only {
    fn add(&mut self, rows: i64) -> Result<()> {
        self.rows += rows;
        match self.rows > 1 {
            true => exec_err!(
                "a query in parentheses stands for one value, but gives more than one row; add limit 1, or aggregate its rows"
            ),
            false => Ok(()),
        }
    }
}

impl Accumulator for Only {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let Some(values) = values.first().filter(|values| !values.is_empty()) else { return Ok(()) };
        self.add(values.len() as i64)?;
        self.value = ScalarValue::try_from_array(values, 0)?;
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [rows, values] = states else { return Ok(()) };
        for (at, rows) in rows.as_primitive::<Int64Type>().values().iter().enumerate() {
            if *rows > 0 {
                self.add(*rows)?;
                self.value = ScalarValue::try_from_array(values, at)?;
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::Int64(Some(self.rows)), self.value.clone()])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.value.clone())
    }

    fn size(&self) -> usize {
        size_of_val(self) - size_of_val(&self.value) + self.value.size()
    }
}
