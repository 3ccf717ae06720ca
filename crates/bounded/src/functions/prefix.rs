//! The least text behind all texts with a prefix: the end of the interval that `like 'wh%'` and
//! `starts_with(name, ?)` are.

use datafusion::arrow::array::{Array, AsArray, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// Behind all texts: no character comes after it, and it is none.
const LAST: char = char::MAX;

/// The least text behind all that begin with this one.
pub(crate) fn after(prefix: &str) -> String {
    let mut letters: Vec<char> = prefix.chars().collect();
    while let Some(last) = letters.pop() {
        if last != LAST {
            // The numbers between these two are no characters.
            let next = if last == '\u{D7FF}' { Some('\u{E000}') } else { char::from_u32(last as u32 + 1) };
            letters.extend(next);
            return letters.into_iter().collect();
        }
    }
    // Nothing is behind all texts; a text of these four alone is taken for none.
    [LAST; 4].iter().collect()
}

/// `after_prefix(text)`: [`after`] as a function of a parameter.
pub(crate) fn after_prefix() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(AfterPrefix { signature: Signature::any(1, Volatility::Immutable) }))
}

/// The function `after_prefix`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct AfterPrefix {
    signature: Signature,
}

impl ScalarUDFImpl for AfterPrefix {
    fn name(&self) -> &str {
        "after_prefix"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [prefix] = args.args.as_slice() else { return exec_err!("after_prefix takes a text") };
        let texts = cast(&prefix.to_array(args.number_rows)?, &DataType::Utf8)?;
        let ends: StringArray = texts.as_string::<i32>().iter().map(|text| text.map(after)).collect();
        Ok(match prefix {
            ColumnarValue::Scalar(_) if !ends.is_empty() => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&ends, 0)?)
            }
            _ => ColumnarValue::Array(Arc::new(ends)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::after;

    #[test]
    fn texts_that_begin_with_a_prefix_are_before_its_end_and_others_are_not() {
        let letters = ["", "a", "b", "\u{D7FF}", "\u{E000}", "z", "\u{10FFFF}"];
        let texts: Vec<String> = letters
            .iter()
            .flat_map(|a| letters.map(|b| letters.map(|c| format!("{a}{b}{c}"))))
            .flatten()
            .collect();
        for prefix in texts.iter().filter(|prefix| prefix.chars().any(|letter| letter != '\u{10FFFF}')) {
            let end = after(prefix);
            for text in &texts {
                let within = *prefix <= *text && *text < end;
                assert_eq!(within, text.starts_with(prefix.as_str()), "{prefix:?} {text:?} {end:?}");
            }
        }
        assert!(texts.iter().all(|text| *text < after("")));
    }
}
