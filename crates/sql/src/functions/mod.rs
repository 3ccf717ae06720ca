//! Functions of values that DataFusion does not have, by DuckDB's names. One family, one file.
//!
//! A program (`to_python`) has no word for them.

mod bins;
mod bits;
mod blobs;
mod calendar;
mod clock;
mod floats;
mod histogram;
mod instants;
mod interval_text;
pub(crate) mod json;
mod lengths;
mod list_length;
mod lists;
mod matches;
mod overridden;
mod read;
mod reductions;
pub(crate) mod references;
mod registry;
mod sequences;
mod series;
mod sizes;
mod templates;
mod text;
mod to_timestamp;
pub(crate) mod type_names;
mod whole_decimals;
pub(crate) mod zones;

pub(crate) use bits::{shift_left, shift_right};
pub(crate) use blobs::{blob_of_text, blob_of_text_or_null};
pub(crate) use calendar::truncated;
pub(crate) use clock::time_of_text;
pub(crate) use floats::{narrow, narrow_or_null, round, trunc};
pub(crate) use instants::{YEARS, format_of_chrono, part_of_length};
pub(crate) use interval_text::{with_units, with_units_of};
pub(crate) use lengths::{INTERVAL_LENGTH, comparable, parts, times};
pub(crate) use read::{cast_of_text, reads as reads_text};
pub(crate) use registry::{aggregate_functions, is_aggregate, is_scalar, names, scalar_functions};
pub(crate) use sequences::{Sequence, Sequences, of as of_sequences};
pub(crate) use text::{has_own as has_own_text, text};

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// All of them.
pub(crate) fn all() -> Vec<Arc<ScalarUDF>> {
    let families = [
        lengths::all(),
        calendar::all(),
        bins::all(),
        instants::all(),
        zones::all(),
        reductions::all(),
        histogram::all(),
        bits::all(),
        sizes::all(),
        templates::all(),
        matches::all(),
        json::all(),
        lists::all(),
        to_timestamp::all(),
        series::all(),
        whole_decimals::all(),
    ];
    families.into_iter().flatten().collect()
}

/// Functions that statements cannot name: rewrites put them where DataFusion's operators and casts mean
/// something else.
fn internal() -> Vec<Arc<ScalarUDF>> {
    vec![
        shift_left(),
        shift_right(),
        truncated(),
        clock::function(),
        interval_text::function(),
        blob_of_text(),
        blob_of_text_or_null(),
        zones::instant_of_clock(),
        narrow(),
        narrow_or_null(),
        round(),
        trunc(),
        part_of_length(),
        times(),
        parts(),
        comparable(),
        text(),
    ]
}

/// A function that is computed from whole arrays, a row at a time.
#[derive(Debug)]
struct Mapped {
    /// Its name.
    name: &'static str,
    /// Its arguments.
    signature: Signature,
    /// Its type, by those of the arguments.
    returns: fn(&[DataType]) -> Result<DataType>,
    /// Computes it.
    compute: fn(&[ArrayRef]) -> Result<ArrayRef>,
}

/// There is one function of a name.
impl PartialEq for Mapped {
    fn eq(&self, other: &Mapped) -> bool {
        self.name == other.name
    }
}

impl Eq for Mapped {}

impl Hash for Mapped {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl Mapped {
    /// A function of whole arrays.
    fn function(
        name: &'static str,
        signature: Signature,
        returns: fn(&[DataType]) -> Result<DataType>,
        compute: fn(&[ArrayRef]) -> Result<ArrayRef>,
    ) -> Arc<ScalarUDF> {
        Arc::new(ScalarUDF::from(Mapped { name, signature, returns, compute }))
    }

    /// A function of arguments of these types.
    fn exact(
        name: &'static str,
        arguments: Vec<DataType>,
        returns: fn(&[DataType]) -> Result<DataType>,
        compute: fn(&[ArrayRef]) -> Result<ArrayRef>,
    ) -> Arc<ScalarUDF> {
        Mapped::function(name, Signature::exact(arguments, Volatility::Immutable), returns, compute)
    }
}

impl ScalarUDFImpl for Mapped {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        (self.returns)(arguments)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if scalar { 1 } else { args.number_rows };
        let arrays = args.args.into_iter().map(|arg| arg.into_array(rows));
        let computed = (self.compute)(&arrays.collect::<Result<Vec<_>>>()?)?;
        Ok(match scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&computed, 0)?),
            false => ColumnarValue::Array(computed),
        })
    }
}
