//! The words of a text, for `like [token]`. An index of words finds the rows for which `has_token` is true.
//!
//! A word is a run of letters and digits, in lower case. It is cut after 64 letters, in the index and in a
//! search alike, so that an entry of an index has a greatest size.

use datafusion::arrow::array::{Array, AsArray, BooleanArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The name of the function that `like [token]` is.
pub(crate) const HAS_TOKEN: &str = "has_token";

/// The most letters of a word that count.
pub(crate) const LONGEST: usize = 64;

/// The words of some texts, each once.
pub(crate) fn words<'t>(texts: impl Iterator<Item = &'t str>) -> BTreeSet<String> {
    let words = texts.flat_map(|text| text.split(|c: char| !c.is_alphanumeric()));
    words.filter(|word| !word.is_empty()).map(folded).collect()
}

/// A word in lower case, cut to its greatest length.
fn folded(word: &str) -> String {
    word.chars().flat_map(char::to_lowercase).take(LONGEST).collect()
}

/// The word that is searched for; `None` if it is not one word.
pub(crate) fn searched(text: &str) -> Option<String> {
    let mut found = words(std::iter::once(text.trim()));
    match found.len() {
        1 => found.pop_first(),
        _ => None,
    }
}

/// `has_token(word, columns…)`: whether one of the columns has the word.
pub(crate) fn has_token() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(HasToken { signature: Signature::variadic_any(Volatility::Immutable) }))
}

/// The function `has_token`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct HasToken {
    signature: Signature,
}

impl ScalarUDFImpl for HasToken {
    fn name(&self) -> &str {
        HAS_TOKEN
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let texts = arrays.iter().map(|array| cast(array, &DataType::Utf8));
        let texts = texts.collect::<std::result::Result<Vec<_>, _>>()?;
        let Some((word, columns)) = texts.split_first() else {
            return exec_err!("like [token] takes a word and at least one column");
        };
        let found = (0..args.number_rows).map(|row| {
            let value = |array: &dyn Array| {
                let texts = array.as_string::<i32>();
                (!texts.is_null(row)).then(|| texts.value(row).to_string())
            };
            let Some(word) = value(word).and_then(|text| searched(&text)) else { return Some(false) };
            let texts: Vec<String> = columns.iter().filter_map(|column| value(column)).collect();
            Some(words(texts.iter().map(String::as_str)).contains(&word))
        });
        let found: BooleanArray = found.collect();
        Ok(match args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_))) {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&found, 0)?),
            false => ColumnarValue::Array(Arc::new(found)),
        })
    }
}
